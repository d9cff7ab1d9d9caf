"""Traces compared with execution: tiny models with random weights, counted by PyTorch."""

from typing import Any

import numpy as np
import pytest

from genz_core.graphs import Graph
from genz_core.types import Parallelism, Step
from model_registry.tracing import trace
from tests.model_registry.tracing_cases import TINY, tiny

pytestmark = pytest.mark.usefixtures("transformers")

BATCH, PROMPT = 2, 12
#: The reference code, op by op: PyTorch counts what it executes.
AS_WRITTEN = ("mla_absorbed",)


def executed(config: dict[str, Any]) -> tuple[int, int]:
    """FLOPs of a prefill and of the decode step after it, by FlopCounterMode."""
    import torch
    import transformers
    from torch.utils.flop_counter import FlopCounterMode

    torch.manual_seed(0)
    settings = transformers.AutoConfig.for_model(**config)
    model = transformers.AutoModelForCausalLM.from_config(
        settings, attn_implementation="eager", experts_implementation="eager"
    ).eval()
    ids = torch.randint(0, 100, (BATCH, PROMPT))
    with torch.no_grad():
        with FlopCounterMode(display=False) as prefill:
            out = model(ids, use_cache=True, logits_to_keep=1)
        with FlopCounterMode(display=False) as decode:
            model(ids[:, :1], past_key_values=out.past_key_values, use_cache=True)
    return prefill.get_total_flops(), decode.get_total_flops()


def products(graph: Graph) -> float:
    """FLOPs of the matrix products as PyTorch counts them: no bias, no causal saving."""
    total = 0.0
    for op in graph.ops:
        size = {name: float(np.asarray(value)) for name, value in op.dims.items()}
        if op.kind == "gemm":
            total += 2.0 * size["m"] * size["n"] * size["k"] * op.count
        elif op.kind == "moe":
            matrices = 2.0 + size["gated"]
            rows = size["rows"] * 2.0 * matrices * size["hidden"] * size["intermediate"]
            total += rows * op.count
        elif op.operator_class == "attention":
            reach = size["new_tokens"] + size["cached_tokens"]
            pairs = size["sequences"] * size["heads"] * size["new_tokens"] * reach
            total += 2.0 * pairs * (size["head_dim"] + size["value_dim"]) * op.count
    return total


@pytest.mark.by_day(5)
@pytest.mark.parametrize("model_type", TINY)
def test_a_trace_counts_the_flops_that_are_executed(model_type: str) -> None:
    config = tiny(model_type)
    model = trace(config, without=AS_WRITTEN, use_cache=False)
    prefill, decode = executed(config)
    assert products(model.graph(Step.prefill(BATCH, PROMPT), Parallelism())) == prefill
    assert products(model.graph(Step.decode(BATCH, PROMPT), Parallelism())) == decode
