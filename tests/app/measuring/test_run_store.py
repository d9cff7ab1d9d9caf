"""A run and its files: measurements, predictions and the inputs of both."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import hardware_db
import profilers
from app.measuring import run_store
from app.measuring.outcome import settings_of
from hardware_db.data_folder import data_folder
from profilers.runs.run_config import RunConfig, compose

SYSTEMS = Path(hardware_db.__file__).parent / "systems"
ARTIFACTS = {
    "report.md", "operators.md", "kernels.md", "metrics.json", "static_compute.json",
    "stakeholder_summary.md", "env.json", "inputs.yaml", "assumptions.md", "cmd.txt",
    "trace.json.gz", "kernels.parquet", "operators.parquet", "run.json", "priced.json", "model",
}  # fmt: skip


@pytest.fixture
def kept(tiny: str) -> Callable[..., tuple[RunConfig, Path]]:
    """Runs the tiny model on one thread of this CPU; returns the configuration and the folder."""

    def run(*overrides: str) -> tuple[RunConfig, Path]:
        settings = (f"path={tiny}", "isl=16", "device=cpu", "threads=1")
        config = compose([*settings, *overrides])
        return config, run_store.store().path(run_store.execute(config))

    return run


def figures(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def test_a_run_faster_than_its_device_allows_is_not_comparable_and_has_no_mfu(kept) -> None:
    own = data_folder() / "systems" / "slow.yaml"
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(
        "include: epyc-9654\nid: slow\nname: Slow\naliases: []\n"
        "memory_gb_per_s: {value: 0.01, source: amd-9654, kind: assumed, note: far too little}\n",
        encoding="utf-8",
    )
    _, folder = kept("osl=3", "repeats=2", "warmup=0", "system=slow")
    decode = figures(folder, "metrics.json")["efficiency"]["decode"]
    assert decode["mbu"] is None and decode["mfu"] is None
    assert "MFU or MBU above 1" in decode["not_comparable"]


def test_a_run_leaves_every_artifact(kept) -> None:
    settings = ("profile=full", "osl=3", "repeats=2", "warmup=1", "system=epyc-9654")
    config, folder = kept(*settings)
    assert {path.name for path in folder.iterdir()} == ARTIFACTS
    copied = {"name": "", "path": str(folder / "model" / "tiny.json")}
    assert compose(file=folder / "inputs.yaml") == config.with_fields(model=copied)
    metrics = figures(folder, "metrics.json")
    assert 0 < metrics["efficiency"]["decode"]["mbu"] < 1
    classes = {(row["phase"], row["class"]): row for row in metrics["comparison"]["classes"]}
    for kind in ("gemm", "attention"):
        row = classes["decode", kind]
        assert row["measured_s"] > 0 and row["predicted_s"] > 0
    (whole,) = (r for r in metrics["comparison"]["phases"] if r["phase"] == "decode")
    assert whole["bound_s"] == metrics["efficiency"]["decode"]["bound_s"], "one bound in all files"
    parts = [row["measured_s"] for (phase, _), row in classes.items() if phase == "decode"]
    assert sum(parts) == pytest.approx(whole["measured_s"]) and min(parts) >= 0
    ranges = profilers.read_report(folder / "trace.json.gz").ranges["name"].astype(str)
    assert {"prefill", "decode"} <= set(ranges)


def test_a_cut_model_says_what_of_it_is_scaled(kept) -> None:
    _, folder = kept("osl=2", "profile=quick", "layers=2", "repeats=1")
    sentences = (folder / "assumptions.md").read_text()
    assert (
        "- it was cut to 2 layers; times and operators are scaled to all, kernels and trace are of "
        "the cut model\n"
    ) in sentences


def test_a_run_repeats_and_is_priced_where_its_model_is_not(
    kept, tiny: str, tmp_path: Path, monkeypatch
) -> None:
    from app.calibration.machine import user_files
    from hardware_db import data_folder

    (system,) = yaml.safe_load_all((SYSTEMS / "epyc-9654.yaml").read_text(encoding="utf-8"))
    own = {**system, "id": "my-server", "name": "My server", "aliases": []}
    user_files.write_system(own)
    _, folder = kept("profile=quick", "osl=2", "repeats=1", "system=my-server")
    priced, context = run_store.own_estimate(run_store.store(), folder.name)
    assert context.system.slug == "my-server" and context.model.name == "tiny"
    archive = run_store.store().export(folder.name, tmp_path / "run.zip")
    Path(tiny).unlink()
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path / "elsewhere"))
    assert "my-server" not in hardware_db.names() and data_folder.data_folder().name == "elsewhere"
    identity = run_store.store().take(archive)
    again, context = run_store.own_estimate(run_store.store(), identity)
    assert again.prefill.total_s == pytest.approx(priced.prefill.total_s)
    assert context.system.name == "My server" and not context.notes
    inputs = run_store.store().path(identity) / "inputs.yaml"
    assert "path: model/tiny.json" in inputs.read_text(encoding="utf-8"), "no path of the machine"
    assert settings_of(compose(file=inputs)).config["hidden_size"] == 64


def test_a_run_priced_for_other_cores_states_no_finding(kept) -> None:
    _, folder = kept("profile=quick", "osl=2", "repeats=1", "system=epyc-9654")
    said = (folder / "assumptions.md").read_text(encoding="utf-8")
    assert "it ran on 1 thread, and AMD EPYC 9654" in said and "no finding is stated" in said
    assert "of the roof" not in (folder / "report.md").read_text(encoding="utf-8")


def test_a_run_whose_model_nobody_knows_says_so(kept) -> None:
    _, folder = kept("profile=quick", "osl=1", "repeats=1")
    (folder / "model" / "tiny.json").unlink()
    nothing, context = run_store.own_estimate(run_store.store(), folder.name)
    assert nothing is None and "its model is not known here" in context.notes[0]


@pytest.mark.parametrize(
    "content", ['{"tp": 0}', '{"tp": true}', '{"system": ["../x"]}', "[]", '{"layers": "6"}', "{"]
)
def test_a_damaged_note_of_what_was_priced_is_said(kept, content: str) -> None:
    _, folder = kept("profile=quick", "osl=1", "repeats=1")
    (folder / "priced.json").write_text(content, encoding="utf-8")
    nothing, context = run_store.own_estimate(run_store.store(), folder.name)
    assert nothing is None and len(context.notes) == 1


def test_static_figures_need_no_hardware(kept, config: dict[str, Any]) -> None:
    """2 layers of 4 products, the LM head, tied embeddings: 2 FLOPs per parameter and token."""
    _, folder = kept("osl=1", "repeats=1", "warmup=0", "torch_profiler.enable=false")
    assert config["num_hidden_layers"] == 2 and config["intermediate_size"] == 192
    linear = 2 * 16 * 2 * (64 * 64 * 2 + 2 * 64 * 32 + 3 * 64 * 192) + 2 * 64 * 256
    attention = 2 * 4 * 64 * (16 * 17 / 2)
    flops = {
        row["name"]: row["flops"] * row["runs"]
        for row in figures(folder, "static_compute.json")["operators"]
        if row["phase"] == "prefill" and row["class"] in ("gemm", "attention")
    }
    assert set(flops) == {
        "qkv_proj", "attention", "o_proj", "gate_up_proj", "down_proj", "lm_head"
    }  # fmt: skip
    assert sum(flops.values()) == pytest.approx(linear + attention)
