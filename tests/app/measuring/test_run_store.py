"""A run and its artifacts: what was measured, what was predicted, on what both rest."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import profilers
from app.measuring import run_store
from profilers.run_config import RunConfig, compose

ARTIFACTS = {
    "report.md", "operators.md", "kernels.md", "metrics.json", "static_compute.json",
    "stakeholder_summary.md", "env.json", "inputs.yaml", "assumptions.md", "cmd.txt",
    "trace.json.gz", "kernels.parquet", "operators.parquet", "run.json",
}  # fmt: skip


@pytest.fixture
def kept(tiny: str) -> Callable[..., tuple[RunConfig, Path]]:
    """Runs the tiny model on a thread of this CPU; returns the configuration and the folder."""

    def run(*overrides: str) -> tuple[RunConfig, Path]:
        settings = (f"path={tiny}", "isl=16", "device=cpu", "threads=1")
        config = compose([*settings, *overrides])
        return config, run_store.store().path(run_store.execute(config))

    return run


def figures(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def test_a_run_leaves_every_artifact(kept) -> None:
    settings = ("profile=full", "osl=3", "repeats=2", "warmup=1", "system=epyc-9654")
    config, folder = kept(*settings)
    assert {path.name for path in folder.iterdir()} == ARTIFACTS
    assert compose(file=folder / "inputs.yaml") == config
    metrics = figures(folder, "metrics.json")
    assert 0 < metrics["efficiency"]["decode"]["mbu"] < 1
    classes = {(row["phase"], row["class"]): row for row in metrics["comparison"]["classes"]}
    for kind in ("gemm", "attention"):
        row = classes["decode", kind]
        assert row["measured_s"] > 0 and row["predicted_s"] > 0
    ranges = profilers.read_report(folder / "trace.json.gz").ranges["name"].astype(str)
    assert {"prefill", "decode"} <= set(ranges)


def test_a_cut_model_says_what_of_it_is_scaled(kept) -> None:
    _, folder = kept("osl=2", "profile=quick", "layers=2", "repeats=1")
    sentences = (folder / "assumptions.md").read_text()
    assert (
        "- it was cut to 2 layers; times and operators are scaled to all, kernels and trace are of "
        "the cut model\n"
    ) in sentences


def test_static_figures_need_no_hardware(kept, config: dict[str, Any]) -> None:
    """2 layers of 4 products, the LM head, tied embeddings: 2 flops a parameter and token."""
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
