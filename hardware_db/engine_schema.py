"""Schema of a serving engine's YAML, and the conversion of its units to SI.

As in a system's YAML, a number has a value, a source and a kind, and its unit is part of its key.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from genz_core.engine import (
    EagerFacts,
    EngineProfile,
    Loading,
    Padding,
    SchedulerName,
    ServerDefaults,
)
from genz_core.errors import InvalidValue
from genz_core.precision import canonical
from genz_core.systems import System
from hardware_db.engine_versions import Era, era_of, is_before, is_until
from hardware_db.schema_errors import sentence
from hardware_db.sourced_facts import GIBI, GIGA, MICRO, Fact, Source

MILLI = 1e-3
#: {field of `EngineProfile`: (key of the YAML, its unit in SI)}; a missing key keeps the default.
_FIGURES: Mapping[str, tuple[str, float]] = {
    "kernel_floor_s": ("kernel_floor_us", MICRO),
    "floor_clock_hz": ("floor_clock_ghz", GIGA),
    "host_step_s": ("host_step_us", MICRO),
    "host_sequence_s": ("host_sequence_us", MICRO),
    "host_request_s": ("host_request_ms", MILLI),
    "host_token_s": ("host_token_us", MICRO),
    "memory_fraction": ("memory_fraction", 1.0),
    "free_share": ("free_share", 1.0),
    "reserve_bytes": ("reserve_gb", GIGA),
    "reserve_output": ("reserve_output", 1.0),
    "launch_s": ("launch_us", MICRO),
    "prompt_launch_s": ("prompt_launch_us", MICRO),
    "graph_tokens": ("graph_tokens", 1.0),
    "graph_multiple": ("graph_multiple", 1.0),
    "graph_prompt_tokens": ("graph_prompt_tokens", 1.0),
    "moe_floor_s": ("moe_floor_us", MICRO),
    "expert_s": ("expert_us", MICRO),
    "compute_efficiency": ("compute_efficiency", 1.0),
    "memory_efficiency": ("memory_efficiency", 1.0),
    "attention_efficiency": ("attention_efficiency", 1.0),
    "four_bit_efficiency": ("four_bit_efficiency", 1.0),
    "expert_efficiency": ("expert_efficiency", 1.0),
    "vector_weights": ("vector_weights", 1.0),
    "pass_tokens": ("pass_tokens", 1.0),
    "held_share": ("held_share", 1.0),
    "ahead_steps": ("ahead_steps", 1.0),
    "hand_over_steps": ("hand_over_steps", 1.0),
    "step_jitter": ("step_jitter", 1.0),
    "delivery_jitter": ("delivery_jitter", 1.0),
    "sampling_s": ("sampling_us", MICRO),
}
#: Rates of an engine's own kernels, relative to those of the system's profile.
_OF_KERNELS = (
    "compute_efficiency", "memory_efficiency", "attention_efficiency", "four_bit_efficiency",
    "expert_efficiency",
)  # fmt: skip
_COUNTS = ("chunk_tokens", "max_sequences", "kv_block_tokens")
_ON_START = (
    "chunk_tokens", "max_sequences", "memory_fraction", "graph_tokens", "graph_multiple",
    "graph_prompt_tokens",
)  # fmt: skip
_POLICIES = (
    "versions", "all_reduce", "scheduler", "mixed_steps", "shared_beside", "thin_products",
    "products", "kv_cache", "graph_option",
)  # fmt: skip


class OnCpu(BaseModel):
    """Figures of an engine that differ on CPUs; the others are as on GPUs.

    Fits on GPUs say nothing about a CPU's kernels: rates that are not stated here are those of the
    system's latency profile.  source: key of the file's sources that says it runs there.  products:
    as in the engine.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    kernel_floor_us: Fact | None = None
    host_step_us: Fact | None = None
    host_sequence_us: Fact | None = None
    chunk_tokens: Fact | None = None
    max_sequences: Fact | None = None
    memory_fraction: Fact | None = None
    kv_block_tokens: Fact | None = None
    compute_efficiency: Fact | None = None
    memory_efficiency: Fact | None = None
    attention_efficiency: Fact | None = None
    products: Literal["", "int8"] = ""

    def figures(self) -> dict[str, float | str]:
        """{field of `EngineProfile`: value} on CPUs, SI units."""
        of_kernels = {name: 1.0 for name in _OF_KERNELS} | {"vector_weights": 0.0}
        stated = {
            field: getattr(self, key).value * unit
            for field, (key, unit) in _FIGURES.items()
            if getattr(self, key, None) is not None
        }
        counts = {name: int(getattr(self, name).value) for name in _COUNTS if getattr(self, name)}
        return {**of_kernels, **stated, **counts, "products": self.products}


class OnStart(BaseModel):
    """Defaults that an engine's server chooses on some devices.

    source: key of the file's sources.  until, until_month: last release and month (YYYY-MM) with
    these defaults, "" for today's.  below_gib: they apply to devices with less memory; named: parts
    of slugs of further devices that they apply to; to all devices if neither is given.
    outside_gib: memory that it leaves to everything else, which determines its share of the memory.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    until: str = ""
    until_month: str = ""
    below_gib: float | None = None
    named: tuple[str, ...] = ()
    chunk_tokens: Fact | None = None
    max_sequences: Fact | None = None
    memory_fraction: Fact | None = None
    graph_tokens: Fact | None = None
    graph_multiple: Fact | None = None
    graph_prompt_tokens: Fact | None = None
    graph_option: str | None = None
    outside_gib: Fact | None = None

    def holds(self, version: str) -> bool:
        """Whether a version of the engine has these defaults; "" for today's."""
        return not self.until or is_until(version, self.until, self.until_month)

    def defaults(self) -> ServerDefaults:
        """The defaults in the engine's types, SI units."""
        everywhere = self.below_gib is None and not self.named
        below = math.inf if everywhere else (self.below_gib or 0.0) * GIBI
        facts = {name: getattr(self, name) for name in _ON_START}
        figures: dict[str, float | str] = {n: fact.value for n, fact in facts.items() if fact}
        figures |= {name: int(figures[name]) for name in _COUNTS if name in figures}
        if self.graph_option is not None:
            figures["graph_option"] = self.graph_option
        outside = self.outside_gib.value * GIBI if self.outside_gib else 0.0
        return ServerDefaults(below, self.named, figures, outside)


_KINDS = {
    "gpu": "GPUs", "igpu": "integrated GPUs", "cpu": "CPUs", "npu": "accelerators", "tpu": "TPUs",
}  # fmt: skip


class RunsOn(BaseModel):
    """Systems that an engine runs on: any of the kinds, from any of the vendors; () for all
    vendors.

    source: key of the file's sources that says so.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    vendors: tuple[str, ...] = ()
    kinds: tuple[str, ...]

    def __str__(self) -> str:
        kinds = " and ".join(_KINDS[kind] for kind in self.kinds)
        return f"{kinds} of {', '.join(self.vendors)}" if self.vendors else kinds

    def __contains__(self, system: System) -> bool:
        of_vendor = not self.vendors or system.vendor in self.vendors
        return of_vendor and system.kind in self.kinds


class Pads(BaseModel):
    """What an engine pads, see `genz_core.engine.Padding`.

    source: key of the file's sources that says so.  vendors: of the systems on which it does.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    what: Literal["experts", "heads", "windows"]
    vendors: tuple[str, ...] = ()


class Loads(BaseModel):
    """In which format an engine loads a checkpoint, see `genz_core.engine.Loading`.

    source: key of the file's sources that says so.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    of: Annotated[str, AfterValidator(canonical)]
    to: Annotated[str, AfterValidator(canonical)]
    roles: tuple[str, ...] = ()


class Bounds(BaseModel):
    """The first release or the last one that runs on some silicon, or some formats of weights.

    source: key of the file's sources that says so.  what: the silicon or formats, in words.
    families: of systems;
    named: parts of slugs; formats: of weights.  since: its first release, since_month: its month
    (YYYY-MM), "" where the source states none; last: its last release, last_month: its month.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    what: str
    families: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    since: str = ""
    since_month: str = ""
    last: str = ""
    last_month: str = ""

    def refusal(self, system: System, formats: Iterable[str], version: str) -> str:
        """Why a version does not run with a system or formats, in words; "" where it does.

        version: "" for today's, which `last` excludes.
        """
        silicon = system.family in self.families or any(part in system.slug for part in self.named)
        if not silicon and not set(formats) & set(self.formats):
            return ""
        if self.since and is_before(version, self.since, self.since_month):
            return f"{self.since} is the first release for {self.what}"
        if self.last and not is_until(version, self.last, self.last_month):
            return f"{self.last} is the last release for {self.what}"
        return ""


class ChunkedPrefill(BaseModel):
    """An engine's option to cut prompts or not.

    source: key of the file's sources.  whole_tokens: most tokens of a step of whole prompts, where
    that differs from `chunk_tokens`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    whole_tokens: Fact | None = None

    def tokens(self) -> int:
        """Most tokens of a step of whole prompts, 0 for `chunk_tokens`."""
        return int(self.whole_tokens.value) if self.whole_tokens else 0


class EngineRecord(BaseModel):
    """An engine as its YAML states it: every figure with its source and kind.

    versions: measured range.  eras: older versions that behaved differently, oldest first.
    extra: an eager engine's `EagerFacts`, SI units.  on_cpu: what differs on CPUs; absent where it
    does not run on CPUs.  on_start: defaults of its server, in order of precedence.  runs_on:
    systems that plans try it on, absent for none.  only_on: all systems that it runs on, where its
    documentation lists them; it is refused elsewhere.  bounds: releases that are refused on some
    systems.
    pads: sizes that it pads where a degree does not divide them, others it refuses; and windows.
    loads: published checkpoints that it loads in another format.
    chunked_prefill: its option to cut prompts or not; absent where it has none.
    The other keys are those of `EngineProfile`, in the units of their names.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    name: str
    versions: Annotated[str, Field(max_length=60)] = ""
    aliases: tuple[str, ...] = ()
    sources: dict[str, Source]
    kernel_floor_us: Fact
    floor_clock_ghz: Fact | None = None
    launch_us: Fact | None = None
    prompt_launch_us: Fact | None = None
    graph_tokens: Fact | None = None
    graph_multiple: Fact | None = None
    graph_models: dict[str, Fact] = {}
    graph_prompt_tokens: Fact | None = None
    graph_option: str = ""
    moe_floor_us: Fact | None = None
    expert_us: Fact | None = None
    compute_efficiency: Fact | None = None
    memory_efficiency: Fact | None = None
    attention_efficiency: Fact | None = None
    four_bit_efficiency: Fact | None = None
    expert_efficiency: Fact | None = None
    vector_weights: Fact | None = None
    pass_tokens: Fact | None = None
    held_share: Fact | None = None
    ahead_steps: Fact | None = None
    hand_over_steps: Fact | None = None
    step_jitter: Fact | None = None
    delivery_jitter: Fact | None = None
    sampling_us: Fact | None = None
    host_step_us: Fact
    host_sequence_us: Fact
    host_request_ms: Fact
    host_token_us: Fact | None = None
    chunk_tokens: Fact
    max_sequences: Fact
    memory_fraction: Fact
    free_share: Fact | None = None
    reserve_gb: Fact
    kv_block_tokens: Fact
    reserve_output: Fact
    all_reduce: Literal["nccl", "tree", "custom", "in_network", "switched"]
    scheduler: SchedulerName = "vllm"
    mixed_steps: bool
    shared_beside: bool = False
    thin_products: bool = False
    products: Literal["", "int8"] = ""
    kv_cache: Literal["checkpoint", "model"] = "checkpoint"
    extra: dict[str, Fact] = {}
    on_cpu: OnCpu | None = None
    on_start: tuple[OnStart, ...] = ()
    runs_on: RunsOn | None = None
    only_on: tuple[RunsOn, ...] = ()
    bounds: tuple[Bounds, ...] = ()
    pads: tuple[Pads, ...] = ()
    loads: tuple[Loads, ...] = ()
    chunked_prefill: ChunkedPrefill | None = None
    eras: tuple[Era, ...] = ()

    def profile(self, version: str = "") -> EngineProfile:
        """The engine in the engine's types, SI units; without measurements.

        version: whose server defaults it has, "" for today's.
        """
        figures: dict[str, Any] = {
            field: getattr(self, key).value * unit
            for field, (key, unit) in _FIGURES.items()
            if getattr(self, key) is not None
        }
        figures |= {name: int(getattr(self, name).value) for name in _COUNTS}
        figures |= {name: getattr(self, name) for name in _POLICIES}
        era = era_of(self.eras, version)
        if era is not None and era.compiled:
            figures["prompt_launch_s"] = 0.0
        if era is not None and era.score_bytes is not None:
            figures["score_bytes"] = era.score_bytes.value
        eager = {name: fact.value for name, fact in self.extra.items()}
        return EngineProfile(
            name=self.id,
            **figures,
            source="; ".join(source.title for source in self.sources.values()),
            assumptions=tuple(self._assumptions()),
            eager=EagerFacts(**eager) if eager else None,
            graph_models={name: fact.value for name, fact in self.graph_models.items()},
            on_cpu=self.on_cpu.figures() if self.on_cpu else None,
            on_start=tuple(start.defaults() for start in self.on_start if start.holds(version)),
            loads=tuple(Loading(form.of, form.to, form.roles) for form in self.loads),
            pads=tuple(Padding(pad.what, pad.vendors) for pad in self.pads),
            chunking_option=self.chunked_prefill is not None,
            whole_tokens=self.chunked_prefill.tokens() if self.chunked_prefill else 0,
        )

    def _assumptions(self) -> list[str]:
        """Figures of kind `assumed` with their notes, in words."""
        facts = {key: getattr(self, key) for key in type(self).model_fields}
        return [
            f"{key} = {fact.value:g} ({fact.note})"
            for key, fact in facts.items()
            if isinstance(fact, Fact) and fact.kind == "assumed"
        ]


def engine_record(data: Mapping[str, Any], label: str) -> EngineRecord:
    """The validated record of a document.  label: its name in messages.

    Raises:
        InvalidValue: one sentence that names the key, what is wrong and what is expected.
    """
    try:
        return EngineRecord.model_validate(data)
    except ValidationError as error:
        raise InvalidValue(sentence(error, label, EngineRecord)) from None
