"""guidellm's reports: strategies, requests and tables in the forms of its versions."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from genz_core.errors import ReportError
from profilers.serving_results import ServingMeasurement

Read = Callable[..., list[ServingMeasurement]]


def report(strategy: dict[str, Any] | None = None, **benchmark: Any) -> str:
    config = {"config": {"strategy": strategy}} if strategy is not None else {}
    metrics = {"time_to_first_token_ms": {"successful": {"mean": 50.0}}}
    return json.dumps({"benchmarks": [{**config, "metrics": metrics, **benchmark}]})


@pytest.mark.parametrize(
    ("strategy", "load"),
    [
        ({"type_": "synchronous"}, (1.0, None, None)),
        ({"type_": "concurrent", "streams": 8}, (8.0, None, None)),
        ({"kind": "concurrent", "max_concurrency": 4}, (4.0, None, None)),
        ({"type_": "throughput", "max_concurrency": 64}, (64.0, math.inf, None)),
        ({"type_": "throughput"}, (None, math.inf, None)),
        ({"type_": "constant", "rate": 2.5}, (None, 2.5, math.inf)),
        ({"type_": "poisson", "rate": 2.5}, (None, 2.5, 1.0)),
        ({"type_": "async", "rate": 2.5}, (None, 2.5, None)),
        ({"type_": "incremental", "rate": 3}, (None, 3.0, None)),
        (None, (None, None, None)),
    ],
)
def test_each_strategy_is_a_concurrency_or_a_rate(read_text: Read, strategy, load) -> None:
    """The rate of "throughput" is unbounded; a constant rate has no bursts, a Poisson one has
    burstiness 1.
    """
    [found] = read_text(report(strategy))
    assert (found.load.concurrency, found.load.rate, found.load.burstiness) == load


def test_listed_requests_are_rows_with_what_became_of_them(read_text: Read) -> None:
    def request(start: float, **more: Any) -> dict[str, Any]:
        return {"start_time": start, "prompt_tokens": 100, "output_tokens": 11,
                "time_to_first_token_ms": 50.0, "inter_token_latency_ms": 10.0,
                "request_latency": 0.15, **more}  # fmt: skip

    nested = request(0.0) | {"info": {"timings": {"request_start": 3.0}}}
    del nested["start_time"]
    requests = {
        "successful": [request(1.0), request(2.0), nested, "no request"],
        "errored": [request(1.5)],
        "incomplete": None,
    }
    [found] = read_text(report({"type_": "synchronous"}, requests=requests))
    assert list(found.requests["arrival_s"]) == [0.0, 1.0, 2.0, 0.5]
    assert list(found.requests["ok"]) == [True, True, True, False]
    assert set(found.requests["tpot_s"]) == {0.01} and set(found.requests["isl"]) == {100}


@pytest.mark.parametrize("listed", [{}, {"successful": []}, [1, 2]])
def test_a_report_that_lists_no_request_has_no_rows(read_text: Read, listed) -> None:
    [found] = read_text(report({"type_": "synchronous"}, requests=listed))
    assert found.requests is None


@pytest.mark.parametrize(
    "data",
    ["prompt_tokens=256, output_tokens=128", ['{"prompt_tokens": 256, "output_tokens": 128}'],
     [{"prompt_tokens": 256, "output_tokens": 128}]],
)  # fmt: skip
def test_the_lengths_that_were_asked_for_are_read_however_they_are_written(read_text, data) -> None:
    [found] = read_text(report({"type_": "synchronous"}, args={"data": data}))
    assert (found.lengths.isl_asked, found.lengths.osl_asked) == (256, 128)


_HEADER = [
    "Type", "Run Id", "Id", "Name", "Duration", "Successful Requests", "Errored Requests",
    "Successful Request latency mean", "Successful Request latency std dev",
    "Successful Time to first token ms [min, 0.1, 1, 5, 10, 25, 75, 90, 95, 99, max]",
    "Errored Time to first token ms mean", "Profile", "Backend",
]  # fmt: skip


def test_a_table_of_one_header_row_says_mean_spread_and_percentiles(read_text: Read, tmp_path):
    rows = [
        _HEADER,
        ["generative_benchmark", "1", "2", "poisson@4", "10", "40", "2", "1.5", "0.25",
         "[10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]", "999", "", '{"model": "a/b"}'],
        ["generative_benchmark", "1", "2", "concurrent@8", "10", "40", "0", "1.5", "", "[1, 2]",
         "", "", ""],
    ]  # fmt: skip
    path = tmp_path / "table"
    with path.open("w", newline="") as opened:
        csv.writer(opened).writerows(rows)
    first, second = read_text(path.read_text())
    assert (first.load.rate, first.load.errors, first.subject.model) == (4.0, 2, "a/b")
    assert first.e2e_s.mean == 1.5
    percents = {1.0: 0.012, 25.0: 0.015, 99.0: 0.019}
    assert {p: first.ttft_s.at[p] for p in percents} == pytest.approx(percents)
    assert first.ttft_s.mean is None, "of the requests that failed"
    assert second.load.concurrency == 8 and not second.ttft_s


def test_a_table_of_its_header_alone_is_refused(read_text: Read) -> None:
    with pytest.raises(ReportError, match="the table holds no benchmark"):
        read_text(",".join(f'"{name}"' for name in _HEADER) + "\n")
