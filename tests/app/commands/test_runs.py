"""`ridgeline runs`: a run from a run file: measured, stored, listed, compared and exported."""

import json
import statistics
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from app.measuring import run_store
from genz_core.errors import MeasurementError, RidgelineError
from profilers.runs.run_config import compose

pytestmark = pytest.mark.usefixtures("own_data")


@pytest.fixture
def runs(ridgeline) -> Callable[..., str]:
    """The output of a subcommand of `runs`; its error is raised."""

    def call(*arguments: object) -> str:
        result = ridgeline("runs", *arguments)
        if result.exception is not None:
            raise result.exception
        return result.stdout

    return call


def test_the_resolved_run_file_is_printed_and_nothing_runs(runs, own_data: Path):
    overrides = ("model=qwen3-8b", "profile=full", "batch=2")
    printed = yaml.safe_load(runs("start", *overrides, "--print-config"))
    assert printed == compose(overrides).to_dict()
    assert (printed["run"]["repeats"], printed["run"]["batch"]) == (20, 2)
    assert not own_data.exists()


def test_a_run_is_measured_kept_tagged_compared_exported_and_deleted(
    runs, tiny: str, tmp_path: Path, torch_threads: None
):
    archive = tmp_path / "run.zip"
    settings = (f"model={tiny}", "profile=quick", "isl=16", "device=cpu")
    printed = runs("start", *settings, "dtype=float32", "threads=1")
    (run,) = run_store.store().runs()
    folder = run_store.store().path(run.id)
    report = (folder / "report.md").read_text()
    assert printed.startswith(report) and f"kept as {run.id[:8]} in {folder}" in printed
    decode = json.loads((folder / "metrics.json").read_text())["phases"]["decode"]
    samples = run_store.store().load(run.id).phases["decode"].samples_s
    assert (decode["samples"], decode["p50_s"]) == (15, statistics.median(samples))
    copied = folder / "model" / "tiny.json"
    assert compose(file=folder / "inputs.yaml") == compose(
        [f"path={copied}", *settings[1:], "dtype=float32", "threads=1"]
    )
    runs("tag", run.id[:8], "first")
    (row,) = json.loads(runs("list", "--tag", "first", "--json"))
    assert (row["id"], row["tags"], row["decode_s"]) == (run.id, ["first"], decode["p50_s"])
    runs("export", run.id, archive)
    runs("delete", run.id)
    assert run_store.store().runs() == []
    runs("import", archive)
    rows = json.loads(runs("compare", run.id, "--json"))
    medians = {row["phase"]: row[run.id[:8]] for row in rows if row["class"] == "all"}
    assert medians == run.phases
    assert runs("show", run.id) == f"{report}\n"


@pytest.mark.parametrize(("profile", "tool"), [("nsys", "nsys profile"), ("ncu", "ncu --target")])
def test_a_missing_tool_says_how_to_get_it_and_what_to_run_elsewhere(
    runs, tmp_path: Path, monkeypatch, profile: str, tool: str
):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MeasurementError) as refused:
        runs("start", "model=qwen3-8b", f"profile={profile}", "isl=64")
    sentence = str(refused.value)
    assert sentence.startswith(f"{profile} is not installed here")
    assert "developer.nvidia.com/nsight-" in sentence and f"run: {tool}" in sentence
    elsewhere = sentence.partition("ridgeline measure run ")[2]
    assert elsewhere.startswith("Qwen/Qwen3-8B --batch 1 --isl 64 ")
    assert elsewhere.endswith(" --no-profile --no-keep --nvtx")
    assert not run_store.store().runs()


def test_a_run_without_a_model_is_refused_before_anything_starts(runs):
    with pytest.raises(RidgelineError, match="name a model"):
        runs("start", "profile=quick")


def test_a_store_that_cannot_be_written_is_refused_before_the_run(runs, own_data: Path):
    own_data.mkdir()
    (own_data / "runs").write_text("in the way")
    with pytest.raises(MeasurementError, match="run store"):
        runs("start", "model=qwen3-8b")
