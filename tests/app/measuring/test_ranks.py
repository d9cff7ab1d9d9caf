"""`measure ranks`: a model over several processes of this machine."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.measuring import run_store
from genz_core.types import Parallelism
from profilers.runs import run_config


def ranked(monkeypatch: pytest.MonkeyPatch, device: str, backend: str) -> None:
    """`run_ranks` returns at once the result of two ranks on such a device."""
    from profilers.collect import distributed

    def run_ranks(settings: Any, ranks: int, *_: object) -> Any:
        fast = {
            "phases": {"prefill": [0.02], "decode": [0.01, 0.012]}, "device": device,
            "facts": {"backend": backend}, "collectives": [],
        }  # fmt: skip
        slow = {**fast, "phases": {"prefill": [0.03], "decode": [0.009, 0.013]}}
        return distributed.merge([fast, slow], settings)

    monkeypatch.setattr(distributed, "run_ranks", run_ranks)


def test_ranks_are_kept_with_the_times_of_each(ridgeline, answer, tiny: str, monkeypatch) -> None:
    ranked(monkeypatch, "", "gloo")
    document = answer("measure", "ranks", tiny, "--tp", "2", "--tag", "two")
    (run,) = run_store.store().runs("two")
    assert (document["run"], run.label) == (run.id, "tiny, 2 ranks")
    assert run.phases == {"prefill": 0.03, "decode": 0.0115}
    assert run_store.store().load(run.id).facts["world_size"] == 2
    folder = run_store.store().path(run.id)
    figures = json.loads((folder / "metrics.json").read_text())
    assert [rank["prefill"] for rank in figures["ranks"]] == [[0.02], [0.03]]
    assert "ranks on a CPU share its cores" in (folder / "assumptions.md").read_text()
    assert "tp: 2" in (folder / "inputs.yaml").read_text()
    assert ridgeline("measure", "ranks", tiny, "--no-keep").exit_code == 0
    assert len(run_store.store().runs()) == 1


def test_ranks_on_gpus_are_predicted_as_devices_that_share_the_model(monkeypatch) -> None:
    """Two devices read half of the weights each, and only products are halved."""
    ranked(monkeypatch, "NVIDIA H100 80GB HBM3", "nccl")
    config = run_config.compose(["ranks.tp=2", "model=qwen3-8b", "isl=512"])
    outcome = run_store.perform(config, Path())
    assert outcome.context.split.tp == 2
    shared, alone = (
        run_store.predicted_estimate(outcome.measurement, replace(outcome.context, split=split))
        for split in (outcome.context.split, Parallelism())
    )
    assert shared is not None and alone is not None
    bounds = [float(estimate.decode.bound_total_s[0]) for estimate in (shared, alone)]
    assert 0.5 < bounds[0] / bounds[1] < 0.6


@pytest.mark.slow
def test_two_ranks_of_this_machine_are_measured_and_kept(answer, tiny: str) -> None:
    small = ("--isl", "8", "--osl", "3", "--repeats", "2", "--device", "cpu")
    document = answer("measure", "ranks", tiny, *small)
    kept = run_store.store().load(document["run"])
    assert len(kept.phases["decode"].samples_s) == 4 and kept.facts["backend"] == "gloo"
