"""A user's choice of formats is applied on top of the checkpoint's."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import model_registry
from genz_core.errors import UnknownPrecision
from genz_core.precision import FORMATS, arithmetic
from genz_core.types import Precision
from model_registry.finding.catalog import shipped_models
from model_registry.quantization.overrides import override_formats, quantised_formats
from model_registry.quantization.resolve import resolve_precision
from model_registry.quantization.roles import ENDS, KEPT, MODULES
from tests.model_registry.shared_models import checkpoint_precision
from tests.rules import for_every

BF16 = resolve_precision({"model_type": "llama", "num_hidden_layers": 4, "dtype": "bfloat16"})
ROLES = (*MODULES, *ENDS)
LINEAR_ROLES = tuple(role for role in ROLES if role not in KEPT)


def formats(precision: Precision, *roles: str) -> tuple[str, ...]:
    return tuple(precision.weight(role, 0) for role in roles)


def test_an_unknown_wish_is_refused() -> None:
    with pytest.raises(UnknownPrecision, match="fp7"):
        override_formats(BF16, weights="fp7")


def test_without_wishes_a_16_bit_checkpoint_stays_and_says_so() -> None:
    precision, messages = override_formats(BF16)
    assert precision == BF16
    assert messages == ("weights: bf16 (the checkpoint's bf16)",)


def test_fp8_asked_of_a_bf16_checkpoint_spares_embedding_head_and_router() -> None:
    precision, _ = override_formats(BF16, weights="FP8")
    assert {precision.weight(role, 1) for role in LINEAR_ROLES} == {"fp8"}
    assert formats(precision, "embedding", "lm_head", "router") == ("bf16",) * 3
    assert precision.kv == "bf16" and precision.activations == "bf16"


def test_a_gguf_type_takes_every_matrix() -> None:
    precision, _ = override_formats(BF16, weights="Q4_K_M")
    assert formats(precision, "embedding", "lm_head", "mlp.up") == ("q4_k_m",) * 3
    assert precision.weight("norm") == "bf16"


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("openai/gpt-oss-120b", "mxfp4"),
        ("deepseek-ai/DeepSeek-V3", "fp8"),
        ("deepseek-ai/DeepSeek-V3", "fp8_block"),
        ("moonshotai/Kimi-K2.5", "int4"),
        ("nvidia/MiniMax-M3-NVFP4", "nvfp4"),
    ],
)
def test_asking_for_the_checkpoints_own_scheme_keeps_its_map(name: str, asked: str) -> None:
    own = checkpoint_precision(name)
    for experts in ("", asked):
        same, _ = override_formats(own, weights=asked, moe_weights=experts)
        assert replace(same, kv_source=own.kv_source) == own


def test_16_bit_asked_of_a_quantised_checkpoint_covers_its_experts_too() -> None:
    precision, _ = override_formats(checkpoint_precision("openai/gpt-oss-120b"), weights="bf16")
    assert {precision.weight(role, 7) for role in ROLES} == {"bf16"}


def test_nvfp4_asked_of_a_16_bit_checkpoint_has_the_cache_that_modelopt_exports() -> None:
    precision, (said,) = override_formats(BF16, weights="nvfp4")
    assert precision.kv == "fp8" and said.endswith("kv cache fp8")
    assert override_formats(BF16, weights="nvfp4", kv="bf16")[0].kv == "bf16"
    assert override_formats(BF16, weights="fp8")[0].kv == "bf16"


def test_expert_weights_may_differ_from_the_rest() -> None:
    precision, messages = override_formats(BF16, weights="fp8", moe_weights="nvfp4")
    assert formats(precision, "experts.up", "shared_experts.up", "mlp.up") == (
        "nvfp4",
        "fp8",
        "fp8",
    )
    assert "experts: nvfp4" in messages


def test_expert_weights_alone_leave_the_checkpoints_map_elsewhere() -> None:
    precision, _ = override_formats(
        checkpoint_precision("nvidia/MiniMax-M3-NVFP4"), moe_weights="fp8"
    )
    assert precision.weight("experts.up", 5) == "fp8"
    assert precision.weight("attention.q", 5) == "mxfp8"


def test_the_cache_is_the_checkpoints_unless_asked() -> None:
    own = checkpoint_precision("nvidia/DeepSeek-V3.1-NVFP4")
    assert override_formats(own)[0].kv == "fp8"
    assert override_formats(own, kv="bf16")[0].kv == "bf16"
    assert override_formats(BF16, kv="fp8")[0].kv == "fp8"


CHOSEN = [
    ({}, "checkpoint"),
    ({"moe_weights": "fp8"}, "checkpoint"),
    ({"weights": "fp8"}, "convention"),
    ({"weights": "bf16"}, "convention"),
    ({"weights": "nvfp4"}, "checkpoint"),  # the format itself implies an fp8 cache
    ({"kv": "fp8"}, "asked"),
    ({"weights": "fp8", "kv": "bf16"}, "asked"),
    ({"weights": "NVFP4", "kv": "fp8"}, "asked"),
]


@pytest.mark.parametrize(("wishes", "source"), CHOSEN)
@pytest.mark.parametrize("name", ["meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3"])
def test_the_precision_remembers_who_chose_the_cache(
    name: str, wishes: dict[str, str], source: str
) -> None:
    assert model_registry.load(name, **wishes).precision.kv_source == source


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("TheBloke/Llama-2-7B-AWQ", "convention"),
        ("amd/Llama-3.1-405B-Instruct-FP8-KV", "asked"),
        ("nvidia/Qwen3-32B-NVFP4", "asked"),
        ("nvidia/DeepSeek-V3.1-NVFP4", "checkpoint"),
    ],
)
def test_formats_that_a_name_announces_count_as_asked_for(name: str, source: str) -> None:
    assert model_registry.load(name).precision.kv_source == source


@for_every(product(["meta-llama/Llama-3.1-8B", "nvidia/MiniMax-M3-NVFP4"], ["", *FORMATS]))
def test_the_cache_is_a_convention_only_where_weights_were_asked_for_and_it_was_not(
    name: str, weights: str
) -> None:
    implied = not weights or bool(FORMATS[weights].cache)
    unsaid, _ = override_formats(checkpoint_precision(name), weights=weights)
    said, _ = override_formats(checkpoint_precision(name), weights=weights, kv="fp8")
    assert unsaid.kv_source == ("checkpoint" if implied else "convention")
    assert said.kv_source == "asked"


def test_16_bit_inputs_make_fp8_weights_a_storage_format() -> None:
    precision, _ = override_formats(BF16, weights="fp8", activations="bf16")
    assert precision.compute == "bf16"


def test_fp8_inputs_of_fp8_weights_travel_as_16_bit() -> None:
    precision, messages = override_formats(BF16, weights="fp8", activations="fp8")
    assert precision.activations == "bf16" and precision.compute == ""
    assert "quantised at each product" in messages[-1]


def test_a_forced_arithmetic_is_kept() -> None:
    assert override_formats(BF16, compute="fp16")[0].compute == "fp16"


#: Formats of a checkpoint that are not changed by a choice for the key.
VARIANTS = {
    "fp8": {"fp8", "fp8_block", "mxfp8"},
    "int4": {"int4", "int4_g32"},
    "q8_0": {"q8_0"},
    "bf16": set(),
}


@given(st.sampled_from(sorted(shipped_models())), st.sampled_from(sorted(VARIANTS)))
def test_a_wish_is_granted_or_already_true_and_asking_twice_changes_nothing(
    name: str, asked: str
) -> None:
    own = checkpoint_precision(name)
    once, _ = override_formats(own, weights=asked)
    if quantised_formats(own) & VARIANTS[asked]:
        assert (once.weights, once.by_layer) == (own.weights, own.by_layer)
    else:
        assert {once.weight(role) for role in LINEAR_ROLES} == {asked} and not once.by_layer
    assert override_formats(once, weights=asked)[0] == once


@pytest.mark.parametrize(
    ("pair", "arithmetic_type"),
    [("w16a16", "bf16"), ("w8a16", "bf16"), ("w8a8", "int8"), ("w4a16", "bf16"), ("w4a8", "fp8")],
)
def test_a_pair_of_weights_and_inputs_is_one_wish(pair: str, arithmetic_type: str) -> None:
    made, _ = override_formats(BF16, weights=pair)
    weights = made.weight("mlp.up", 0)
    assert arithmetic(weights, made.activations, made.compute) == arithmetic_type
    bits = int(pair[1 : pair.index("a")])
    assert bits <= FORMATS[weights].bits < bits + 1


def test_w8a8_of_an_fp8_checkpoint_is_what_it_has() -> None:
    held = checkpoint_precision("deepseek-ai/DeepSeek-V3")
    made, _ = override_formats(held, weights="w8a8")
    assert made.weights == held.weights and made.activations == held.activations
