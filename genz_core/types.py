"""Types of the engine: sizes, degrees, operators, graphs, systems; SI units in the names.

`Num` is a float or an array [configs] with one value per configuration: the same code prices one
configuration or a hundred thousand.  Dependencies go one way: an `Op` knows no hardware, a `System`
no model, an `Estimate` no chart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from genz_core.common.registry import KINDS, OperatorClass
from genz_core.common.short_repr import clipped, listed
from genz_core.devices.memory_levels import MemoryLevel
from genz_core.devices.topology_kinds import SWITCH, Topology
from genz_core.errors import MissingSpec
from genz_core.symbolic.symbols import number

if TYPE_CHECKING:
    from genz_core.latency.profile import LatencyProfile

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.intp]
Num = float | Array

CacheSource = Literal["checkpoint", "convention", "asked"]

# ------------------------------------------------------------------------------- workload and split


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
        """Number of sequences on the fullest of `ranks` attention ranks; only here are they
        rounded.
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


# ------------------------------------------------------------------------------- operators, graphs


@dataclass(frozen=True, slots=True)
class Op:
    """One run of an operator on one device, in one step; numbers or arrays [configs].

    name: place in the model ("qkv_proj").  kind: key of its formulas (`genz_core.common.registry`).
    flops: a multiply-add is two.  *_bytes: memory traffic by tensor class, each operand once.
    held_weight_bytes, held_kv_bytes: bytes that stay on the device (all experts; the cache after
    the step).  far_weights, far_kv: shares of either in the second memory of the device.
    message_bytes: per device, before the algorithm's factor; group: devices that
    take part; stride: devices between two neighbours of the group, which decides the tier.
    compute, weights, activations, kv: number formats.  forced: the user chose the arithmetic, so
    no engine chooses another.  dims: the shape, as the latency model uses it.
    layers: indices of the layers that have it, empty for operators outside the layers, which are on
    the `first` or the `last` pipeline stage.  repeat: runs per layer.  module: path in the model.
    Multiply by `count` for the step.
    """

    name: str
    kind: str
    flops: Num = 0.0
    weight_bytes: Num = 0.0
    input_bytes: Num = 0.0
    output_bytes: Num = 0.0
    kv_read_bytes: Num = 0.0
    kv_write_bytes: Num = 0.0
    held_weight_bytes: Num = 0.0
    held_kv_bytes: Num = 0.0
    message_bytes: Num = 0.0
    group: Num = 1.0
    stride: Num = 1.0
    far_weights: Num = 0.0
    far_kv: Num = 0.0
    compute: str = "bf16"
    weights: str = "bf16"
    activations: str = "bf16"
    kv: str = "bf16"
    forced: bool = False
    dims: Mapping[str, Num] = field(default_factory=dict)
    layers: tuple[int, ...] = ()
    repeat: float = 1.0
    stage: Literal["first", "last"] = "last"
    module: str = ""

    @property
    def count(self) -> float:
        """Runs per step over the whole model."""
        return self.repeat * (len(self.layers) or 1)

    @property
    def operator_class(self) -> OperatorClass:
        """Class for charts and validation."""
        return KINDS[self.kind].operator_class

    @property
    def memory_bytes(self) -> Num:
        """All memory traffic of one run."""
        return (
            self.weight_bytes
            + self.input_bytes
            + self.output_bytes
            + self.kv_read_bytes
            + self.kv_write_bytes
        )

    @property
    def far_bytes(self) -> Num:
        """Traffic of one run with the second memory."""
        cache = self.kv_read_bytes + self.kv_write_bytes
        return self.weight_bytes * self.far_weights + cache * self.far_kv


#: Figures of an operator that grow with its sequences.
GROWING = (
    "flops", "input_bytes", "output_bytes", "kv_read_bytes", "kv_write_bytes", "held_kv_bytes",
)  # fmt: skip
_NUMBERS = (
    "flops", "weight_bytes", "input_bytes", "output_bytes", "kv_read_bytes", "kv_write_bytes",
    "held_weight_bytes", "held_kv_bytes", "message_bytes", "group", "stride",
    "far_weights", "far_kv",
)  # fmt: skip


def picked(op: Op, columns: slice | Mask | Places) -> Op:
    """The operator in a selection of its configurations; scalars are equal in all of them and stay
    scalars.
    """

    def selected(value: Num) -> Num:
        return np.asarray(value)[columns] if np.size(value) > 1 else value

    numbers: dict[str, Any] = {name: selected(getattr(op, name)) for name in _NUMBERS}
    dims = {name: selected(value) for name, value in op.dims.items()}
    return replace(op, **numbers, dims=dims)


@dataclass(frozen=True, slots=True)
class Graph:
    """The operators of one step in the order in which they run.

    layers: decoder layers of the model (the pipeline splits them).  notes: assumptions and
    rewrites of the builder, in words.
    """

    ops: tuple[Op, ...]
    layers: int
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        names = listed(op.name for op in self.ops)
        return f"Graph({len(self.ops)} operators, {self.layers} layers:\n  {names})"


@runtime_checkable
class Model(Protocol):
    """Interface of a model to the engine; `model_registry.load` and tracing return one."""

    @property
    def name(self) -> str:
        """Its name, for display."""
        ...

    @property
    def precision(self) -> Precision:
        """Number formats of its tensors."""
        ...

    @property
    def parameters(self) -> float:
        """Parameters of the language model, tied embeddings once."""
        ...

    @property
    def active_parameters(self) -> float:
        """Parameters that are used for one token."""
        ...

    @property
    def max_context(self) -> int | None:
        """Tokens that its positions allow, None without a limit."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on how its name was resolved, on assumptions and on rewrites, in words."""
        ...

    @property
    def source(self) -> str:
        """Origin of its shape: that of its configuration, "trace", or ""."""
        ...

    def with_precision(self, precision: Precision) -> Model:
        """The same model in other number formats; its notes are unchanged."""
        ...

    def graph(self, step: Step, parallelism: Parallelism) -> Graph:
        """The operators of a step on one device."""
        ...

    def invalid(self, parallelism: Parallelism) -> str | None:
        """A sentence on degrees that cannot split the model, with near ones that can; None if they
        can.
        """
        ...


# ------------------------------------------------------------------------------- systems


@dataclass(frozen=True, slots=True)
class Link:
    """A tier of interconnect.

    bytes_per_s: per device and direction, all its links together.  latency_s: per message.
    domain: devices reached without leaving the tier (8 in an HGX node, 72 in NVL72; 0 for no
    limit).  in_network: its switches reduce (NVLink SHARP and similar).
    topology: how its devices are wired.  reached: share of the rate that remains after the
    protocol's overhead, where it is stated; otherwise None.
    """

    name: str
    bytes_per_s: float
    latency_s: float
    domain: int
    in_network: bool = False
    topology: Topology = SWITCH
    reached: float | None = None


@dataclass(frozen=True, slots=True)
class System:
    """An accelerator and its links to others, from a datasheet; SI units.

    peak_flops_per_s: dense, by arithmetic type (fp64 fp32 tf32 bf16 fp16 fp8 int8 fp4 int4).
    compute_units: streaming multiprocessors, compute units or cores.
    boost_factor: highest clock over the clock of the stated peaks, 1 where unknown; bounds use it,
    expectations do not.
    second_memory: a slower memory that the device can read directly.
    links: scale-up first, scale-out last.  family: chips that share fitted efficiencies ("hopper").
    assumptions: figures of kind `assumed`, in words.  latency: fitted constants of its operators;
    None for the engine's defaults.  notes: how an ambiguous or partial name was understood; ignored
    when systems are compared.
    """

    slug: str
    name: str
    vendor: str
    kind: Literal["gpu", "cpu", "tpu", "npu", "igpu"]
    family: str
    peak_flops_per_s: Mapping[str, float]
    memory_bytes: float
    memory_bytes_per_s: float
    second_memory: MemoryLevel | None = None
    l2_bytes: float | None = None
    l2_bytes_per_s: float | None = None
    compute_units: int | None = None
    clock_hz: float | None = None
    boost_factor: float = 1.0
    tdp_w: float | None = None
    links: tuple[Link, ...] = ()
    host_bytes_per_s: float | None = None
    host_memory_bytes: float | None = None
    host_memory_bytes_per_s: float | None = None
    disk_bytes_per_s: float | None = None
    price_usd_per_hour: float | None = None
    assumptions: tuple[str, ...] = ()
    latency: LatencyProfile | None = None
    notes: tuple[str, ...] = field(default=(), compare=False)

    def __repr__(self) -> str:
        peaks = listed((f"{name} {rate:.4g}" for name, rate in self.peak_flops_per_s.items()), 200)
        links = listed((f"{link.name} {link.bytes_per_s:.4g}" for link in self.links), 150)
        return (
            f"System({self.slug!r}, {clipped(self.name)!r}, {self.kind}, family {self.family!r}:\n"
            f"  peak_flops_per_s {peaks}\n"
            f"  memory_bytes {self.memory_bytes:.4g}, memory_bytes_per_s "
            f"{self.memory_bytes_per_s:.4g}, compute_units {self.compute_units}\n"
            f"  links {links or 'none'})"
        )

    def peak(self, compute: str) -> float:
        """Dense peak for an arithmetic type [FLOP/s].

        Raises:
            MissingSpec: the datasheet states none (for example fp8 on an A100).
        """
        try:
            return self.peak_flops_per_s[compute]
        except KeyError:
            stated = ", ".join(self.peak_flops_per_s)
            raise MissingSpec(
                f"{self.name} has no known dense {compute} peak (it has {stated}); choose another "
                "compute format, or add the figure to its YAML"
            ) from None
