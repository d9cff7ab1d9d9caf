"""Runs from a run file: measured, kept with their artifacts, listed; jobs that end in any way."""

import gzip
import json
import os
import time
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

import profilers
from app import cli
from app.measuring import background_job, run_store
from genz_core.errors import InvalidValue, MeasurementError, RidgelineError
from profilers import run_config
from profilers.collect.progress import Cancelled

REPORTS = Path(__file__).parents[1] / "fixtures" / "reports"

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
    return result.output


def test_the_resolved_run_file_is_printed_and_nothing_runs(data: Path):
    said = ridgeline("start", "model=qwen3-8b", "profile=full", "batch=2", "--print-config")
    assert "name: Qwen/Qwen3-8B" in said and "repeats: 20" in said and "batch: 2" in said
    assert not (data / "runs").exists()


def test_a_run_is_measured_kept_tagged_compared_exported_and_deleted(data: Path):
    pytest.importorskip("transformers")
    settings = (f"model={data / 'tiny.json'}", "profile=quick", "isl=16", "device=cpu")
    said = ridgeline("start", *settings, "dtype=float32", "threads=1")
    assert "| prefill |" in said and "| decode |" in said
    (run,) = run_store.store().runs()
    folder = run_store.store().path(run.id)
    assert json.loads((folder / "metrics.json").read_text())["phases"]["decode"]["samples"] == 6
    assert "isl: 16" in (folder / "inputs.yaml").read_text()
    ridgeline("tag", run.id[:8], "first")
    assert [row["id"] for row in json.loads(ridgeline("list", "--tag", "first", "--json"))] == [
        run.id
    ]
    ridgeline("export", run.id, data / "run.zip")
    ridgeline("delete", run.id)
    assert run_store.store().runs() == []
    ridgeline("import", data / "run.zip")
    assert run.id[:8] in ridgeline("compare", run.id)
    assert "# tiny on" in ridgeline("show", run.id)


@pytest.mark.parametrize(("profile", "tool"), [("nsys", "nsys profile"), ("ncu", "ncu --target")])
def test_a_missing_tool_says_how_to_get_it_and_what_to_run_elsewhere(
    data: Path, monkeypatch, profile: str, tool: str
):
    monkeypatch.setenv("PATH", str(data))
    with pytest.raises(MeasurementError) as refused:
        ridgeline("start", "model=qwen3-8b", f"profile={profile}", "isl=64")
    said = str(refused.value)
    assert f"{profile} is not installed" in said and "developer.nvidia.com/nsight-" in said
    assert tool in said and "ridgeline measure run Qwen/Qwen3-8B" in said and "--isl 64" in said
    assert "--no-profile" in said and not run_store.store().runs()


@pytest.fixture
def nsys(data: Path, monkeypatch) -> Path:
    """An nsys that runs its workload's words into a log and exports a real database."""
    database = data / "real.sqlite"
    database.write_bytes(gzip.decompress((REPORTS / "nsys" / "mock.sqlite.gz").read_bytes()))
    tools = data / "tools"
    tools.mkdir()
    tool = tools / "nsys"
    tool.write_text(
        f"""#!/bin/sh
case "$1" in
profile) echo "watched $*"; while [ "$1" != "-o" ]; do shift; done; : > "$2.nsys-rep";;
export) for part; do case "$part" in --output=*) cp {database} "${{part#--output=}}";; esac; done;;
esac
"""
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    return tool


def test_a_run_inside_nsys_keeps_the_report_its_kernels_and_the_logs(data: Path, nsys: Path):
    settings = (f"model={data / 'tiny.json'}", "profile=nsys", "isl=16", "compile=true")
    ridgeline("start", *settings, "--tag", "inside")
    (run,) = run_store.store().runs("inside")
    folder = run_store.store().path(run.id)
    assert run.source == "nsys-sqlite" and run.system == "NVIDIA GeForce RTX 3080"
    assert len(pd.read_parquet(folder / "kernels.parquet")) == 2
    watched = (folder / "nsys" / "profile.log").read_text()
    for part in ("--no-profile", "--no-keep", "--nvtx", "--isl 16", "--compile", "--capture"):
        assert (part in watched) is (part != "--capture")
    commands = (folder / "cmd.txt").read_text()
    assert "-o nsys/run" in commands and ".draft" not in commands
    assert json.loads((folder / "static_compute.json").read_text())["operators"] == []
    assert not list((data / "runs").glob(".draft*"))


def test_a_cut_model_says_what_of_it_is_scaled(data: Path):
    pytest.importorskip("transformers")
    settings = (f"model={data / 'tiny.json'}", "isl=16", "osl=2", "device=cpu", "threads=1")
    ridgeline("start", *settings, "profile=quick", "layers=2")
    (run,) = run_store.store().runs()
    said = (run_store.store().path(run.id) / "assumptions.md").read_text()
    assert "cut to 2 layers; times and operators are scaled to all" in said


def test_a_model_cut_to_layers_is_refused_inside_nsys(data: Path, nsys: Path):
    with pytest.raises(InvalidValue, match=r"layers = 2: .* config\.json"):
        ridgeline("start", f"model={data / 'tiny.json'}", "profile=nsys", "layers=2")


def test_a_cancelled_run_inside_nsys_ends_the_tool_and_keeps_nothing(data: Path, nsys: Path):
    nsys.write_text("#!/bin/sh\nsleep 600\n")
    tree = run_config.compose([f"model={data / 'tiny.json'}", "profile=nsys"])
    with pytest.raises(Cancelled):
        run_store.execute(tree, cancelled=lambda: True)
    assert not run_store.store().runs() and not list((data / "runs").glob(".draft*"))


def test_a_run_leaves_every_artifact(data: Path):
    pytest.importorskip("transformers")
    settings = (f"model={data / 'tiny.json'}", "profile=full", "isl=16", "osl=3", "repeats=2")
    ridgeline("start", *settings, "warmup=1", "threads=1", "device=cpu", "system=epyc-9654")
    (run,) = run_store.store().runs()
    folder = run_store.store().path(run.id)
    assert {path.name for path in folder.iterdir()} >= {
        "report.md", "operators.md", "kernels.md", "metrics.json", "static_compute.json",
        "stakeholder_summary.md", "env.json", "inputs.yaml", "assumptions.md", "cmd.txt",
        "trace.json.gz", "kernels.parquet", "operators.parquet",
    }  # fmt: skip
    again = run_config.compose(file=folder / "inputs.yaml")
    assert again.run.isl == 16 and again.predict.system == "epyc-9654"
    figures = json.loads((folder / "metrics.json").read_text())
    assert 0 < figures["efficiency"]["decode"]["mbu"] < 1
    classes = {(row["phase"], row["class"]): row for row in figures["comparison"]["classes"]}
    for kind in ("gemm", "attention"):
        assert classes["decode", kind]["measured_s"] > 0 < classes["decode", kind]["predicted_s"]
    phase = profilers.read_report(folder / "trace.json.gz").ranges["name"].astype(str)
    assert {"prefill", "decode"} <= set(phase)


def test_static_figures_need_no_hardware(data: Path):
    """2 layers of 4 products, the LM head, tied embeddings: 2 flops a parameter and token."""
    pytest.importorskip("transformers")
    settings = (f"model={data / 'tiny.json'}", "isl=16", "osl=1", "repeats=1", "warmup=0")
    ridgeline("start", *settings, "threads=1", "device=cpu", "torch_profiler.enable=false")
    (run,) = run_store.store().runs()
    found = json.loads((run_store.store().path(run.id) / "static_compute.json").read_text())
    linear = 2 * 16 * 2 * (64 * 64 * 2 + 2 * 64 * 32 + 3 * 64 * 128) + 2 * 64 * 256
    attention = 2 * 4 * 64 * (16 * 17 / 2)
    products = {"gemm", "attention"}
    assert sum(
        row["flops"] * row["runs"]
        for row in found["operators"]
        if row["phase"] == "prefill" and row["class"] in products
    ) == pytest.approx(linear + attention)


def test_a_run_without_a_model_is_refused_before_anything_starts(data: Path):
    with pytest.raises(RidgelineError, match="name a model"):
        ridgeline("start", "profile=quick")


def test_a_store_that_cannot_be_written_is_said_before_the_run(data: Path):
    (data / "runs").write_text("in the way")
    with pytest.raises(MeasurementError, match="run store"):
        ridgeline("start", "model=qwen3-8b")


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "~/x", "config.json"])
def test_a_visitor_names_no_files(name: str):
    with pytest.raises(RidgelineError, match="is a path"):
        run_store.refuse_path(name)


# ------------------------------------------------------------------------------- jobs


def finish(argument: dict, progress, cancelled) -> str:
    progress(0.5, "half way")
    return argument["name"]


def fail(argument: dict, progress, cancelled) -> str:
    raise MeasurementError("the GPU vanished")


def die(argument: dict, progress, cancelled) -> str:
    os._exit(9)


def wait(argument: dict, progress, cancelled) -> str:
    while not cancelled():
        time.sleep(0.02)
    return "kept what was complete"


def hold(argument: dict, progress, cancelled) -> None:
    with run_store.scratch() as folder:
        progress(0.5, folder.name)
        time.sleep(600)


def ended(job: background_job.Job) -> background_job.Job:
    deadline = time.monotonic() + 60
    while not job.over and time.monotonic() < deadline:
        job.poll()
        time.sleep(0.02)
    job.end()
    return job


def test_a_job_tells_its_result():
    job = ended(background_job.start(finish, {"name": "run-1"}))
    assert (job.result, job.error, job.share, job.what) == ("run-1", "", 0.5, "half way")


def test_a_job_that_fails_tells_its_sentence():
    assert ended(background_job.start(fail, {})).error == "the GPU vanished"


def test_a_job_that_is_killed_is_a_failure_and_not_a_wait():
    assert "code 9" in ended(background_job.start(die, {})).error


def test_a_cancelled_job_keeps_what_was_complete():
    job = background_job.start(wait, {})
    job.cancel()
    assert ended(job).result == "kept what was complete"


def test_a_job_that_is_ended_at_once_is_over():
    job = background_job.start(wait, {})
    job.end()
    assert "before it was complete" in ended(job).error


def test_a_job_that_is_ended_leaves_no_draft_behind(data: Path):
    job = background_job.start(hold, {})
    deadline = time.monotonic() + 60
    while job.share == 0.0 and time.monotonic() < deadline:
        job.poll()
        time.sleep(0.02)
    assert (data / "runs" / job.what).is_dir()
    job.end()
    assert not (data / "runs" / job.what).exists()
