"""`ridgeline runs`: a run from a run file, measured, kept, listed, compared, sent elsewhere."""

import json
import statistics
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from app import cli
from app.measuring import run_store
from genz_core.errors import MeasurementError, RidgelineError
from profilers.run_config import compose

TINY = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": True,
    "torch_dtype": "float32",
}  # fmt: skip


@pytest.fixture
def data(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))
    (tmp_path / "tiny.json").write_text(json.dumps(TINY))
    return tmp_path


def ridgeline(*arguments: object) -> str:
    result = CliRunner().invoke(cli.cli, ["runs", *map(str, arguments)])
    if result.exception is not None:
        raise result.exception
    return result.stdout


def test_the_resolved_run_file_is_printed_and_nothing_runs(data: Path):
    overrides = ("model=qwen3-8b", "profile=full", "batch=2")
    printed = yaml.safe_load(ridgeline("start", *overrides, "--print-config"))
    assert printed == compose(overrides).to_dict()
    assert (printed["run"]["repeats"], printed["run"]["batch"]) == (20, 2)
    assert not (data / "runs").exists()


def test_a_run_is_measured_kept_tagged_compared_exported_and_deleted(data: Path):
    pytest.importorskip("transformers")
    settings = (f"model={data / 'tiny.json'}", "profile=quick", "isl=16", "device=cpu")
    printed = ridgeline("start", *settings, "dtype=float32", "threads=1")
    (run,) = run_store.store().runs()
    folder = run_store.store().path(run.id)
    report = (folder / "report.md").read_text()
    assert printed.startswith(report) and f"kept as {run.id[:8]} in {folder}" in printed
    decode = json.loads((folder / "metrics.json").read_text())["phases"]["decode"]
    samples = run_store.store().load(run.id).phases["decode"].samples_s
    assert (decode["samples"], decode["p50_s"]) == (6, statistics.median(samples))
    assert compose(file=folder / "inputs.yaml") == compose(
        [*settings, "dtype=float32", "threads=1"]
    )
    ridgeline("tag", run.id[:8], "first")
    (row,) = json.loads(ridgeline("list", "--tag", "first", "--json"))
    assert (row["id"], row["tags"], row["decode_s"]) == (run.id, ["first"], decode["p50_s"])
    ridgeline("export", run.id, data / "run.zip")
    ridgeline("delete", run.id)
    assert run_store.store().runs() == []
    ridgeline("import", data / "run.zip")
    rows = json.loads(ridgeline("compare", run.id, "--json"))
    medians = {row["phase"]: row[run.id[:8]] for row in rows if row["class"] == "all"}
    assert medians == run.phases
    assert ridgeline("show", run.id) == f"{report}\n"


@pytest.mark.parametrize(("profile", "tool"), [("nsys", "nsys profile"), ("ncu", "ncu --target")])
def test_a_missing_tool_says_how_to_get_it_and_what_to_run_elsewhere(
    data: Path, monkeypatch, profile: str, tool: str
):
    monkeypatch.setenv("PATH", str(data))
    with pytest.raises(MeasurementError) as refused:
        ridgeline("start", "model=qwen3-8b", f"profile={profile}", "isl=64")
    sentence = str(refused.value)
    assert sentence.startswith(f"{profile} is not installed here")
    assert "developer.nvidia.com/nsight-" in sentence and f"run: {tool}" in sentence
    elsewhere = sentence.partition("ridgeline measure run ")[2]
    assert elsewhere.startswith("Qwen/Qwen3-8B --batch 1 --isl 64 ")
    assert elsewhere.endswith(" --no-profile --no-keep --nvtx")
    assert not run_store.store().runs()


def test_a_run_without_a_model_is_refused_before_anything_starts(data: Path):
    with pytest.raises(RidgelineError, match="name a model"):
        ridgeline("start", "profile=quick")


def test_a_store_that_cannot_be_written_is_said_before_the_run(data: Path):
    (data / "runs").write_text("in the way")
    with pytest.raises(MeasurementError, match="run store"):
        ridgeline("start", "model=qwen3-8b")
