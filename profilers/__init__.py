"""Measure models on this machine, read profiler reports, and compare both with predictions.

report = profilers.read_report("trace.json.gz")
profilers.summarise(report)["top_kernel"]
"""

from genz_core.errors import ReportError
from profilers.attribution import DEFAULT_PHASES, PhasePattern, attribute
from profilers.compare import Comparison, compare
from profilers.gemms import gemm_table, gemm_table_of_graph
from profilers.measurement import measure_from
from profilers.readers import ACCEPTED, read_report, read_reports
from profilers.schema import DeviceInfo, Measurement, PhaseTiming, Report
from profilers.summary import summarise

__all__ = [
    "ACCEPTED",
    "DEFAULT_PHASES",
    "Comparison",
    "DeviceInfo",
    "Measurement",
    "PhasePattern",
    "PhaseTiming",
    "Report",
    "ReportError",
    "attribute",
    "compare",
    "gemm_table",
    "gemm_table_of_graph",
    "measure_from",
    "read_report",
    "read_reports",
    "summarise",
]
