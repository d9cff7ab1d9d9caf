"""Layers with a window whose engine keeps whole sequences in the cache."""

from __future__ import annotations

import numpy as np
import pytest

import hardware_db
import model_registry
from genz_core.deployment import deploy
from genz_core.graphs import Graph
from genz_core.types import Parallelism, Step

GPT_OSS = model_registry.load("openai/gpt-oss-120b")
MAVERICK = model_registry.load("meta-llama/Llama-4-Maverick-17B-128E-Instruct")
LLAMA = model_registry.load("meta-llama/Llama-3.1-8B")
H200 = hardware_db.load("h200")
TOKENS = 20000.0


def graph(model) -> Graph:
    return model.graph(Step.decode(3, TOKENS - 1.0), Parallelism())


def total(model, field: str) -> float:
    return float(sum(np.sum(getattr(op, field)) * op.count for op in graph(model).ops))


@pytest.mark.parametrize("model", [GPT_OSS, MAVERICK], ids=lambda model: model.name)
def test_every_layer_keeps_every_token_and_no_step_moves_more(model):
    whole = model.padded(frozenset({"windows"}))
    layers = [op for op in graph(whole).ops if op.kind == "attention"]
    each = {float(np.sum(op.held_kv_bytes)) for op in layers}
    assert len(each) == 1 and sum(op.count for op in layers) == len(model.spec.layers)
    assert total(model, "held_kv_bytes") < total(whole, "held_kv_bytes")
    for field in ("flops", "kv_read_bytes", "kv_write_bytes", "held_weight_bytes"):
        assert total(whole, field) == total(model, field)


def test_gpt_oss_keeps_all_layers_at_the_width_of_eight_heads_of_sixty_four():
    whole = GPT_OSS.padded(frozenset({"windows"}))
    assert total(whole, "held_kv_bytes") == 3 * TOKENS * 36 * 2 * 8 * 64 * 2
    half = 3 * (TOKENS + 128) * 18 * 2 * 8 * 64 * 2
    assert total(GPT_OSS, "held_kv_bytes") == half


@pytest.mark.parametrize(("engine", "whole"), [("trtllm", 1), ("sglang", 1), ("vllm", 0)])
def test_engines_differ(engine, whole):
    deployed = deploy(GPT_OSS, H200, hardware_db.load_engine(engine))
    asked = GPT_OSS.padded(frozenset({"windows"})) if whole else GPT_OSS
    assert total(deployed.model, "held_kv_bytes") == total(asked, "held_kv_bytes")
    assert ("whole sequences" in " ".join(deployed.notes)) == whole


def test_a_model_without_windows_is_the_same_object():
    assert LLAMA.padded(frozenset({"windows"})) is LLAMA
    once = GPT_OSS.padded(frozenset({"windows"}))
    assert once.padded(frozenset({"windows"})) is once
