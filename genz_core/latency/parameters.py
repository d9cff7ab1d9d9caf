"""Fitted constants of the latency models, each with meaning, unit and physical bounds.

Every constant of every formula is a named field, listed by `describe`.  Efficiencies are fractions
of datasheet peaks and never above one: no fitted model can promise more than the hardware has.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from genz_core.errors import InvalidValue


class LatencyConstant(NamedTuple):
    """A fitted constant: its meaning, unit ("" for a ratio), bounds and default."""

    name: str
    meaning: str
    unit: str
    low: float
    high: float
    default: float


def _constant(default: float, meaning: str, unit: str, low: float, high: float) -> Any:
    return field(
        default=default, metadata={"meaning": meaning, "unit": unit, "low": low, "high": high}
    )


class Parameters:
    """Base of the parameter sets.

    Raises:
        InvalidValue: a constant outside its bounds.
    """

    __slots__ = ()

    def __post_init__(self) -> None:
        for constant in describe(type(self)):
            value = getattr(self, constant.name)
            if not constant.low <= value <= constant.high:
                raise InvalidValue(
                    f"{type(self).__name__}.{constant.name} = {value:g} {constant.unit} is outside "
                    f"[{constant.low:g}, {constant.high:g}]: {constant.meaning}"
                )


def describe(kind: type[Parameters]) -> tuple[LatencyConstant, ...]:
    """The constants of a parameter set, in order."""
    return tuple(
        LatencyConstant(
            entry.name,
            entry.metadata["meaning"],
            entry.metadata["unit"],
            entry.metadata["low"],
            entry.metadata["high"],
            float(entry.default),  # type: ignore[arg-type]
        )
        for entry in dataclasses.fields(kind)  # type: ignore[arg-type]
    )


@dataclass(frozen=True, slots=True)
class GemmParameters(Parameters):
    """Constants of `gemm_time`, per device and number format."""

    launch_s: float = _constant(
        2.1e-6, "time of the smallest kernel, launch included", "s", 0.2e-6, 400e-6
    )
    compute_efficiency: float = _constant(
        0.77, "share of the peak that a full wave of tiles reaches", "", 0.05, 1.0
    )
    memory_efficiency: float = _constant(
        0.80, "share of the memory bandwidth that streaming weights reaches", "", 0.2, 1.0
    )
    k_step_s: float = _constant(
        0.06e-6, "latency of one 128-byte step along K in one block", "s", 1e-9, 3e-6
    )
    store_share: float = _constant(
        0.5, "rate at which a unit writes out a finished tile, over 64 B per clock", "", 0.02, 20.0
    )
    split_s: float = _constant(
        0.75e-6, "cost of each doubling of split-K: partial sums and one more pass", "s", 1e-8, 1e-4
    )
    overlap: float = _constant(
        2.4, "exponent of the p-norm of compute and memory time (1: none)", "", 1.0, 12.0
    )
    cache_share: float = _constant(
        0.12, "last-level cache bandwidth as a share of units x clock x 64 B", "", 0.01, 2.0
    )
    quantize_passes: float = _constant(
        0.05, "16-bit passes over the activations to quantise them", "", 1e-3, 60.0
    )


@dataclass(frozen=True, slots=True)
class PrefillAttentionParameters(Parameters):
    """Constants of `prefill_attention_time`, per device and (compute, cache) format."""

    launch_s: float = _constant(11e-6, "time of the smallest kernel", "s", 0.5e-6, 400e-6)
    efficiency_64: float = _constant(
        0.55, "share of the peak of the two matrix products, heads of 64", "", 0.02, 1.0
    )
    efficiency_128: float = _constant(0.55, "the same, heads of 128", "", 0.02, 1.0)
    efficiency_256: float = _constant(0.55, "the same, heads of 256", "", 0.02, 1.0)
    exp_efficiency: float = _constant(
        0.9, "exponentials per unit and clock, divided by 16", "", 0.05, 8.0
    )
    memory_efficiency: float = _constant(
        0.6, "share of the memory bandwidth for queries, keys, values and output", "", 0.1, 1.0
    )
    block_s: float = _constant(
        4.0e-6, "start and end of one block of query rows on one unit", "s", 1e-9, 60e-6
    )
    longest_block: float = _constant(
        0.7,
        "time of the longest block alone over a block of 128 rows at these rates",
        "",
        0.05,
        3.0,
    )
    window_blocks: float = _constant(
        1.0, "blocks of 128 keys that a window costs beyond its own", "", 0.05, 12.0
    )
    append_passes: float = _constant(
        0.05, "passes over the new keys and values to write them to the cache", "", 1e-3, 40.0
    )
    overlap: float = _constant(
        1.2, "exponent of the p-norm of products, exponentials and memory", "", 1.0, 12.0
    )


@dataclass(frozen=True, slots=True)
class DecodeAttentionParameters(Parameters):
    """Constants of `decode_attention_time`, per device and (compute, cache) format."""

    launch_s: float = _constant(7e-6, "time of the smallest kernel", "s", 0.5e-6, 400e-6)
    memory_efficiency: float = _constant(
        0.88, "share of the memory bandwidth that streaming the cache reaches", "", 0.1, 1.0
    )
    compute_efficiency: float = _constant(
        0.35,
        "share of the peak of the two products, query groups padded to 16 rows",
        "",
        0.005,
        1.0,
    )
    ramp: float = _constant(
        0.4, "share of the units that must work to fill the memory bandwidth", "", 0.02, 1.0
    )
    block_s: float = _constant(
        1.5e-6, "start and end of one block, grouped queries", "s", 1e-9, 60e-6
    )
    block_mha_s: float = _constant(
        1.1e-6, "the same where every query head has its own keys", "s", 1e-9, 60e-6
    )
    chunk_s: float = _constant(
        0.5e-6, "latency of one step of 64 keys in one block", "s", 1e-9, 10e-6
    )
    mha_launch: float = _constant(
        1.0,
        "launch_s where every query head has its own keys, over launch_s of groups",
        "",
        0.1,
        10.0,
    )
    mha_chunk: float = _constant(
        1.0, "chunk_s where every query head has its own keys, over that of groups", "", 0.05, 20.0
    )
    split_s: float = _constant(
        0.9e-6, "cost of each doubling of the split over the keys", "s", 1e-8, 40e-6
    )
    overlap: float = _constant(2.5, "exponent of the p-norm of the terms", "", 1.0, 12.0)
    append_passes: float = _constant(
        8.0, "passes over the new token's queries, keys and values", "", 1e-3, 80.0
    )
    window_leak: float = _constant(
        0.01, "share of the keys outside a window that still take a step", "", 1e-5, 1.0
    )
    cache_speedup: float = _constant(
        3.0, "last-level cache bandwidth over memory bandwidth", "", 1.0, 30.0
    )


@dataclass(frozen=True, slots=True)
class MoeParameters(Parameters):
    """Constants of `moe_time`, per device and number format of the experts."""

    launch_s: float = _constant(
        18e-6, "routing, permutation and two grouped products at their smallest", "s", 1e-6, 500e-6
    )
    compute_efficiency: float = _constant(
        0.65, "share of the peak that full tiles of grouped products reach", "", 0.02, 1.0
    )
    memory_efficiency: float = _constant(
        0.9, "share of the memory bandwidth that streaming experts reaches", "", 0.1, 1.0
    )
    permute_passes: float = _constant(
        8.0, "16-bit passes over the routed tokens (gather, scatter, quantise, sum)", "", 0.02, 80.0
    )
    token_passes: float = _constant(
        5.0, "16-bit passes over the tokens before routing", "", 0.02, 80.0
    )
    overlap: float = _constant(2.0, "exponent of the p-norm of compute and memory", "", 1.0, 12.0)
    ramp: float = _constant(
        0.06, "share of the units that must work to fill the memory bandwidth", "", 0.02, 1.0
    )
    wave: float = _constant(
        0.8, "how far waves of tiles round up (0: not at all, 1: to whole waves)", "", 0.0, 1.0
    )
    k_step_s: float = _constant(
        0.08e-6, "latency of 64 elements along the hidden or intermediate size", "s", 1e-9, 6e-6
    )
    expert_s: float = _constant(0.1e-6, "bookkeeping per expert on the device", "s", 1e-10, 3e-6)
    rank_skew: float = _constant(
        0.25,
        "exponent of ep in the busiest rank's load, power-law routing of exponent 1.01",
        "",
        0.0,
        1.2,
    )
    strong_rank_skew: float = _constant(
        0.36, "the same for a power law of exponent 1.2", "", 0.0, 1.2
    )
    activation: float = _constant(
        0.7, "tokens of a skewed batch that spread over experts as if drawn evenly", "", 0.05, 1.5
    )


@dataclass(frozen=True, slots=True)
class ScanParameters(Parameters):
    """Constants of `scan_time` (SSM and linear attention), per phase."""

    launch_s: float = _constant(12e-6, "time of the smallest chain of kernels", "s", 0.5e-6, 1e-3)
    compute_efficiency: float = _constant(
        0.20, "share of the peak that the chunked products reach", "", 0.005, 1.0
    )
    memory_efficiency: float = _constant(
        0.60, "share of the memory bandwidth for states, inputs and outputs", "", 0.02, 1.0
    )
    cache_share: float = _constant(
        0.20, "last-level cache bandwidth as a share of units x clock x 64 B", "", 0.01, 2.0
    )
    chunk_s: float = _constant(
        1.5e-6, "one step of the recurrence over chunks of a sequence", "s", 1e-9, 100e-6
    )
    overlap: float = _constant(1.5, "exponent of the p-norm of the terms", "", 1.0, 12.0)


@dataclass(frozen=True, slots=True)
class PointwiseParameters(Parameters):
    """Constants of `pointwise_time`: norms, rope, activations, residuals, embedding, sampling."""

    launch_s: float = _constant(1.8e-6, "time of the smallest kernel", "s", 0.2e-6, 400e-6)
    memory_efficiency: float = _constant(
        0.80, "share of the memory bandwidth of one streaming pass", "", 0.05, 1.0
    )
    cache_share: float = _constant(
        0.20, "last-level cache bandwidth as a share of units x clock x 64 B", "", 0.01, 2.0
    )


@dataclass(frozen=True, slots=True)
class CollectiveParameters(Parameters):
    """Constants of `collective_time`, per algorithm and operation; `_2 _4 _8` are group sizes."""

    base_s: float = _constant(6e-6, "time of the smallest message between two", "s", 0.2e-6, 2e-3)
    step_s: float = _constant(1.0e-6, "each further step of the algorithm", "s", 0.0, 1e-3)
    efficiency_2: float = _constant(
        0.66, "bus bandwidth over the link's, group of 2", "", 0.005, 2.2
    )
    efficiency_4: float = _constant(0.78, "the same, group of 4", "", 0.005, 2.2)
    efficiency_8: float = _constant(0.85, "the same, group of 8", "", 0.005, 2.2)
    bulk_s: float = _constant(
        5e-6, "what the protocol for large messages adds to the smallest time", "s", 0.0, 1e-3
    )
    packet_efficiency: float = _constant(
        0.05, "bandwidth of the protocol for small messages over the link's", "", 0.0005, 2.2
    )
    ramp_s: float = _constant(
        1e-6, "root term: how slowly the bandwidth of large messages fills", "s", 0.0, 5e-3
    )


#: Operator classes of a profile and the parameter set that each has per format.
CLASSES: Mapping[str, type[Parameters]] = {
    "gemm": GemmParameters,
    "prefill_attention": PrefillAttentionParameters,
    "decode_attention": DecodeAttentionParameters,
    "mla_prefill": PrefillAttentionParameters,
    "mla_decode": DecodeAttentionParameters,
    "moe": MoeParameters,
    "scan": ScanParameters,
    "pointwise": PointwiseParameters,
    "collective": CollectiveParameters,
}
