"""`measure`, `doctor`, and what all of these commands refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from app.measuring import run_store
from genz_core.errors import RidgelineError

pytestmark = pytest.mark.usefixtures("torch_threads", "own_data", "free_cores")
SMALL = ("--isl", "16", "--threads", "1", "--device", "cpu")


def test_measuring_a_model_needs_no_subcommand(answer, tiny: str) -> None:
    run = answer("measure", tiny, *SMALL, "--osl", "3", "--repeats", "2")
    assert run["status"] == "ok" and run["batch"] == 1
    assert [len(run["samples_s"][phase]) for phase in ("prefill", "decode")] == [2, 4]
    assert {row["phase"] for row in run["operators"]} == {"prefill", "decode"}
    assert any("ridgeline calibrate machine" in note for note in run["notes"])


def test_a_named_system_brings_prediction_mfu_and_mbu(answer, tiny: str) -> None:
    run = answer(
        "measure",
        "run",
        tiny,
        *SMALL,
        "--osl",
        "3",
        "--repeats",
        "1",
        "--no-profile",
        "--system",
        "epyc-9654",
    )
    assert [row["phase"] for row in run["phases"]] == ["prefill", "decode"]
    for row in run["phases"]:
        assert 0 < row["mfu"] < 1 and 0 < row["mbu"] < 1
        assert row["error"] == pytest.approx(row["predicted_s"] / row["p50_s"] - 1)
        assert row["bound_s"] <= row["predicted_s"]
        if row["low_s"] is not None:
            assert row["bound_s"] <= row["low_s"] <= row["predicted_s"] <= row["high_s"]
            assert row["inside"] is (row["low_s"] <= row["p50_s"] <= row["high_s"])


def test_a_system_that_nobody_knows_is_refused(ridgeline, tiny: str) -> None:
    refused = ridgeline(
        "measure", tiny, *SMALL, "--osl", "2", "--repeats", "1", "--system", "abacus"
    )
    assert isinstance(refused.exception, RidgelineError)
    assert "abacus" in str(refused.exception) and not run_store.store().runs()


def test_a_run_is_kept_with_its_tag_unless_told_not_to(answer, tiny: str) -> None:
    arguments = ("measure", tiny, *SMALL, "--osl", "2", "--repeats", "1", "--no-profile")
    assert answer(*arguments, "--no-keep")["run"] is None
    assert run_store.store().runs() == []
    kept = answer(*arguments, "--tag", "one", "--tag", "two")["run"]
    (run,) = run_store.store().runs("two")
    assert run.id == kept and run.tags == ("one", "two")


def test_the_trace_goes_where_it_is_asked_and_with_the_run(
    answer, tiny: str, tmp_path: Path
) -> None:
    trace = tmp_path / "mine.json.gz"
    arguments = ("measure", tiny, *SMALL, "--osl", "2", "--repeats", "1")
    kept = answer(*arguments, "--trace", str(trace))["run"]
    assert trace.read_bytes() == (run_store.store().path(kept) / "trace.json.gz").read_bytes()
    plain = trace.with_suffix("")
    answer(*arguments, "--trace", str(plain), "--no-keep")
    assert json.loads(plain.read_text())["traceEvents"]


def test_running_out_of_memory_is_reported_and_exits_well(answer, tiny: str) -> None:
    run = answer("measure", tiny, "--batch", str(10**8), "--device", "cpu")
    assert run["status"] == "out_of_memory" and run["phases"] == [] and run["run"] is None
    assert any(f"ran out of memory at batch {10**8}" in note for note in run["notes"])


def test_the_doctor_answers_in_json(answer) -> None:
    report = answer("doctor")
    assert {"cpu", "torch", "nvml", "nsys", "ncu", "nvtx"} <= {c["name"] for c in report["checks"]}
    assert report["calibrated"] is False


@pytest.mark.parametrize(
    "command",
    [
        ("measure", "no-such-model", "--trace"),
        ("measure", "sweep", "no-such-model", "--output"),
        ("collect", "microbench", "--device", "abacus", "--output"),
        ("collect", "top-kernels", "no-such-report", "--output"),
        ("calibrate", "machine", "--device", "abacus", "--validate", "--output"),
        ("validate", "no-such-set", "--rows"),
    ],
)
def test_a_file_that_has_no_place_is_refused_before_anything_else(
    ridgeline, tmp_path: Path, command: tuple[str, ...]
) -> None:
    places = {
        tmp_path / "nowhere" / "file": "nowhere is not a folder",
        tmp_path: "is a folder; name",
    }
    for place, words in places.items():
        done = ridgeline(*command, str(place))
        assert isinstance(done.exception, RidgelineError), done.output
        assert words in str(done.exception)


def test_a_file_that_the_disk_refuses_is_a_sentence(tmp_path: Path) -> None:
    from app.commands.options import write_text

    with pytest.raises(RidgelineError, match=r"gone\.csv cannot be written: No such file"):
        write_text(tmp_path / "gone" / "gone.csv", "late")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("measure", "no-such-model"), "unknown model"),
        (("measure", "TINY", "--batch", "0"), "batch = 0"),
        (("measure", "TINY", "--device", "abacus"), "there is no device 'abacus'"),
        (("measure", "TINY", "--dtype", "int3"), "no floating type"),
        (("measure", "TINY", "--layers", "3"), "cut to 3 of 2 layers"),
        (("measure", "TINY", "--trace", "t.json", "--no-profile"), "leave out --no-profile"),
        (("measure", "TINY", "--tag", "one", "--no-keep"), "leave out --no-keep"),
        (("calibrate", "machine", "--output", "a.md"), "give both"),
        (("measure", "sweep", "TINY", "--phases", "lunch"), "unknown phase 'lunch'"),
        (("measure", "sweep", "TINY", "--batches", "x"), "batches = 'x': give"),
        (("measure", "sweep", "TINY", "--batches", "0.2"), "batches = 0.2: give a whole number"),
        (("measure", "sweep", "TINY", "--batches", ""), "batches = '': give"),
        (
            ("measure", "sweep", "TINY", "--batches", "1:99:1", "--lengths", "1:99:1"),
            "19602 points",
        ),
        (("measure", "sweep", "TINY", "--rounds", "0"), "rounds = 0"),
        (("measure", "sweep", "TINY", "--tag", "one", "--no-keep"), "leave out --no-keep"),
        (("measure", "ranks", "TINY", "--tag", "one", "--no-keep"), "leave out --no-keep"),
        (("measure", "ranks", "TINY", "--tp", "65"), "tp = 65: give a whole number"),
        (("runs", "start", "model=gpt2", "sweep.batches=1", "ranks.tp=2"), "choose one of them"),
        (("runs", "start", "model=gpt2", "sweep.batches=1", "profile=nsys"), "choose one of them"),
        (("measure", "infer", "nowhere", "no-file.txt"), "no-file.txt: no such file"),
        (("collect", "nsys", "TINY", "--capture", "all"), "unknown capture 'all'"),
        (("collect", "nsys", "TINY", "--capture", "nvtx"), "needs the name of a range"),
        (("collect", "top-kernels", "TINY"), 'no "traceEvents"'),
    ],
)
def test_bad_input_is_one_sentence(
    ridgeline, tiny: str, arguments: tuple[str, ...], message: str
) -> None:
    result = ridgeline(*(tiny if part == "TINY" else part for part in arguments))
    assert isinstance(result.exception, RidgelineError), result.exception
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)
