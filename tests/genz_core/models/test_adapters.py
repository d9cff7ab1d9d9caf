"""LoRA adapters in addition to a model's products: counted as in PEFT, priced by the same
equations.
"""

from __future__ import annotations

import numpy as np
import pytest

import hardware_db
import model_registry
from genz_core.capacity.memory import memory
from genz_core.models.adapters import Adapters, adapted_model
from genz_core.phases import decode_step
from genz_core.types import Parallelism, Step, Workload

LLAMA = model_registry.load("meta-llama/Llama-3.1-8B")
H100, ENGINE = hardware_db.load("h100-sxm5-80gb"), hardware_db.load_engine("vllm")


def lora_ops(model, step, split=None):
    ops = model.graph(step, split or Parallelism()).ops
    return [op for op in ops if "_lora_" in op.name]


@pytest.mark.parametrize(("rank", "trained"), [(16, 41_943_040), (8, 20_971_520)])
def test_an_adapter_on_every_linear_layer_has_the_parameters_that_peft_trains(rank, trained):
    """PEFT prints 41,943,040 trainable parameters for r = 16 on q, k, v, o, gate, up and down."""
    held = sum(
        np.max(op.held_weight_bytes) * op.count
        for op in lora_ops(adapted_model(LLAMA, Adapters(rank)), Step.decode(1.0, 100.0))
    )
    assert held / 2.0 == trained


def test_flops_are_two_a_parameter_and_token():
    ops = lora_ops(adapted_model(LLAMA, Adapters(16, 4)), Step.decode(32.0, 100.0))
    assert sum(np.max(op.flops) * op.count for op in ops) == pytest.approx(2 * 32 * 41_943_040)


def test_a_step_reads_the_adapters_that_its_tokens_name():
    assert Adapters(8, 4).touched(np.array([1.0, 1e6])) == pytest.approx([1.0, 4.0])
    assert Adapters(8, 2).touched(np.array([2.0])) == pytest.approx([1.5])  # 2 (1 - 1/4)
    assert Adapters(8).touched(np.array([0.0, 1.0, 9.0])) == pytest.approx([0.0, 1.0, 1.0])
    one, many = (
        sum(np.max(op.weight_bytes) * op.count
            for op in lora_ops(adapted_model(LLAMA, Adapters(16, n)), Step.decode(64.0, 10.0)))
        for n in (1, 8)
    )  # fmt: skip
    assert many / one == pytest.approx(float(Adapters(16, 8).touched(np.array(64.0))))


def test_tensor_parallel_ranks_hold_less_than_all_and_more_than_their_part():
    model = adapted_model(LLAMA, Adapters(16, 8))
    split = Parallelism(tp=4)
    alone, quarter = (
        sum(np.max(op.held_weight_bytes) * op.count
            for op in lora_ops(model, Step.decode(1.0, 10.0), degrees))
        for degrees in (Parallelism(), split)
    )  # fmt: skip
    assert alone / 4.0 < quarter < alone


def test_adapters_take_memory_and_time_and_more_of_them_more():
    sizes = (H100, 16.0, 1000.0, Parallelism(), ENGINE)
    plain = decode_step(LLAMA, *sizes).total_s[0]
    steps = [decode_step(adapted_model(LLAMA, Adapters(16, n)), *sizes).total_s[0] for n in (1, 16)]
    assert plain < steps[0] < steps[1] < 2.0 * plain
    load = Workload(16, 1000, 100)
    held = [
        memory(model, H100, load, Parallelism(), ENGINE).weights_bytes[0]
        for model in (LLAMA, adapted_model(LLAMA, Adapters(16, 16)))
    ]
    assert held[1] - held[0] == pytest.approx(16 * 2 * 41_943_040)


def test_routers_and_experts_have_none():
    model = adapted_model(model_registry.load("Qwen/Qwen3-30B-A3B"), Adapters(16))
    named = {op.name for op in lora_ops(model, Step.decode(4.0, 100.0))}
    assert named == {f"{part}_lora_{side}" for part in ("qkv_proj", "o_proj") for side in "ab"}
