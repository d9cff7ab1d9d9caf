"""Which results of jobs on benchmark results visitors share."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from app.dashboard.panels.benchmark_answer import contents
from profilers.serving_results import ServingMeasurement
from profilers.serving_results.measurement import Percentiles, Subject


def test_runs_with_equal_figures_and_other_requests_are_two():
    requests = pd.DataFrame({"arrival_s": [0.0, 1.0], "isl": [100.0, 200.0]})
    run = ServingMeasurement(
        "log", Subject("llama"), ttft_s=Percentiles(mean=0.1), requests=requests
    )
    assert contents(run) == contents(replace(run, requests=requests.copy()))
    for other in (
        replace(run, requests=requests.assign(arrival_s=[0.0, 2.0])),
        replace(run, requests=None),
        replace(run, tpot_s=Percentiles(mean=0.01)),
    ):
        assert contents(other) != contents(run)
