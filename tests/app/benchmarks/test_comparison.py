"""Figures of a result beside their prediction."""

import math
from dataclasses import replace

import pytest
import ridgeline as python

import genz_core
from app.benchmarks.closed_form import predict
from app.benchmarks.comparison import compare, measured_figures
from app.benchmarks.deployment import deployment
from app.benchmarks.findings import findings
from app.benchmarks.simulation import simulate, with_simulations
from genz_core.errors import InvalidValue
from profilers.serving_results import Percentiles, read_results
from tests.app.benchmarks.conftest import HARDWARE, RUN, measured_as, slower
from tests.profilers.serving_results.conftest import RESULTS

TYPED = [word for name, value in HARDWARE.items() for word in (f"--{name}", str(value))]


def compared(read, *runs, level=0.8, given=HARDWARE):
    return compare([deployment(read(run), given) for run in runs], level)


def test_every_figure_of_the_file_is_a_row(read):
    [point] = compared(read, RUN).points
    assert {row.figure for row in point.rows} == set(measured_figures(read(RUN)))
    assert {"ttft_p99_s", "tpot_p99_s", "e2e_p99_s", "requests_per_s"} <= {
        row.figure for row in point.rows
    }


def test_the_prediction_is_that_of_serve(read):
    [point] = compared(read, RUN).points
    served = python.serve(
        "meta-llama/Llama-3.1-8B", system="h100", engine="vllm", weights="bf16", concurrency=8,
        isl=1024, osl=1024, burst_start=True,
    )  # fmt: skip
    for figure, name in (("ttft_mean_s", "ttft_s"), ("tpot_mean_s", "tpot_s")):
        row = point.row(figure).predicted
        assert row.value == pytest.approx(getattr(served, name))
        ends = (getattr(served, f"{name[:-2]}_{end}_s") for end in ("low", "high"))
        assert (row.low, row.high) == pytest.approx(tuple(ends))


def test_a_request_takes_its_first_token_and_the_others(read):
    figures = predict(deployment(read(RUN), HARDWARE), 0.8).figures
    for part in ("value", "low", "high", "bound"):
        first, later = (getattr(figures[name], part) for name in ("ttft_mean_s", "tpot_mean_s"))
        assert getattr(figures["e2e_mean_s"], part) == pytest.approx(first + 1023 * later)


def test_intervals_hold_the_prediction_and_end_at_the_bound(read):
    for row in compared(read, RUN, level=0.99).points[0].rows:
        one = row.predicted
        if math.isfinite(one.low):
            assert one.low <= one.value <= one.high
            if math.isfinite(one.bound):
                assert one.high <= one.bound * 1.000001 if row.is_rate else one.low >= one.bound


def test_a_point_below_the_bound_is_marked_and_a_sentence_says_what_that_means(read):
    comparison = compared(read, slower(RUN, 1 / 20))
    assert comparison.points[0].row("tpot_mean_s").place == "below bound"
    assert any("better than the hardware allows" in one.sentence for one in findings(comparison))


def test_the_summary_counts_the_figures_without_an_interval(read):
    comparison = compared(read, RUN)
    places = [row.place for row in comparison.points[0].rows]
    [summary] = [one.sentence for one in findings(comparison) if one.kind == "summary"]
    judged = sum(place in ("inside", "worse", "better") for place in places)
    assert f" of {judged} figures with an interval lie inside" in summary
    assert f"Predicted without an interval: {places.count('not validated')};" in summary
    assert summary.endswith(f"not predicted: {places.count('not predicted')}.")
    assert places.count("not predicted") > 0


def test_one_factor_at_every_load_is_told_from_a_gap_that_grows(read):
    loads = (1, 8, 64)

    def runs(factors):
        for users, factor in zip(loads, factors, strict=True):
            run = {**RUN, "max_concurrency": users}
            figures = predict(deployment(read(run), HARDWARE), 0.8).figures
            yield measured_as(run, 0.09, figures["tpot_mean_s"].value * factor)

    same = [one.sentence for one in findings(compared(read, *runs((1.4, 1.4, 1.4))))]
    alone = [one.sentence for one in findings(compared(read, *list(runs((1.4, 1.4, 1.4)))[:1]))]
    grows = [one.sentence for one in findings(compared(read, *runs((1.0, 1.3, 1.9))))]
    assert any("(1.40 x measured over predicted)" in words for words in same)
    assert any("at every load" in words for words in same)
    assert any("slower than predicted at this load (1.40 x" in words for words in alone)
    assert not any("at every load" in words for words in alone)
    assert any("grows with load" in words for words in grows)


def test_the_simulation_stands_beside_every_percentile(read):
    [point] = with_simulations(compared(read, RUN)).points
    assert all(math.isfinite(row.simulated) for row in point.rows)
    figures = simulate(point.deployment).figures
    assert point.row("ttft_p99_s").simulated == figures["ttft_p99_s"]
    assert figures["requests"] == 80


def test_a_run_at_a_rate_ends_after_its_last_request(read):
    run = {**RUN, "request_rate": 2.0, "max_concurrency": None}
    figures = predict(deployment(read(run), HARDWARE), 0.8).figures
    seconds = 80 / 2.0 + figures["e2e_mean_s"].value
    assert figures["requests_per_s"].value == pytest.approx(80 / seconds)


def test_a_prefill_at_depth_computes_its_own_tokens_and_attends_to_those_before():
    """llama-bench's pp512 @ d512: 512 tokens are computed, not 1,024."""
    runs = read_results(RESULTS / "llama_bench" / "llama-bench_qwen2_7b.md")
    points = {
        run.subject.label: compare([deployment(run, {"system": "rtx-4080"})]).points[0]
        for run in runs
    }
    alone, deep = points["pp512"], points["pp512 @ d512"]
    first, after = (point.row("ttft_mean_s").predicted for point in (alone, deep))
    resolved = deep.deployment.priced()
    priced = genz_core.estimate(
        resolved.model, resolved.system, genz_core.Workload(1, 1024, 1, cached=512),
        engine=resolved.engine,
    )  # fmt: skip
    assert after.value == pytest.approx(priced.ttft_s[0])
    for part in ("value", "bound"):
        assert 1.0 < getattr(after, part) / getattr(first, part) < 1.1
    assert any("no measured run had cached prompts" in said for said in deep.prediction.notes)


def test_a_prefill_far_into_a_context_is_not_beyond_the_hardware():
    [run] = [
        one
        for one in read_results(RESULTS / "llama_bench" / "llama-bench_rtx4080.json")
        if one.subject.label == "pp512"
    ]
    seconds = run.ttft_s.mean * 2.2
    deep = replace(
        run,
        lengths=replace(run.lengths, context=8192.0),
        ttft_s=Percentiles(mean=seconds),
        throughput=replace(run.throughput, input_tokens_per_s=512 / seconds),
    )
    [point] = compare([deployment(deep, {"system": "rtx-4080"})]).points
    assert not point.failed
    assert 0.5 < point.row("ttft_mean_s").ratio < 2.0


def test_the_command_tells_a_result_by_its_content(answer, result):
    document = answer("compare", result(RUN, "anything.txt"), *TYPED)
    [run] = document["runs"]
    rows = {row["figure"]: row for row in run["figures"]}
    assert rows["tpot_mean_s"]["measured"] == pytest.approx(8.9e-3)
    assert rows["tpot_mean_s"]["low"] < rows["tpot_mean_s"]["predicted"]
    assert document["findings"][0]["kind"] == "summary"


def test_the_command_asks_for_what_is_missing(ridgeline, result):
    refused = ridgeline("compare", result(RUN))
    assert isinstance(refused.exception, InvalidValue) and "--system" in str(refused.exception)


def test_reports_and_results_are_not_compared_together(ridgeline, result, tmp_path):
    other = tmp_path / "other.json"
    other.write_text("{}")
    refused = ridgeline("compare", result(RUN), other, *TYPED)
    assert "compare them separately" in str(refused.exception)


def test_python_compares_results_as_the_command_does(answer, result):
    path = result(RUN)
    table = python.compare(path, system="h100", tp=1, weights="bf16").to_dataframe()
    [run] = answer("compare", path, *TYPED)["runs"]
    printed = {row["figure"]: row["predicted"] for row in run["figures"]}
    for figure, value in zip(table["figure"], table["predicted"], strict=True):
        assert printed[figure] is None if math.isnan(value) else printed[figure] == value
