"""`calibrate`: fits of runs and of reports, printed, stored and deleted."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from app.scenario.scenario import resolve
from genz_core.deployment import recipe_key
from hardware_db import recipes
from tests.app.calibration.measured_runs import SCENARIO, measured_runs
from tests.app.pages import QWEN

pytestmark = pytest.mark.usefixtures("own_data")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two runs, one of bf16 and one of fp8 weights."""
    (row,) = measured_runs(loads=("32",))
    path = tmp_path / "runs.csv"
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, [*row, "weights"], restval="")
        writer.writeheader()
        writer.writerows([row, {**row, "weights": "fp8"}])
    return path


def kept(weights: str):
    """The stored recipe for a weight format."""
    resolved = resolve(replace(SCENARIO, weights=weights))
    return recipes.load_recipe(recipe_key(resolved.engine, resolved.model, resolved.system))


@pytest.mark.slow
def test_every_recipe_of_a_file_is_kept_and_forgotten(printed, file: Path):
    text = printed("calibrate", "runs", file)
    recipes = [f"vllm on h100-sxm5-80gb, {weights} weights" for weights in ("bf16", "fp8")]
    for weights, recipe in zip(("bf16", "fp8"), recipes, strict=True):
        assert f"Qwen/Qwen3-8B, {recipe}\n" in text
        assert kept(weights).own
    assert "memory_efficiency" in text and text.splitlines()[-1].startswith("kept in ")
    forgotten = printed("calibrate", "runs", file, "--forget").splitlines()
    assert forgotten == [f"{recipe}: forgotten" for recipe in recipes]
    assert kept("bf16") is None or not kept("bf16").own
    again = printed("calibrate", "runs", file, "--forget").splitlines()
    assert again == [f"{recipe}: nothing was kept" for recipe in recipes]


@pytest.mark.slow
def test_runs_as_json_are_not_kept_when_told_not_to(answer, file: Path, own_data: Path):
    bf16, _ = answer("calibrate", "runs", file, "--no-save")
    assert [row["figure"] for row in bf16["runs"]] == ["ttft_s", "tpot_s"] and bf16["file"] == ""
    assert bf16["recipe"] == "vllm on h100-sxm5-80gb, bf16 weights"
    assert {"tpot_scale", "ttft_scale"} <= {row["constant"] for row in bf16["constants"]}
    assert not own_data.exists()


def test_a_report_gives_a_system_with_its_errors_and_its_uncertainty(answer, printed):
    document = answer("calibrate", "report", QWEN)
    assert document["system"] == "h100-sxm5-80gb-from-report"
    assert {Path(file).parent.name for file in document["files"]} == {"systems", "profiles"}
    assert all(Path(file).is_file() for file in document["files"])
    assert all(row["mape_after"] < row["mape_before"] for row in document["operators"])
    text = printed("calibrate", "report", QWEN, "--no-save")
    assert "uncertainty" in text and "system h100-sxm5-80gb-from-report (not saved)" in text
