"""Shared experts beside the routed ones: work is kept, kernels of their own are gone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import model_registry
from genz_core.beside import SharedBeside
from genz_core.steps.placed_graph import of_busiest_rank
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


@pytest.mark.parametrize("imbalance", [1.0, 1.05, 2.0])
@pytest.mark.parametrize("ep", [1, 8])
def test_uneven_routing_loads_the_routed_experts_alone(imbalance, ep):
    """Shared experts have the same work on every rank, in the routed product or in their own."""
    step, split = Step((Group(64.0, 1.0, 2048.0),)), Parallelism(tp=8, ep=ep)
    uneven = replace(split, expert_imbalance=imbalance)
    alone, beside = (
        of_busiest_rank(m.graph(step, split), uneven) for m in (DEEPSEEK, SharedBeside(DEEPSEEK))
    )
    for figure in ("flops", "weight_bytes", "held_weight_bytes"):
        one, other = (
            float(sum(np.sum(getattr(op, figure)) * op.count for op in graph.ops))
            for graph in (alone, beside)
        )
        assert other == pytest.approx(one, rel=1e-3), figure


def test_experts_exchanged_while_shared_ones_run_stay_apart():
    step = Step((Group(64.0, 1.0, 2048.0),))
    split = Parallelism(tp=1, dp=8, ep=8, overlap="shared_experts")
    assert SharedBeside(DEEPSEEK).graph(step, split).ops == DEEPSEEK.graph(step, split).ops


def test_shared_experts_with_a_gate_of_their_own_stay_apart():
    qwen = model_registry.load("Qwen/Qwen3.5-397B-A17B")
    step, split = Step((Group(4.0, 1.0, 2048.0),)), Parallelism(tp=8, ep=8)
    assert SharedBeside(qwen).graph(step, split).ops == qwen.graph(step, split).ops
