"""Results of serving benchmarks: many tools' files in, `ServingMeasurement`s out.

for measurement in read_results("vllm-infqps.json"):
    measurement.tpot_s.mean, measurement.ttft_s.at.get(99.0), missing(measurement)
"""

from profilers.serving_results import server_log
from profilers.serving_results.measurement import (
    LATENCIES,
    REQUEST_COLUMNS,
    Lengths,
    MeasuredLoad,
    Percentiles,
    ServingMeasurement,
    Subject,
    Throughput,
    missing,
    table,
)
from profilers.serving_results.result_files import ACCEPTED, is_result, read_many, read_results

__all__ = [
    "ACCEPTED",
    "LATENCIES",
    "REQUEST_COLUMNS",
    "Lengths",
    "MeasuredLoad",
    "Percentiles",
    "ServingMeasurement",
    "Subject",
    "Throughput",
    "is_result",
    "missing",
    "read_many",
    "read_results",
    "server_log",
    "table",
]
