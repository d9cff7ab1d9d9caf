"""Shared experts beside the routed ones: work is kept, kernels of their own are gone."""

from __future__ import annotations

import numpy as np
import pytest

import model_registry
from genz_core.beside import SharedBeside
from genz_core.types import Group, Parallelism, Step

DEEPSEEK = model_registry.load("deepseek-ai/DeepSeek-R1")


@pytest.mark.parametrize("split", [Parallelism(tp=8), Parallelism(tp=8, ep=8)])
def test_products_and_weights_of_a_step_are_those_of_both(split):
    step = Step((Group(64.0, 1.0, 2048.0),))
    alone, beside = (m.graph(step, split) for m in (DEEPSEEK, SharedBeside(DEEPSEEK)))
    names = {op.name for op in beside.ops}
    assert not any(name.startswith("shared_experts") for name in names) and "experts" in names
    for figure, least in (("flops", 0.999), ("weight_bytes", 1.0), ("held_weight_bytes", 1.0)):
        one, other = (
            float(sum(np.sum(getattr(op, figure)) * op.count for op in graph.ops))
            for graph in (alone, beside)
        )
        assert least * one <= other * (1.0 + 1e-9) <= one * (1.0 + 1e-6)


def test_experts_exchanged_while_shared_ones_run_stay_apart():
    step = Step((Group(64.0, 1.0, 2048.0),))
    split = Parallelism(tp=1, dp=8, ep=8, overlap="shared_experts")
    assert SharedBeside(DEEPSEEK).graph(step, split).ops == DEEPSEEK.graph(step, split).ops


def test_shared_experts_with_a_gate_of_their_own_stay_apart():
    qwen = model_registry.load("Qwen/Qwen3.5-397B-A17B")
    step, split = Step((Group(4.0, 1.0, 2048.0),)), Parallelism(tp=8, ep=8)
    assert SharedBeside(qwen).graph(step, split).ops == qwen.graph(step, split).ops
