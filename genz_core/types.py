"""Types of the engine: sizes, degrees, number formats; SI units in the names.

`Num` is a float or an array [configs] with one value per configuration: the same code prices one
configuration or a hundred thousand.  Dependencies go one way: an `Op` (`genz_core.graphs`) knows no
hardware, a `System` (`genz_core.systems`) no model, an `Estimate` no chart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from genz_core.symbolic.symbols import number

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.intp]
Num = float | Array

CacheSource = Literal["checkpoint", "convention", "asked"]


def scalar(value: Num) -> float:
    """A figure of one configuration, a number or an array of one, as a float."""
    return float(np.asarray(value, dtype=float).reshape(-1)[0])


@dataclass(frozen=True, slots=True)
class Group:
    """Sequences of a step with the same number of new and of cached tokens.

    sequences: their number.  new_tokens: tokens of each that this step processes.
    cached_tokens: tokens that each already has in its cache.
    drafted: new tokens that a draft proposed.  sampled: tokens whose successor is sampled: the last
    one, or all of a draft that is verified.
    prompt: tokens of each sequence's prompt, 0 where unknown; a model with an encoder needs it to
    distinguish its input from generated tokens.
    fullest: sequences of the fullest attention rank, where they are fractions (parts of prompts);
    None: whole sequences, distributed evenly.
    """

    sequences: Num
    new_tokens: Num
    cached_tokens: Num
    drafted: Num = 0.0
    sampled: Num = 1.0
    prompt: Num = 0.0
    fullest: Num | None = None

    @property
    def generates(self) -> Mask:
        """Whether the group generates: each sequence has one new token, plus any draft tokens."""
        return number(self.new_tokens) <= 1.0 + self.drafted

    def of_rank(self, ranks: Num) -> Array:
        """Number of sequences on the fullest of `ranks` attention ranks; the number is rounded only
        here.
        """
        if self.fullest is not None:
            return number(self.fullest)
        many = number(ranks)
        return np.where(many > 1, np.ceil(self.sequences / many), self.sequences * 1.0)


@dataclass(frozen=True, slots=True)
class Step:
    """A forward pass over groups of sequences: one group for prefill or decode, two or more if
    mixed.
    """

    groups: tuple[Group, ...]

    @classmethod
    def prefill(cls, batch: Num, isl: Num, cached: Num = 0.0) -> Step:
        """`batch` prompts of `isl` new tokens after `cached` tokens each."""
        return cls((Group(batch, isl, cached, prompt=isl + cached),))

    @classmethod
    def decode(cls, batch: Num, context: Num) -> Step:
        """One token for each of `batch` sequences that have `context` tokens in their cache."""
        return cls((Group(batch, 1.0, context),))

    @property
    def tokens(self) -> Num:
        """New tokens of the whole step."""
        return sum((g.sequences * g.new_tokens for g in self.groups), start=np.float64(0.0))

    @property
    def sequences(self) -> Num:
        """Sequences of the whole step."""
        return sum((g.sequences * 1.0 for g in self.groups), start=np.float64(0.0))


DEGREES = ("tp", "pp", "dp", "ep", "cp")


@dataclass(frozen=True, slots=True)
class Parallelism:
    """Degrees of the split of a model over devices; numbers or arrays [configs].

    tp: tensor parallel.  pp: pipeline stages.  dp: attention data parallel (each rank holds
    other sequences; the experts span all ranks).  ep, moe_tp: degrees of the experts, with
    moe_tp * ep = tp * dp; moe_tp None means tp * dp / ep.  cp: context parallel (sequence of one
    request split over devices).  sequence_parallel: norms and residuals split over tp, the
    all-reduce done as reduce-scatter and all-gather.  micro_batches: of a pipelined step; 0 means
    one per stage.  expert_imbalance: tokens routed to the busiest ep rank over the mean of all
    ranks after balancing (1: even); the other ranks wait for it.  redundant_experts: copies of busy
    experts; ep divides experts plus copies.
    overlap: work that runs during the all-to-all of the experts, see
    `genz_core.steps.overlap`.
    order: degrees in the order in which devices are numbered, innermost first, see
    `genz_core.models.degrees.stride_of`.
    """

    tp: Num = 1
    pp: Num = 1
    dp: Num = 1
    ep: Num = 1
    moe_tp: Num | None = None
    cp: Num = 1
    sequence_parallel: bool = False
    micro_batches: Num = 0
    expert_imbalance: Num = 1.0
    redundant_experts: Num = 0
    overlap: Literal["none", "shared_experts", "two_batch"] = "none"
    order: tuple[str, ...] = ()

    @property
    def devices(self) -> Num:
        """Devices of the whole deployment."""
        return self.tp * self.pp * self.dp * self.cp

    @property
    def expert_tp(self) -> Num:
        """Tensor-parallel degree of the experts."""
        return self.tp * self.dp / self.ep if self.moe_tp is None else self.moe_tp


@dataclass(frozen=True, slots=True)
class Workload:
    """A static batch of requests; numbers or arrays [configs].

    batch: number of requests.  isl, osl: prompt and output tokens of each.  cached: tokens of the
    prompt that are in a prefix cache.
    """

    batch: Num = 1
    isl: Num = 1024
    osl: Num = 128
    cached: Num = 0


@dataclass(frozen=True, slots=True)
class Precision:
    """Number formats of a model's tensors, by name in `genz_core.precision.FORMATS`.

    weights: format by tensor role (see `model_registry`), with "default" for the rest.
    by_layer: {(layer, role): format} where a checkpoint differs from layer to layer.
    kv: cache.  activations: between operators.  compute: forced arithmetic type, "" for the
    type that weights and activations imply on the system at hand.
    mixture: name of the mixture of formats ("q4_k_m") that the map represents, "" for none.
    source: origin of the map, shown to the user.
    kv_source: origin of the cache's format.  "checkpoint": the model as published, or a weight
    format that implies one (`NumberFormat.cache`); "asked": the user's choice, by a name or an
    option; "convention": the user chose the weights' format alone, so that `kv` is the cache of
    published checkpoints with such weights, and an engine may keep another.
    """

    weights: Mapping[str, str] = field(default_factory=lambda: {"default": "bf16"})
    kv: str = "bf16"
    activations: str = "bf16"
    compute: str = ""
    by_layer: Mapping[tuple[int, str], str] = field(default_factory=dict)
    mixture: str = ""
    source: str = "assumed: 16 bit"
    kv_source: CacheSource = "checkpoint"

    def weight(self, role: str, layer: int | None = None) -> str:
        """The format of `role` ("experts", "attention.qkv", ...), most specific entry first."""
        if layer is not None and (layer, role) in self.by_layer:
            return self.by_layer[layer, role]
        while role:
            if role in self.weights:
                return self.weights[role]
            role = role.rpartition(".")[0]
        return self.weights["default"]
