"""Calibration from results: stored, applied and deleted."""

from datetime import date

import pytest

from app.benchmarks import calibration
from app.benchmarks.closed_form import predict
from app.benchmarks.comparison import compare
from app.benchmarks.deployment import deployment
from genz_core.errors import InvalidValue
from profilers.serving_results import read_results
from tests.app.benchmarks.conftest import HARDWARE, RUN, measured_as
from tests.profilers.serving_results.conftest import RESULTS

TYPED = [word for name, value in HARDWARE.items() for word in (f"--{name}", str(value))]


def runs(read, factor, users=(1, 8, 32)):
    """Runs whose latencies are the predicted ones times a factor."""
    for number in users:
        run = {
            **RUN,
            "max_concurrency": number,
            "num_prompts": number * 10,
            "completed": number * 10,
        }
        run |= {"total_input_tokens": number * 10240, "total_output_tokens": number * 10240}
        figures = predict(deployment(read(run), HARDWARE), 0.8).figures
        means = (figures[f"{stem}_mean_s"].value * factor for stem in ("ttft", "tpot"))
        yield measured_as(run, *means)


@pytest.mark.slow
def test_several_runs_fit_the_engine_and_move_the_prediction_to_them(own_data, read):
    slow = list(runs(read, 1.4))
    before = compare([deployment(read(run), HARDWARE) for run in slow])
    learnt = calibration.calibrate([deployment(read(run), HARDWARE) for run in slow])
    [path] = calibration.keep(learnt)
    assert path.is_relative_to(own_data) and learnt.date == date.today().isoformat()
    after = compare([deployment(read(run), HARDWARE) for run in slow])
    for old, new in zip(before.points, after.points, strict=True):
        assert abs(new.row("tpot_mean_s").ratio - 1) < abs(old.row("tpot_mean_s").ratio - 1) / 2
    forgotten = calibration.forget([deployment(read(slow[0]), HARDWARE)])
    assert all(forgotten.values())
    again = compare([deployment(read(run), HARDWARE) for run in slow])
    for new, old in zip(again.rows, before.rows, strict=True):  # forgetting undoes keeping
        assert new == pytest.approx(old, rel=1e-12, nan_ok=True)


def test_one_run_sets_the_scale_of_the_steps_dated_and_for_every_split(
    own_data, printed, answer, result
):
    slow = result(measured_as(RUN, 0.09, 0.012))
    words = printed("calibrate", "runs", slow, *TYPED)
    assert "12 ms" in words and date.today().isoformat() in words
    assert "kept in" in words and (own_data / "recipes.csv").is_file()
    [here] = answer("compare", slow, *TYPED)["runs"]
    [row] = [row for row in here["figures"] if row["figure"] == "tpot_mean_s"]
    assert row["ratio"] == pytest.approx(1.0, abs=0.1)
    two = ("compare", slow, "--system", "h100", "--tp", "2")
    scale = printed(*two).partition("steps x ")[2].partition(":")[0]
    [split], [stated] = (answer(*two, *more)["runs"] for more in ((), ("--step-scale", scale)))
    for kept, said in zip(split["figures"], stated["figures"], strict=True):
        assert kept["predicted"] == pytest.approx(said["predicted"], rel=1e-3), kept["figure"]
    assert "forgotten" in printed("calibrate", "runs", slow, *TYPED, "--forget")


def test_a_prefill_after_cached_tokens_is_left_out():
    """A row of measured runs states a prompt, and no tokens before it."""
    runs = read_results(RESULTS / "llama_bench" / "llama-bench_qwen2_7b.md")
    given = [deployment(run, {"system": "rtx-4080"}) for run in runs]
    learnt = calibration.calibrate(given)
    [words] = learnt.left_out
    assert "pp512 @ d512" in words and "512 cached tokens" in words
    assert learnt.recipes[0].fit.after.points == 3


def test_a_contradiction_teaches_nothing(own_data, read):
    other = deployment(read({**RUN, "gpu": "H200"}), HARDWARE)
    with pytest.raises(InvalidValue, match="contradicts"):
        calibration.calibrate([other, other])


def test_a_points_file_is_still_one(own_data, answer, tmp_path):
    points = tmp_path / "points.csv"
    points.write_text(
        "model,system,engine,isl,osl,concurrency,measured_tpot_s\n"
        "meta-llama/Llama-3.1-8B,h100,vllm,1024,128,8,0.009\n"
    )
    [recipe] = answer("calibrate", "runs", points, "--no-save")
    assert recipe["runs"][0]["measured_s"] == 0.009
