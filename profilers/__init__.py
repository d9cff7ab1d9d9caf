"""Measure models on this machine, read profiler reports, and compare both with predictions.

report = profilers.read_report("trace.json.gz")
profilers.summarise(report)["top_kernel"]
"""

from genz_core.errors import ReportError
from profilers.comparison.compare import Comparison, compare
from profilers.operators.attribution import DEFAULT_PHASES, PhasePattern, attribute
from profilers.operators.gemms import gemm_table, gemm_table_of_graph
from profilers.operators.measurement import measure_from
from profilers.operators.summary import summarise
from profilers.readers import ACCEPTED, read_report, read_reports
from profilers.schema import DeviceInfo, Measurement, PhaseTiming, Report

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
