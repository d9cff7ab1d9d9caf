"""Degrees that cannot split a model are refused, with the indivisible size and near degrees."""

import re
from dataclasses import dataclass
from typing import get_args

import pytest

from genz_core.types import Parallelism
from model_registry.graph.parallel_limits import invalid_reason, split_limits
from model_registry.spec import (
    AlternatingUpdate,
    Attention,
    Block,
    CompressedAttention,
    CrossAttention,
    DeltaNet,
    FactorisedAttention,
    FeedForward,
    GatedRecurrence,
    LatentAttention,
    Layer,
    LayerInput,
    LightningAttention,
    Mamba,
    Mamba2,
    Mixture,
    ModelSpec,
    RwkvMixer,
    SharedTransformer,
    ShortConvolution,
    ShortcutMixture,
    SideBySide,
    SplitLimit,
)
from tests.model_registry.shared_models import built

#: A block of every type, with the sizes that each degree must divide.
LIMITS: list[tuple[Block, set[str]]] = [
    (Attention(32, 8, 128), {"tp: 32 attention heads", "tp: 8 KV heads, copied"}),
    (CrossAttention(20, 20, 64), {"tp: 20 attention heads", "tp: 20 KV heads, copied"}),
    (RwkvMixer(32, 64, 96, 96, 64, 256), {"tp: 32 linear-attention heads"}),
    (LatentAttention(128, 1536, 512, 128, 64, 128), {"tp: 128 attention heads"}),
    (
        CompressedAttention(64, 512, 1024, 64, 128, 4, 8, 1024),
        {"tp: 64 attention heads", "tp: 8 output groups, copied"},
    ),
    (
        SharedTransformer(32, 4, 160, 10240, 128, False, True, True),
        {"tp: 32 attention heads", "tp: 4 KV heads, copied", "tp: 10240 feed-forward columns"},
    ),
    (Mamba(5120, 16, 160, 4), {"tp: 5120 state-space channels"}),
    (Mamba2(64, 64, 128, 8, 4), {"tp: 64 state-space heads", "tp: 8 state-space groups, copied"}),
    (
        DeltaNet(16, 32, 128, 128, 4),
        {"tp: 32 linear-attention value heads", "tp: 16 linear-attention key heads"},
    ),
    (FeedForward(14336), {"tp: 14336 feed-forward columns"}),
    (
        Mixture(60, 4, 1408, shared=5632),
        {"tp: 5632 shared-expert columns", "ep: 60 experts", "moe_tp: 1408 columns of an expert"},
    ),
    (Mixture(8, 2, 14336), {"ep: 8 experts", "moe_tp: 14336 columns of an expert"}),
    (LayerInput(256), set()),
    (AlternatingUpdate(4, 64), set()),
    (FactorisedAttention(64, 256, 2048), {"tp: 64 attention heads", "tp: 1 KV heads, copied"}),
    (ShortConvolution(2048, 3), {"tp: 2048 convolution channels"}),
    (LightningAttention(64, 128), {"tp: 64 linear-attention heads"}),
    (GatedRecurrence(2560, 10, 4), {"tp: 10 recurrence heads"}),
    (
        SideBySide((Attention(32, 8, 128), Mamba2(64, 64, 128, 8, 4))),
        {
            *("tp: 32 attention heads", "tp: 8 KV heads, copied"),
            *("tp: 64 state-space heads", "tp: 8 state-space groups, copied"),
        },
    ),
    (
        ShortcutMixture(Mixture(512, 12, 2048, idle_choices=256)),
        {"ep: 512 experts", "moe_tp: 2048 columns of an expert"},
    ),
]


def model_of(*blocks: Block) -> ModelSpec:
    return ModelSpec("tiny", "llama", 64, 100, (Layer(blocks), Layer(blocks)))


def in_words(limit: SplitLimit) -> str:
    return f"{limit.degree}: {limit.size} {limit.what}{', copied' * limit.copied}"


@pytest.mark.parametrize(
    ("block", "limits"), LIMITS, ids=[type(block).__name__ for block, _ in LIMITS]
)
def test_a_block_says_itself_which_sizes_degrees_divide(block: Block, limits: set[str]) -> None:
    assert {in_words(limit) for limit in block.limits()} == limits


def test_no_type_of_block_is_left_out_here() -> None:
    assert {type(block) for block, _ in LIMITS} == set(get_args(Block))


@pytest.mark.parametrize(
    ("limit", "allowed"),
    [
        (SplitLimit("tp", 8, "heads"), [1, 2, 4, 8]),
        (SplitLimit("tp", 6, "heads"), [1, 2, 3, 6]),
        (SplitLimit("tp", 2, "KV heads", copied=True), [1, *range(2, 17, 2)]),
        (SplitLimit("tp", 4, "KV heads", copied=True), [1, 2, 4, 8, 12, 16]),
    ],
)
def test_a_limit_allows_its_divisors_and_a_copied_one_its_multiples(
    limit: SplitLimit, allowed: list[int]
) -> None:
    assert [degree for degree in range(1, 17) if limit.allows(degree)] == allowed


def test_equal_limits_of_many_layers_are_looked_at_once() -> None:
    limits = split_limits(model_of(Attention(8, 8, 64), Attention(8, 2, 64), FeedForward(96)))
    assert [str(limit) for limit in limits] == [
        "the 8 attention heads", "the 8 KV heads", "the 2 KV heads", "the 96 feed-forward columns",
    ]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rotor:
    """A block type that no file of the registry knows."""

    blades: int

    def limits(self) -> tuple[SplitLimit, ...]:
        return (SplitLimit("tp", self.blades, "blades"),)


def test_a_new_type_of_block_brings_its_rule() -> None:
    spec = model_of(Rotor(6), FeedForward(12))  # type: ignore[arg-type]
    assert invalid_reason(spec, Parallelism(tp=4)) == (
        "tp 4 does not divide the 6 blades of tiny; nearest: tp 3 or 6"
    )
    assert invalid_reason(spec, Parallelism(tp=6)) is None


@pytest.mark.parametrize(
    ("name", "split", "words"),
    [
        ("meta-llama/Llama-3.1-8B", Parallelism(tp=3), "tp 3 .* 32 attention heads.* tp 2 or 4"),
        ("meta-llama/Llama-3.1-8B", Parallelism(tp=64), "tp 64 .*nearest: tp 32$"),
        ("meta-llama/Llama-3.1-8B", Parallelism(pp=33), "pp 33 exceeds the 32 layers"),
        ("meta-llama/Llama-3.1-8B", Parallelism(tp=0), "tp 0 is not a degree"),
        ("meta-llama/Llama-3.1-8B", Parallelism(ep=0), "ep 0 is not a degree"),
        ("meta-llama/Llama-3.1-8B", Parallelism(dp=1.5), "dp 1.5 is not a degree"),
        ("mistralai/Mixtral-8x7B-v0.1", Parallelism(tp=16, ep=16), "16 .* 8 experts.* ep 8$"),
        (
            "mistralai/Mixtral-8x7B-v0.1",
            Parallelism(tp=8, ep=3),
            "ep 3 does not divide tp x dp = 8 devices; nearest: ep 2 or 4$",
        ),
        ("mistralai/Mixtral-8x7B-v0.1", Parallelism(tp=8, ep=4, moe_tp=4), "not tp x dp = 8"),
        ("Qwen/Qwen3-30B-A3B", Parallelism(tp=4, dp=128), "moe_tp 512 .* columns of an expert"),
    ],
)
def test_a_split_that_cannot_be_says_why_and_what_can(
    name: str, split: Parallelism, words: str
) -> None:
    reason = built(name).invalid(split)
    assert reason is not None and re.search(words, reason), reason


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("meta-llama/Llama-3.1-8B", Parallelism(tp=16)),
        ("meta-llama/Llama-3.1-8B", Parallelism(tp=8, ep=8)),
        ("deepseek-ai/DeepSeek-V3", Parallelism(tp=4, dp=2, ep=8, pp=3)),
        ("openai/gpt-oss-120b", Parallelism(tp=8)),
    ],
)
def test_a_split_that_can_be_is_accepted(name: str, split: Parallelism) -> None:
    assert built(name).invalid(split) is None


@pytest.mark.parametrize("ep", [3, 16])
def test_experts_that_an_engine_pads_are_still_split_over_the_devices_that_there_are(ep: int):
    spec = built("deepseek-ai/DeepSeek-V3").spec
    reason = invalid_reason(spec, Parallelism(tp=8, ep=ep), frozenset({"experts"}))
    near = {3: "2 or 4", 16: "8"}[ep]
    assert reason == f"ep {ep} does not divide tp x dp = 8 devices; nearest: ep {near}"
    assert invalid_reason(spec, Parallelism(tp=8, ep=4), frozenset({"experts"})) is None
