"""Shared experts as rows of the routed experts' product, for engines that run both at once.

Serving engines run the shared experts on a second stream while the routed ones run, or append them
to the routed ones.  At the batch sizes of a decode step neither fills the device, so the shared
experts only add the time of their products and weights.

Sources: SGLang, python/sglang/srt/models/deepseek_v2.py (`forward_normal_dual_stream` up to 1,024
tokens, `num_fused_shared_experts`); vLLM, vllm/envs.py
(`VLLM_SHARED_EXPERTS_STREAM_TOKEN_THRESHOLD`, 256 tokens); TensorRT-LLM,
tensorrt_llm/_torch/models/modeling_deepseekv3.py (`maybe_execute_in_parallel` of the shared and the
routed output).

These limits on tokens are not applied.  At 256 tokens kernels in series are priced 1 to 3 % above
this form, at 1,024 tokens from 1 % below to 0.4 % above: a switch would lower the throughput of
one more user by more than 1 %, or make a larger step faster.  Far above the limits this form is
priced up to 3 % above kernels in series.

Shared experts with a gate of their own (Qwen2-MoE and its successors) are priced in series: their
output is scaled before it is added, so a grouped product cannot include them.  SGLang runs them
on a second stream (python/sglang/srt/models/qwen2_moe.py), but the 30 measured loads of
Qwen3.5-397B in FP8 under SGLang 0.5.9 do not show it: with the model left out of the fit their
tokens take 1.2 times (median) as long as priced in series.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from genz_core.graphs import Graph, Op
from genz_core.models.model_wrapper import ModelAround
from genz_core.types import Parallelism, Precision, Step

_SHARED = "moe.shared"  # end of the module of their operators
_GATE = "shared_experts_gate"  # the product that scales their output
_LEAST = 1e-300  # instead of 0 in a division


@dataclass(frozen=True, slots=True)
class SharedBeside(ModelAround):
    """A `Model` whose shared experts run with the routed ones of their layer."""

    def with_precision(self, precision: Precision) -> SharedBeside:
        """The same in other number formats."""
        return SharedBeside(self.model.with_precision(precision))

    def graph(self, step: Step, parallelism: Parallelism) -> Graph:
        """The model's graph of a step, with the shared experts in the routed experts' product.

        Unchanged where the shared experts run during exchanges (`genz_core.steps.overlap`).
        """
        graph = self.model.graph(step, parallelism)
        return graph if parallelism.overlap == "shared_experts" else joined(graph)


def joined(graph: Graph) -> Graph:
    """The graph with the products of shared experts added to the routed experts of their layers;
    those with a gate stay as they are.
    """
    by_layers: dict[tuple[int, ...], list[Op]] = defaultdict(list)
    for op in graph.ops:
        by_layers[op.layers].append(op)
    wider: dict[int, Op] = {}
    gone: set[int] = set()
    for members in by_layers.values():
        routed = [op for op in members if op.kind == "moe"]
        shared = [op for op in members if op.module.endswith(_SHARED)]
        shared = [op for op in shared if op.operator_class != "collective"]
        gated = any(op.name == _GATE for op in shared)
        if len(routed) == 1 and shared and members[0].layers and not gated:
            wider[id(routed[0])] = _with(routed[0], shared)
            gone |= set(map(id, shared))
    if not gone:
        return graph
    ops = tuple(wider.get(id(op), op) for op in graph.ops if id(op) not in gone)
    return replace(graph, ops=ops)


def _with(routed: Op, shared: list[Op]) -> Op:
    """The routed experts with the rows and the weights of the shared ones; their activation is in
    the grouped product.
    """
    dims = routed.dims
    flops = sum(op.flops for op in shared if np.any(np.asarray(op.held_weight_bytes) != 0))
    weights = sum(op.weight_bytes for op in shared)
    held = sum(op.held_weight_bytes for op in shared)
    of_row = routed.flops / np.maximum(dims["rows"], _LEAST)
    rows = flops / np.maximum(of_row, _LEAST)
    of_expert = np.maximum(routed.held_weight_bytes / np.maximum(dims["experts"], _LEAST), _LEAST)
    return replace(
        routed,
        flops=routed.flops + flops,
        weight_bytes=routed.weight_bytes + weights,
        held_weight_bytes=routed.held_weight_bytes + held,
        dims={
            **dims,
            "rows": dims["rows"] + rows,
            "active_experts": dims["active_experts"] + weights / of_expert,
            "shared_rows": rows,
            "shared_experts": held / of_expert,
        },
    )
