"""Where a measured request spends its time, what could be gained, and what to change."""

import math

import pytest

from app.benchmarks import calibration
from app.benchmarks.closed_form import predict
from app.benchmarks.comparison import compare
from app.benchmarks.deployment import deployment
from app.benchmarks.report import of_point, reportable, reports
from app.measuring.best_runs import best_served, best_step
from app.scenario import served_rows
from hardware_db.tables import table
from tests.app.benchmarks.conftest import HARDWARE, RUN, halved_gaps, measured_as


def report_of(measurement, **given):
    [point] = compare([deployment(measurement, {**HARDWARE, **given})]).points
    return of_point(point), point


@pytest.fixture
def slow(read):
    return report_of(read(measured_as(RUN, 0.3, 0.011)))


def test_parts_sum_to_the_request_and_are_ranked_by_what_can_be_won(slow):
    report, point = slow
    assert sum(part.measured_s for part in report.spent) == pytest.approx(report.total_s, rel=1e-3)
    gains = [part.to_win_s for part in report.spent]
    assert gains == sorted(gains, reverse=True) and gains[0] > 0
    for part in report.spent:
        assert part.bound_s <= part.predicted_s
        assert part.to_win_s <= part.measured_s - part.bound_s
    tokens = next(part for part in report.spent if part.part == "all further tokens")
    row = point.row("tpot_mean_s")
    assert tokens.predicted_s == pytest.approx(row.predicted.value * 1023)


def test_a_run_without_tpot_spends_the_rest_of_e2e_on_further_tokens(read):
    """(E2E - TTFT) / (OSL - 1) is the TPOT, so the gaps take E2E less TTFT together."""
    run = measured_as(RUN, 0.3, 0.011)
    known, _ = report_of(read(run))
    lacking = {name: value for name, value in run.items() if "_tpot_" not in name}
    report, point = report_of(read(lacking))
    assert point.row("tpot_mean_s") is None
    part = {one.part.partition(" (")[0]: one for one in report.spent}["all further tokens"]
    assert part.measured_s == pytest.approx(1023 * 0.011)
    assert part.part.endswith("(E2E mean less TTFT mean)")
    for mine, other in zip(report.spent, known.spent, strict=True):
        assert (mine.bound_s, mine.predicted_s, mine.to_win_s) == pytest.approx(
            (other.bound_s, other.predicted_s, other.to_win_s)
        )


def test_a_run_without_e2e_states_only_the_parts_that_were_measured(read):
    lacking = {name: n for name, n in RUN.items() if "_tpot_" not in name and "_e2el_" not in name}
    report, _ = report_of(read(lacking))
    assert [one.part for one in report.spent] == ["the first token"]


def test_a_change_saves_what_its_own_prediction_says_of_the_measured_time(slow):
    report, point = slow
    changes = {one.what: one for one in report.changes}
    eight = changes["weights in fp8 in place of bf16"]
    [fp8] = compare([deployment(point.measurement, {**HARDWARE, "weights": "fp8"})]).points
    share = fp8.row("e2e_mean_s").predicted.value / point.row("e2e_mean_s").predicted.value
    assert eight.saves_s == pytest.approx((1 - share) * report.total_s)
    assert eight.low_s <= eight.saves_s <= eight.high_s
    assert [one.saves_s for one in report.changes] == sorted(
        (one.saves_s for one in report.changes), reverse=True
    )
    assert "tp 2 in place of 1, twice the devices" in changes


def test_a_scale_learned_from_the_run_is_on_both_sides_of_a_change(own_data, read):
    """The shares are those of the plain prediction: the scale cancels, for another format too."""
    measured = read(measured_as(RUN, 0.12, 0.0125))
    calibration.keep(calibration.calibrate([deployment(measured, HARDWARE)]))
    report, point = report_of(measured)
    assert any(note.startswith("steps x") for note in point.prediction.notes)
    scale = served_rows.kept_step_scale(point.deployment.priced()).scale
    for what, change in (
        ("tp 2 in place of 1, twice the devices", {"tp": 2}),
        ("weights in fp8 in place of bf16", {"weights": "fp8"}),
    ):
        [one] = [one for one in report.changes if one.what == what]
        figures = [
            predict(deployment(measured, {**HARDWARE, **more, "step_scale": scale}), 0.8).figures
            for more in ({}, change)
        ]
        before, after = (found["e2e_mean_s"].value for found in figures)
        assert one.saves_s / one.of_s == pytest.approx(1.0 - after / before)


def test_limits_that_hold_a_run_back_are_the_first_to_change(read):
    measured = read(measured_as({**RUN, "max_concurrency": 64, "num_prompts": 640,
                                 "completed": 640, "total_input_tokens": 655360,
                                 "total_output_tokens": 655360}, 20.0, 0.012))  # fmt: skip
    report, _ = report_of(measured, max_num_seqs=16)
    assert report.changes[0].what.startswith("at most ")
    assert "sequences in a step in place of 16" in report.changes[0].what


def test_no_report_rests_on_what_contradicts_itself(read):
    assert report_of(read(halved_gaps(RUN)))[0] is None
    other = read({**RUN, "gpu": "H200"})
    assert report_of(other)[1].deployment.differences and report_of(other)[0] is None


def test_the_best_known_run_is_the_least_that_was_measured_near_the_load():
    row = next(row for row in table("measurements", "serving") if row["dp"] in ("", "1"))
    import hardware_db

    given = dict(isl=float(row["isl"]), osl=float(row["osl"]),
                 concurrency=float(row["concurrency"]))  # fmt: skip
    slug = hardware_db.load(row["system"]).slug
    best = best_served("tpot_s", row["model"], slug, row["weights"], int(row["tp"]), **given)
    assert 0 < best.seconds <= float(row["measured_tpot_s"]) and row["engine"] in best.run
    none = best_served("tpot_s", row["model"], slug, row["weights"], int(row["tp"]),
                       isl=given["isl"] * 5, osl=given["osl"], concurrency=1e5)  # fmt: skip
    assert none is None
    step = next(r for r in table("measurements", "published")
                if r["phase"] == "decode" and not r["model"].startswith("custom"))  # fmt: skip
    tokens = float(step["isl"]) + float(step["osl"] or 0) / 2
    slug = hardware_db.load(step["system"]).slug
    sizes = {"batch": float(step["batch"]), "tokens": tokens}
    places = slug, step["weights"], int(step["devices"] or 1)
    found = best_step("decode", step["model"], *places, **sizes)
    assert 0 < found.seconds <= float(step["measured_s"])


def test_runs_of_a_chat_model_are_those_of_the_model_by_any_of_its_names():
    sizes = {"isl": 1024, "osl": 256, "concurrency": 16}
    names = ("meta-llama/Llama-3.1-8B", "llama-3.1-8b", "meta-llama/Llama-3.1-8B-Instruct")
    found = [best_served("tpot_s", name, "h100-sxm5-80gb", "bf16", 8, **sizes) for name in names]
    assert found[0] is not None and len(set(found)) == 1


def test_the_best_step_is_of_the_same_number_format():
    rows = [row for row in table("measurements", "published") if row["weights"] == "q4_k_m"
            and row["phase"] == "decode" and row["system"]]  # fmt: skip
    import hardware_db

    row = rows[0]
    tokens = float(row["isl"]) + float(row["osl"] or 0) / 2
    slug, sizes = (
        hardware_db.load(row["system"]).slug,
        {"batch": float(row["batch"]), "tokens": tokens},
    )
    assert best_step("decode", row["model"], slug, "q4_k_m", 8, **sizes) is not None
    assert best_step("decode", row["model"], slug, "int8", 8, **sizes) is None


def test_the_command_and_the_document_have_the_report(answer, printed, result):
    path = result(measured_as({**RUN, "gpu": "NVIDIA H100 80GB HBM3"}, 0.3, 0.011))
    [run] = answer("compare", path)["report"]
    assert run["total_s"] == pytest.approx(0.3 + 1023 * 0.011, rel=1e-3)
    assert run["spent"][0]["to_win_s"] > 0 and run["changes"]
    assert all(math.isfinite(one["saves_s"]) for one in run["changes"])
    words = printed("compare", path)
    assert (
        "where the time of a request goes" in words
        and "what to change, and what it saves of E2E" in words
    )


def test_a_profile_has_a_report_of_each_step(answer):
    from tests.app.pages import QWEN

    found = answer("compare", QWEN, "--model", "Qwen/Qwen1.5-0.5B")
    [report] = found["report"]
    assert sum(one["measured_s"] for one in report["spent"]) == pytest.approx(report["total_s"])
    whats = [one["what"] for one in report["changes"]]
    assert any("hf-compile" in what for what in whats)
    small = [one for one in report["changes"] if "KV cache" in one["what"]]
    assert not small or small[0]["saves_s"] < 0.1 * report["total_s"], "norms stay unfused"
    apart = answer("compare", QWEN, "--model", "Qwen/Qwen1.5-0.5B", "--isl", "4096")
    assert apart["report"] == []


def test_reports_are_of_the_runs_that_have_one(read):
    runs = [deployment(read(one), HARDWARE) for one in (RUN, halved_gaps(RUN))]
    compared = compare(runs)
    found = reports(compared)
    assert len(found) == 1 and not found[0][0].failed
    assert reportable(compared) == [point for point, _ in found]
