"""The guard: passes, failures and messages."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest

from app.benchmarks.closed_form import predict
from app.benchmarks.comparison import compare
from app.benchmarks.deployment import deployment
from app.benchmarks.guard import guard
from genz_core.errors import InvalidValue
from tests.app.benchmarks.conftest import HARDWARE, RUN, measured_as, slower
from tests.app.benchmarks.test_sums import HALVED, SUM

TYPED = [word for name, value in HARDWARE.items() for word in (f"--{name}", str(value))]


def compared(measurement, level=0.95, given=HARDWARE):
    return compare([deployment(measurement, given)], level)


def test_a_result_passes_beside_itself_and_the_same_a_fifth_slower_fails(ridgeline, result):
    kept, late = result(RUN, "kept.json"), result(slower(RUN, 1.2), "late.json")
    passes = ridgeline("guard", kept, "--baseline", kept)
    assert passes.exit_code == 0 and "passed" in passes.stdout
    fails = ridgeline("guard", late, "--baseline", kept)
    assert fails.exit_code == 1
    assert "worse: late.json" in fails.stdout and "TPOT mean 10.7 ms" in fails.stdout


def test_better_than_the_baseline_is_said_and_passes(ridgeline, result):
    kept, early = result(RUN, "kept.json"), result(slower(RUN, 1 / 1.2), "early.json")
    answer = ridgeline("guard", early, "--baseline", kept)
    assert answer.exit_code == 0 and "better: early.json" in answer.stdout


def test_a_figure_passes_up_to_the_bad_end_of_its_interval_and_fails_beyond(read):
    prediction = predict(deployment(read(RUN), HARDWARE), 0.95)
    high = prediction.figures["tpot_mean_s"].high
    for factor, passes in ((0.999, True), (1.001, False)):
        run = slower(RUN, high * factor * 1e3 / RUN["mean_tpot_ms"])
        verdicts = guard(compared(read(run))).verdicts
        [tpot] = [one for one in verdicts if one.figure == "tpot_mean_s"]
        assert (tpot.outcome == "pass") is passes
        assert tpot.allowed == pytest.approx(high)


def test_a_rate_fails_below_the_low_end(read):
    prediction = predict(deployment(read(RUN), HARDWARE), 0.95)
    low = prediction.figures["output_tokens_per_s"].low
    for factor, passes in ((1.001, True), (0.999, False)):
        run = slower(RUN, RUN["output_throughput"] / (low * factor))
        [rate] = [
            one for one in guard(compared(read(run))).verdicts
            if one.figure == "output_tokens_per_s"
        ]  # fmt: skip
        assert (rate.outcome == "pass") is passes


def test_what_fails_at_a_level_fails_at_every_lower_one(read):
    measurement = read(slower(RUN, 1.3))
    failed = [
        {one.figure for one in guard(compared(measurement, level)).failed}
        for level in (0.6, 0.8, 0.95, 0.99)
    ]
    for more, fewer in pairwise(failed):
        assert fewer <= more
    assert failed[0]


def test_a_run_that_fails_a_check_is_judged_neither_by_prediction_nor_by_baseline(read):
    fast, halved = read(slower(RUN, 1 / 20)), read(HALVED)
    for run, given, check in ((fast, HARDWARE, "beyond the hardware"), (halved, {}, SUM)):
        with pytest.raises(InvalidValue, match="nothing can be judged") as refusal:
            guard(compared(run, given=given), [read(RUN)])
        assert check in str(refusal.value)


def test_a_baseline_that_fails_a_check_judges_nothing(read):
    with pytest.raises(InvalidValue, match="nothing can be judged") as refusal:
        guard(compared(read(RUN), given={}), [read(HALVED)])
    assert "baseline result.json, concurrency 8" in str(refusal.value)
    assert SUM in str(refusal.value)


@pytest.mark.parametrize(
    ("here", "before", "said"),
    [
        ({}, {"model_id": "meta-llama/Llama-3.2-1B"}, "model meta-llama/Llama-3.2-1B in the"),
        ({}, {"model_id": "neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8"}, "weights fp8 in the"),
        ({"gpu": "H100"}, {"gpu": "H200"}, "device H200 in the baseline, H100 here"),
        ({"tp": 2}, {"tp": 4}, "tp 4 in the baseline, 2 here"),
    ],
)
def test_a_baseline_of_another_deployment_judges_nothing(read, here, before, said):
    run, other = read({**RUN, **here}), read({**RUN, **before})
    outcome = guard(compared(run, given={"system": "h100"}), [other])
    assert {one.judge for one in outcome.verdicts} == {"prediction"}
    assert any("another deployment" in words and said in words for words in outcome.unjudged)


def test_a_baseline_may_name_the_same_deployment_in_other_words(read):
    here = read({**RUN, "gpu": "NVIDIA H100 80GB HBM3", "model_id": "/models/Llama-3.1-8B"})
    before = read({**RUN, "gpu": "H100", "backend": "sglang"})
    assert guard(compared(here, given={}), [before]).passed


def test_repeats_of_a_baseline_tell_how_much_runs_differ(read):
    late = compared(read(slower(RUN, 1.12)), given={})
    calm = [read(slower(RUN, factor)) for factor in (0.99, 1.0, 1.01)]
    noisy = [read(slower(RUN, factor)) for factor in (0.85, 1.0, 1.15)]
    assert not guard(late, calm).passed
    assert guard(late, noisy).passed


def test_a_baseline_of_another_load_judges_nothing(read):
    other = replace(read(RUN), load=replace(read(RUN).load, concurrency=16.0))
    outcome = guard(compared(read(RUN)), [other])
    assert {one.judge for one in outcome.verdicts} == {"prediction"}
    assert any("no run of this load" in words for words in outcome.unjudged)


def test_without_hardware_and_baseline_the_sentence_says_what_to_give(read):
    with pytest.raises(InvalidValue, match=r"hardware.*--system"):
        guard(compared(read(RUN), given={}))


def test_a_deployment_that_contradicts_the_file_is_not_judged_by_its_prediction(read):
    measurement = read({**RUN, "gpu": "H200"})
    with pytest.raises(InvalidValue, match="the scenario says"):
        guard(compared(measurement))


def test_a_scale_of_ones_own_is_named_in_text_and_document(own_data, ridgeline, result):
    path = result(measured_as(RUN, 0.12, 0.0115))
    kept = ridgeline("calibrate", "runs", path, *TYPED)
    assert kept.exit_code == 0, kept.output
    for command in ("compare", "guard"):
        assert "note: steps x" in ridgeline(command, path, *TYPED).stdout
        [run] = json.loads(ridgeline(command, path, *TYPED, "--json").stdout)["runs"]
        assert any(note.startswith("steps x") for note in run["notes"])


def test_the_document_says_what_was_judged_and_taken(ridgeline, result):
    answer = ridgeline("guard", result(RUN), *TYPED, "--json")
    document = json.loads(answer.stdout)
    assert document["passed"] is (answer.exit_code == 0)
    [run] = document["runs"]
    assert run["priced"]["system"] == "h100-sxm5-80gb" and run["priced"]["engine"] == "vllm"
    assert {one["field"] for one in run["filled"]} >= {"model", "engine", "load"}
    assert {one["figure"] for one in document["verdicts"]} >= {"ttft_mean_s", "tpot_mean_s"}


def test_a_percentile_is_judged_by_the_rank_that_chance_may_give_it(read):
    def of_requests(count):
        tokens = {f"total_{side}_tokens": count * 1024 for side in ("input", "output")}
        lasted = {"duration": count / RUN["completed"] * RUN["duration"]}
        marks = {"p90_ttft_ms": 100.0, "p99.9_ttft_ms": 300.0}
        return {**RUN, **marks, "completed": count, **tokens, **lasted}

    run = of_requests(10_000)
    late = compared(read({**run, "p90_ttft_ms": 107.0, "p99_ttft_ms": 200.0}), given={})
    of = {one.figure: one for one in guard(late, [read(run)]).verdicts}
    assert of["ttft_p90_s"].outcome == of["ttft_p99_s"].outcome == "fail"
    few = of_requests(400)
    late = compared(read({**few, "p90_ttft_ms": 107.0, "p99_ttft_ms": 200.0}), given={})
    of = {one.figure: one for one in guard(late, [read(few)]).verdicts}
    assert of["ttft_p90_s"].outcome == "pass" and "ttft_p99_s" not in of


@pytest.mark.parametrize("value", [-5.0, float("nan"), None])
def test_a_figure_of_the_baseline_that_is_gone_fails(ridgeline, result, value):
    broken = result({**RUN, "mean_ttft_ms": value}, "broken.json")
    outcome = ridgeline("guard", broken, "--baseline", result(RUN, "kept.json"))
    assert outcome.exit_code == 1
    assert "missing: broken.json" in outcome.stdout
    assert "TTFT mean is missing, the baseline's is 90.0 ms" in outcome.stdout
    assert ("figures that cannot be" in outcome.stdout) is (value is not None)
    document = json.loads(ridgeline("guard", broken, "--baseline", broken, "--json").stdout)
    assert document["passed"] and "ttft_mean_s" not in {v["figure"] for v in document["verdicts"]}


def test_a_missing_figure_has_no_measured_value_in_the_document(ridgeline, result):
    broken, kept = result({**RUN, "mean_tpot_ms": -1.0}, "broken.json"), result(RUN, "kept.json")
    document = json.loads(ridgeline("guard", broken, "--baseline", kept, "--json").stdout)
    [gone] = [one for one in document["verdicts"] if one["outcome"] == "missing"]
    assert (gone["figure"], gone["measured"]) == ("tpot_mean_s", None)
