"""Gemma's small models: late layers read the cache of earlier ones, each layer has its own inputs.
Counts: google/gemma-3n (arXiv:2507.06261, section on Gemma 3n) and transformers' classes.
"""

import numpy as np
import pytest

import model_registry
from genz_core.types import Group, Parallelism, Step
from model_registry.graph.model import DescribedModel
from model_registry.spec import Attention, LayerInput

#: Layers, the last of them without a cache of their own, the window of most, and bytes per layer
#: and token.
SHARING = {
    "google/gemma-3n-E2B": (30, 10),
    "google/gemma-3n-E4B": (35, 15),
    "google/gemma-4-E2B": (35, 20),
    "google/gemma-4-E4B": (42, 18),
}


def described(name: str) -> DescribedModel:
    model = model_registry.load(name)
    assert isinstance(model, DescribedModel)
    return model


def attentions(model: DescribedModel) -> list[Attention]:
    blocks = (block for layer in model.spec.layers for block in layer.blocks)
    return [block for block in blocks if isinstance(block, Attention)]


@pytest.mark.parametrize("name", SHARING)
def test_the_last_layers_keep_no_cache_and_read_that_of_earlier_ones(name: str) -> None:
    model = described(name)
    layers, sharing = SHARING[name]
    mixers = attentions(model)
    assert [mixer.shares_kv for mixer in mixers] == [False] * (layers - sharing) + [True] * sharing
    context = 4096.0
    step = Step((Group(1.0, 1.0, context),))
    ops = [op for op in model.graph(step, Parallelism()).ops if op.kind == "attention"]
    kept = sum(
        min(context + 1, mixer.window or context + 1) * mixer.kv_heads * mixer.head_dim
        * (1 if mixer.keys_are_values else 2) * 2.0
        for mixer in mixers if not mixer.shares_kv
    )  # fmt: skip
    held = sum(float(np.sum(op.held_kv_bytes)) * op.count for op in ops)
    assert held == pytest.approx(kept, rel=2e-3)
    read = sum(float(np.sum(op.kv_read_bytes)) * op.count for op in ops)
    assert read > held * 1.2  # every sharing layer reads a cache of another layer


@pytest.mark.parametrize("name", SHARING)
def test_every_layer_has_inputs_of_its_own_from_one_wide_table(name: str) -> None:
    model = described(name)
    own = [b for layer in model.spec.layers for b in layer.blocks if isinstance(b, LayerInput)]
    assert len(own) == len(model.spec.layers) and model.spec.layer_input_rows == 262144
    ops = {op.name: op for op in model.graph(Step.decode(1.0, 16.0), Parallelism()).ops}
    table = ops["layer_inputs"]
    whole = 262144 * len(own) * own[0].width * 2.0
    assert float(np.sum(table.held_weight_bytes)) == pytest.approx(whole)
    assert float(np.sum(table.weight_bytes)) < whole / 1000  # a token reads only its row
