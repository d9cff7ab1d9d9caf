"""Sums that results of benchmarks must satisfy, on real files and on contradictory ones."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from profilers.comparison.account import failed, of_result
from profilers.serving_results import ServingMeasurement, read_results
from profilers.serving_results.measurement import (
    LATENCIES,
    MeasuredLoad,
    Percentiles,
    Subject,
)

RESULTS = Path(__file__).parents[2] / "fixtures" / "results"


def measured(path):
    return read_results(RESULTS / path)


@pytest.mark.parametrize("path", [
    "aiperf/profile_export_aiperf.json", "aiperf/profile_export.jsonl",
    "aiperf/aiperf_0.13_poisson.json", "guidellm/report_v2.json", "guidellm/guidellm_0.8.1.csv",
    "sglang/llama_405b_online_output.jsonl", "llmperf/anyscale_70b_first30.json",
    "inferencex/minimax_m25_vllm_tep8_isl8192_osl128_conc32.json", "vllm/mi300x_console.txt",
])  # fmt: skip
def test_real_results_meet_every_sum(path):
    checks = [check for one in measured(path) for check in of_result(one)]
    assert checks
    assert not [check.sentence for check in failed(tuple(checks))]


@pytest.mark.parametrize("path", [
    "aiperf/profile_export_aiperf.json", "guidellm/report_v2.json",
    "aiperf/aiperf_0.13_poisson.json",
])  # fmt: skip
def test_halved_gaps_fail_the_sum_of_a_request(path):
    """A client that counts two stream chunks per token halves TPOT and ITL."""
    for one in measured(path):
        gaps = {
            name: replace(
                spread, mean=spread.mean / 2, std=spread.std and spread.std / 2,
                at={percent: value / 2 for percent, value in spread.at.items()},
            )
            for name in ("tpot_s", "itl_s")
            if (spread := getattr(one, name)).mean
        }  # fmt: skip
        [check] = failed(of_result(one.with_latencies(gaps)))
        assert "E2E = TTFT + (OSL - 1)" in check.name
        assert check.left == pytest.approx(2 * check.right, rel=0.07)
        assert "counts stream chunks" in check.sentence


@pytest.mark.parametrize("path", [
    "aiperf/profile_export_aiperf.json", "guidellm/report_v2.json", "vllm/mi300x_console.txt",
    "sglang/llama_405b_online_output.jsonl",
])  # fmt: skip
def test_a_mean_far_below_its_percentiles_is_found(path):
    one = measured(path)[0]
    known = {
        name: getattr(one, name)
        for name in LATENCIES
        if getattr(one, name).at and getattr(one, name).mean
    }
    for name, spread in known.items():
        wrong = one.with_latencies({name: replace(spread, mean=spread.mean / 10, std=None)})
        assert "percentiles agree with the mean" in " ".join(
            c.name for c in failed(of_result(wrong))
        )
    assert known


def test_a_halved_mean_is_found_by_the_standard_deviation():
    """Without E2E and without open requests no other check sees it."""
    at = {50.0: 0.112, 99.0: 0.153}
    halved = Percentiles(mean=0.0533, std=0.023, at=at)
    [check] = failed(of_result(ServingMeasurement("tool", Subject("tool"), tpot_s=halved)))
    assert check.name == "percentiles agree with the mean, TPOT p50"
    assert check.left == 112.0 and check.right == pytest.approx(53.3 + 23.0)
    whole = replace(halved, mean=0.1066)
    assert not failed(of_result(ServingMeasurement("tool", Subject("tool"), tpot_s=whole)))


@given(st.lists(st.floats(1e-4, 1e3), min_size=1, max_size=60))
def test_no_distribution_contradicts_itself(values):
    percents = (1.0, 25.0, 50.0, 75.0, 90.0, 99.0, 99.9)
    at = dict(zip(percents, np.percentile(values, percents).tolist(), strict=True))
    true = Percentiles(float(np.mean(values)), float(np.std(values)), at=at)
    for spread in (true, replace(true, std=None)):
        one = ServingMeasurement("tool", Subject("tool"), ttft_s=spread)
        assert not failed(of_result(one))


def test_a_client_that_counts_pieces_is_found_in_a_real_file():
    [stage] = measured("inference_perf/stage_3_lifecycle_metrics.json")
    [check] = failed(of_result(stage))
    assert check.left / check.right == pytest.approx(2.09, abs=0.01)


def test_each_request_is_its_own_sum_where_they_are_listed(tmp_path):
    """Means over requests of very different lengths need not add up, but each request must."""
    record = {
        "backend": "vllm", "model_id": "m", "num_prompts": 4, "request_rate": 1.0, "completed": 4,
        "duration": 40.0, "total_input_tokens": 40, "total_output_tokens": 1006,
        "request_throughput": 0.1, "output_throughput": 25.15, "mean_ttft_ms": 100.0,
        "mean_tpot_ms": 57.5, "input_lens": [10] * 4, "output_lens": [1001, 2, 2, 1],
        "ttfts": [0.1] * 4, "itls": [[0.01] * 1000, [0.0625], [0.1], []],
    }  # fmt: skip
    path = tmp_path / "result.json"
    path.write_text(json.dumps(record))
    [one] = read_results(path)
    assert not failed(of_result(one))
    half = one.with_latencies({"tpot_s": replace(one.tpot_s, mean=one.tpot_s.mean / 2)})
    assert [check.name for check in failed(of_result(half))]


def test_littles_law_tells_a_loop_that_was_fuller_or_emptier_than_its_limit():
    [one] = measured("aiperf/profile_export_aiperf.json")
    rates = one.throughput
    twice = replace(one, throughput=replace(rates, requests_per_s=2 * rates.requests_per_s))
    assert {check.name.partition(" =")[0] for check in failed(of_result(twice))} >= {
        "open requests"
    }
    idle = replace(one, load=replace(one.load, concurrency=2.0))
    [check] = failed(of_result(idle))
    assert (check.left, check.right) == (pytest.approx(0.91, abs=0.01), 2.0)


def test_output_tokens_a_second_give_the_open_requests_where_requests_a_second_are_not_stated(
    tmp_path,
):
    """Sixteen users at a gap of 17 ms get at most 941 tokens/s, not 1,838."""
    path = tmp_path / "own.csv"
    header = "concurrency,isl,osl,ttft_mean_s,tpot_mean_ms,output_tokens_per_s"
    path.write_text(f"{header}\n16,1024,256,0.06,17,1838\n16,1024,256,0.06,8.5,1838\n")
    wrong, right = read_results(path)
    [check] = failed(of_result(wrong))
    assert check.name == "open requests = output tokens/s / OSL x E2E"
    e2e_s = 0.06 + 255 * 0.017
    assert (check.left, check.right) == (pytest.approx(1838 / 256 * e2e_s), 16.0)
    assert "another unit" in check.why
    [passed] = [one for one in of_result(right) if one.name == check.name]
    assert passed.outcome == "passed"


#: A consistent closed loop of sixteen users: 160 requests in 22.3 s.
LOOP = {
    "backend": "vllm", "model_id": "m", "num_prompts": 160, "request_rate": "inf",
    "max_concurrency": 16, "duration": 22.275, "completed": 160, "failed": 0,
    "total_input_tokens": 163840, "total_output_tokens": 40960, "request_throughput": 7.183,
    "output_throughput": 1838.8, "mean_ttft_ms": 60.0, "mean_tpot_ms": 8.5, "mean_e2el_ms": 2227.5,
    "p99_tpot_ms": 9.1,
}  # fmt: skip
HALF = {"completed": 80, "failed": 80, "total_input_tokens": 81920, "total_output_tokens": 20480}


def loop(tmp_path, **changes):
    """The closed loop with some fields changed."""
    path = tmp_path / "loop.json"
    path.write_text(json.dumps({**LOOP, **changes}))
    [one] = read_results(path)
    return one


def test_a_consistent_loop_passes_every_check(tmp_path):
    assert {check.outcome for check in of_result(loop(tmp_path))} == {"passed"}


def test_rates_that_count_failed_requests_contradict_duration_and_input(tmp_path):
    checks = {one.name: one for one in failed(of_result(loop(tmp_path, **HALF)))}
    rate = checks["requests/s = answered requests / duration"]
    assert (rate.left, rate.right) == (7.183, pytest.approx(80 / 22.275))
    tokens = checks["input tokens/s = requests/s x ISL"]
    assert tokens.right == pytest.approx(2 * tokens.left, rel=1e-3)
    assert all("80 of 160 requests failed" in one.why for one in checks.values())


@pytest.mark.parametrize("stated, words", [
    (80, "80 of 160 requests failed"), (None, "80 of 160 requests were not answered"),
])  # fmt: skip
def test_failed_requests_are_the_cause_where_the_loop_was_emptier_for_them(tmp_path, stated, words):
    rates = {"request_throughput": 3.5915, "output_throughput": 919.4}
    one = loop(tmp_path, **{**HALF, **rates, "failed": stated})
    found = {check.name: check for check in failed(of_result(one))}
    assert set(found) == {"answered requests = sent requests", "open requests = requests/s x E2E"}
    assert all(check.why == words for check in found.values())
    assert f"{words} and count in no latency" in one.notes


def test_a_few_failed_requests_are_noted_and_fail_nothing(tmp_path):
    one = loop(tmp_path, completed=158, failed=2, duration=22.0)
    assert not failed(of_result(one))
    assert "2 of 160 requests failed and count in no latency" in one.notes


def test_a_time_limit_may_leave_a_request_of_each_user_open():
    load = MeasuredLoad(concurrency=16.0, requests=60, completed=44)
    one = ServingMeasurement("guidellm", Subject("guidellm"), load)
    assert not failed(of_result(one))
    lost = replace(one, load=replace(load, completed=30))
    assert [check.right for check in failed(of_result(lost))] == [60]


@pytest.mark.parametrize("rate", [0.07, 0.08])
def test_a_rate_that_is_printed_with_two_decimals_contradicts_nothing(tmp_path, rate):
    """108.42 s for eight answers are 0.0738 requests/s."""
    one = loop(
        tmp_path, num_prompts=8, completed=8, duration=108.42, request_throughput=rate,
        output_throughput=9.2, total_output_tokens=998, total_input_tokens=80000,
        mean_e2el_ms=13552.5, max_concurrency=1, mean_tpot_ms=108.9,
    )  # fmt: skip
    sums = {check.name: check.outcome for check in of_result(one) if "requests/s" in check.name}
    assert set(sums.values()) == {"passed"}, sums


def test_what_is_missing_is_said_and_fails_nothing():
    [one] = measured("vllm/h100x8_ip128_op2048_np32.json")
    checks = of_result(one)
    assert {check.outcome for check in checks} <= {"not made", "passed"}
    assert any("states no mean TPOT" in check.sentence for check in checks)
