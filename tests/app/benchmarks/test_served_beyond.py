"""Runs that were measured although the prediction says they are impossible are still priced."""

import json

import pytest

from app.benchmarks import calibration
from app.benchmarks.comparison import compare
from app.benchmarks.deployment import deployment
from app.benchmarks.guard import guard
from app.benchmarks.load import load_of
from app.benchmarks.replay import replay
from app.benchmarks.simulation import simulate
from profilers.serving_results import read_results
from tests.app.benchmarks.conftest import HARDWARE, RUN, measured_as
from tests.profilers.serving_results.conftest import RESULTS

#: 100 answered requests within a few seconds; as a steady load the queue would grow.
SERVED = {
    **measured_as({**RUN, "num_prompts": 100, "completed": 100, "total_input_tokens": 102400,
                   "total_output_tokens": 102400, "max_concurrency": 64}, 0.3, 0.014),
    "request_rate": 16.0, "max_concurrency": None,
}  # fmt: skip


@pytest.fixture
def full(read):
    """The run as it is priced."""
    return deployment(read(SERVED), HARDWARE)


def test_a_finite_run_that_was_served_is_priced_as_it_went(full):
    [point] = compare([full]).points
    assert not point.refused and point.prediction.status == "overloaded"
    simulated = simulate(full).figures
    for figure in ("ttft_mean_s", "tpot_mean_s", "e2e_mean_s", "output_tokens_per_s"):
        assert point.row(figure).predicted.value == simulated[figure]
    gap = point.row("tpot_mean_s").predicted
    assert gap.low < gap.value < gap.high
    assert any("simulated with their own arrivals" in words for words in point.prediction.notes)


def test_it_is_judged_compared_and_teaches(own_data, answer, printed, result, full):
    typed = [word for name, value in HARDWARE.items() for word in (f"--{name}", str(value))]
    [run] = answer("compare", result(SERVED), *typed)["runs"]
    assert run["status"] == "overloaded" and run["refused"] == ""
    assert {one.figure for one in guard(compare([full])).verdicts} >= {"tpot_mean_s"}
    assert "kept in" in printed("calibrate", "runs", result(SERVED), *typed)


@pytest.mark.slow
def test_it_does_not_make_a_set_of_runs_teach_nothing(own_data, read, full):
    calm = [measured_as({**RUN, "max_concurrency": n}, 0.1, 0.011) for n in (4, 8)]
    given = [deployment(read(run), HARDWARE) for run in calm]
    learnt = calibration.calibrate([*given, full])
    assert learnt.recipes[0].fit.after.points == 6 and not learnt.left_out
    assert learnt.recipes[0].fit.after.mape < learnt.recipes[0].fit.before.mape


def test_what_did_fit_is_priced_with_memory_enough(read):
    large = deployment(read(SERVED), {**HARDWARE, "model": "meta-llama/Llama-3.1-70B"})
    [point] = compare([large]).points
    assert point.row("tpot_mean_s").predicted.value > 0
    assert any("priced with enough memory" in words for words in point.prediction.notes)


@pytest.fixture
def at_once(tmp_path):
    """GuideLLM's profile throughput: 40 requests at once, under a limit of 512."""
    report = json.loads((RESULTS / "guidellm" / "report_v2.json").read_text())
    [stage, *_] = report["benchmarks"]
    text = json.dumps(stage)
    [strategy] = [
        at for at in ("config", "scheduler", "args") if "strategy" in (stage.get(at) or {})
    ]
    stage = json.loads(text)
    stage[strategy]["strategy"] = {"type_": "throughput", "max_concurrency": 512}
    totals = {"successful": 40, "errored": 0, "incomplete": 0, "total": 40}
    stage["metrics"]["request_totals"] = totals
    path = tmp_path / "throughput.json"
    path.write_text(json.dumps({**report, "benchmarks": [stage]}))
    [measured] = read_results(path)
    return measured


def test_all_at_once_under_a_limit_is_no_closed_loop_of_the_limit(at_once):
    load = load_of(at_once, {})
    assert load.concurrency == 40 and load.waves == 1
    assert "limit of 512" in load.why
    model = {"model": "meta-llama/Llama-3.1-8B", "system": "h100", "engine": "vllm", "tp": 1}
    run = deployment(at_once, model)
    assert run.scenario.burst_start and run.scenario.requests == 40
    outcome = simulate(run).run
    assert len(outcome.drawn.requests) == 40 and outcome.question.concurrency == 40


def test_a_listed_run_is_replayed_whatever_a_steady_load_would_do(tmp_path, result):
    count = 20
    listed = {
        "num_prompts": count, "completed": count, "request_rate": 200.0, "max_concurrency": None,
        "total_input_tokens": 1024 * count, "total_output_tokens": 1024 * count,
        "input_lens": [1024] * count, "output_lens": [1024] * count, "ttfts": [0.1] * count,
        "itls": [[0.01] * 1023] * count, "start_times": [5.0 + 0.005 * at for at in range(count)],
    }  # fmt: skip
    run = measured_as({**RUN, **listed, "max_concurrency": count}, 0.1, 0.01)
    [measured] = read_results(result({**run, "max_concurrency": None}))
    run = deployment(measured, HARDWARE)
    assert compare([run]).points[0].prediction.status == "overloaded"
    assert simulate(run).run.drawn.requests.arrival_s[-1] == pytest.approx(0.095), "own arrivals"
    replayed = replay(run)
    assert replayed.arrivals == "of the file" and len(replayed.table) == count
    assert replayed.table["arrival_s"].iloc[-1] == pytest.approx(0.095)
    assert (replayed.table["ttft_ratio"] > 0).all()
