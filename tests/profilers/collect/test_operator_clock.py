"""Operators on the clock of the steps: they are parts of the steps, whatever else runs."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from profilers.collect.clock import Clock
from profilers.collect.measured_model import RunSettings
from profilers.collect.model import run_model, run_scaled
from profilers.collect.operator_clock import fitted_to_steps, operator_rows, timed_operators
from profilers.operators.aten_classes import kind_of
from profilers.schema import PhaseTiming


@pytest.fixture
def settings(tiny_llama: dict[str, Any]) -> RunSettings:
    return RunSettings(tiny_llama, isl=24, osl=4, device="cpu", warmup=1, repeats=3)


@pytest.mark.parametrize("layers", [0, 2], ids=["whole", "cut and scaled"])
def test_operators_never_take_longer_than_their_step(settings: RunSettings, layers: int) -> None:
    run = (run_scaled if layers else run_model)(replace(settings, layers=layers))
    measured, steps = run.measurement, {"prefill": 1, "decode": 3}
    for phase, timing in measured.phases.items():
        table = measured.operators
        parts = table["time_s"][table["phase"] == phase].sum() / steps[phase]
        assert 0 < parts <= timing.median_s * (1 + 1e-9)


def test_operators_are_called_as_often_as_the_model_has_them_and_know_their_flops(
    settings: RunSettings,
) -> None:
    table = run_model(settings).measurement.operators.set_index(["phase", "name"])
    products = table.loc[("prefill", "aten::mm")]
    assert products["count"] == 4 * 7 + 1
    layer = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 192
    whole = 2 * (24 * 4 * layer + 64 * 256)
    assert products["count"] * products["flops"] == pytest.approx(whole), "LM head on one token"
    attention = "aten::_scaled_dot_product_flash_attention_for_cpu"
    assert table.loc[("decode", attention), "flops"] > 0


def test_a_batch_runs_under_the_clock_the_kernels_that_it_runs_without(
    settings: RunSettings,
) -> None:
    """The last tokens of two prompts are not adjacent in memory: still one product of both."""
    table = run_model(replace(settings, batch=2)).measurement.operators.set_index(["phase", "name"])
    products = table.loc[("prefill", "aten::mm")]
    assert products["count"] == 4 * 7 + 1
    assert ("prefill", "aten::bmm") not in table.index
    layer = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 192
    whole = 2 * 2 * (24 * 4 * layer + 64 * 256)
    assert products["count"] * products["flops"] == pytest.approx(whole)


def test_only_what_runs_inside_a_phase_counts() -> None:
    import torch

    square = torch.ones(8, 8)

    def run(phase: Any) -> None:
        square + square
        with phase("decode"):
            torch.nn.functional.linear(square, square)

    sums = timed_operators(run, Clock(torch.device("cpu"), "cpu"))
    assert {phase for phase, _ in sums} == {"decode"}
    assert sums["decode", "aten::mm"][2] == 2 * 8**3, "the linear is its product"
    assert not any(name == "aten::linear" for _, name in sums)


def test_rows_are_medians_over_requests() -> None:
    rounds = [{("decode", "aten::mm"): [3.0, seconds, 60.0]} for seconds in (1.0, 9.0, 2.0)]
    (row,) = operator_rows(rounds, kind_of).to_dict("records")
    assert (row["time_s"], row["count"], row["flops"], row["class"]) == (2.0, 3, 20.0, "gemm")


def test_parts_above_their_whole_are_scaled_to_it_and_others_left() -> None:
    table = pd.DataFrame(
        {"phase": ["prefill", "decode", "decode"], "name": list("abc"), "time_s": [1.0, 2.0, 6.0]}
    )
    phases = {"prefill": PhaseTiming("prefill", (2.0,)), "decode": PhaseTiming("decode", (1.0,))}
    fitted, factors = fitted_to_steps(table, phases, {"prefill": 1, "decode": 4})
    assert factors == {"decode": 0.5}
    assert fitted.set_index("name")["time_s"].to_dict() == {"c": 3.0, "a": 1.0, "b": 1.0}


def test_a_phase_may_be_marked_by_anything(settings: RunSettings) -> None:
    from profilers.collect.measured_model import build, pick_device
    from profilers.collect.model import one_request

    device = pick_device("cpu")
    model, _ = build(settings, device)
    first, steps = one_request(model, settings, Clock.for_device(device), mark=nullcontext)
    assert first > 0 and len(steps) == 3
