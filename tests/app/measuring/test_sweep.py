"""`measure sweep`: rows, agreement, and the single stored run."""

from __future__ import annotations

import csv
import json
import statistics
from pathlib import Path

import pytest

from app.measuring import run_store

SMALL = ("--threads", "1", "--device", "cpu", "--system", "epyc-9654", "--rounds", "1")


def test_a_sweep_gives_rows_agreement_and_a_csv(answer, tiny: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    sweep = answer(
        "measure",
        "sweep",
        tiny,
        "--batches",
        "1:2:x2",
        "--lengths",
        "16,32",
        *SMALL,
        "--output",
        str(path),
    )
    assert len(sweep["rows"]) == 8 and {r["status"] for r in sweep["rows"]} == {"ok"}
    assert set(sweep["agreement"]) == {"all", "prefill", "decode"}
    for phase, fit in sweep["agreement"].items():
        errors = [abs(row["error"]) for row in sweep["rows"] if phase in ("all", row["phase"])]
        assert fit["points"] == len(errors) == (8 if phase == "all" else 4)
        assert fit["mape"] == pytest.approx(statistics.fmean(errors))
        assert fit["worst"] == pytest.approx(max(errors))
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["measured_s"]) for row in rows] == [r["measured_s"] for r in sweep["rows"]]


def test_a_sweep_is_one_kept_run_with_its_steps(answer, tiny: str) -> None:
    document = answer(
        "measure",
        "sweep",
        tiny,
        "--batches",
        "1,2",
        "--lengths",
        "16",
        "--phases",
        "decode",
        "--tag",
        "grid",
        *SMALL,
    )
    (run,) = run_store.store().runs("grid")
    assert (document["run"], run.label, run.phases) == (run.id, "tiny, sweep of 2 steps", {})
    steps = run_store.store().load(run.id).steps
    assert [str(step.point) for step in steps] == ["decode 1 x 16", "decode 2 x 16"]
    assert [step.median_s for step in steps] == [row["measured_s"] for row in document["rows"]]
    folder = run_store.store().path(run.id)
    assert "| decode | 2 | 16 | ok |" in (folder / "report.md").read_text()
    figures = json.loads((folder / "metrics.json").read_text())
    assert figures["agreement"]["decode"]["mape"] == document["agreement"]["decode"]["mape"]
    assert "2 of 2 sizes were timed" in (folder / "stakeholder_summary.md").read_text()


def test_a_sweep_that_is_not_to_be_kept_is_not(answer, tiny: str, own_data: Path) -> None:
    grid = ("--batches", "1", "--lengths", "16", "--phases", "decode", *SMALL)
    document = answer("measure", "sweep", tiny, *grid, "--no-keep")
    assert document["run"] is None and not (own_data / "runs").exists()


def test_a_kept_sweep_runs_again_from_its_inputs(ridgeline, answer, tiny: str) -> None:
    grid = ("--batches", "1", "--lengths", "16,32", "--phases", "prefill", *SMALL)
    kept = answer("measure", "sweep", tiny, *grid)["run"]
    inputs = run_store.store().path(kept) / "inputs.yaml"
    assert ridgeline("runs", "start", "--file", str(inputs)).exit_code == 0
    first, again = ([str(s.point) for s in run_store.store().load(run.id).steps]
                    for run in run_store.store().runs())  # fmt: skip
    assert first == again == ["prefill 1 x 16", "prefill 1 x 32"]


def test_a_size_beyond_memory_is_kept_as_such(answer, tiny: str) -> None:
    grid = ("--batches", "1,100000000", "--lengths", "16", "--phases", "decode", *SMALL)
    kept = answer("measure", "sweep", tiny, *grid)["run"]
    steps = run_store.store().load(kept).steps
    assert [step.status for step in steps] == ["ok", "out_of_memory"]


def test_a_sweep_of_a_cut_model_is_predicted_cut(answer, tiny: str) -> None:
    grid = ("--batches", "1", "--lengths", "16", "--phases", "decode", *SMALL)
    layers = ((), ("--layers", "1"))
    whole, half = (answer("measure", "sweep", tiny, *grid, *cut) for cut in layers)
    assert half["rows"][0]["bound_s"] < 0.8 * whole["rows"][0]["bound_s"]
