"""Serving engines as YAML: host time, kernel floors, scheduling policy, memory reserve.

The form follows that of the systems: a number carries its value, source and kind, its unit stands
in its key, and this is the only place that converts it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from genz_core.engine import EagerFacts, EngineProfile
from genz_core.errors import InvalidValue, UnknownEngine
from hardware_db import document, library, recipes
from hardware_db.schema import GIGA, MICRO, Fact, Source
from hardware_db.wording import sentence

MILLI = 1e-3
GENERIC = "generic"


class EngineRecord(BaseModel):
    """One engine as its YAML states it.

    versions: the range the figures hold for.  mixed_steps: prefill chunks and decodes share a
    step; otherwise prefill goes first and decodes wait.  thin_products: kernels of their own for
    products of few rows.  kv_cache: what the cache is held in where weights were asked for in some
    format and nobody said: as published checkpoints of that format say, or the model's own type.
    extra: an eager engine's `EagerFacts`, SI units.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: str
    name: str
    versions: Annotated[str, Field(max_length=60)] = ""
    aliases: tuple[str, ...] = ()
    sources: dict[str, Source]
    kernel_floor_us: Fact
    launch_us: Fact | None = None
    moe_floor_us: Fact | None = None
    expert_us: Fact | None = None
    compute_efficiency: Fact | None = None
    memory_efficiency: Fact | None = None
    attention_efficiency: Fact | None = None
    four_bit_efficiency: Fact | None = None
    expert_efficiency: Fact | None = None
    queue_steps: Fact | None = None
    prefill_share: Fact | None = None
    sampling_us: Fact | None = None
    host_step_us: Fact
    host_sequence_us: Fact
    host_request_ms: Fact
    chunk_tokens: Fact
    max_sequences: Fact
    memory_fraction: Fact
    reserve_gb: Fact
    kv_block_tokens: Fact
    reserve_output: Fact
    all_reduce: Literal["nccl", "tree", "custom", "in_network"]
    scheduler: Literal["vllm", "sglang", "tensorrt_llm", "static"] = "vllm"
    mixed_steps: bool
    thin_products: bool = False
    products: Literal["", "int8"] = ""
    kv_cache: Literal["checkpoint", "model"] = "checkpoint"
    extra: dict[str, Fact] = {}

    def profile(self) -> EngineProfile:
        """The same in the engine's terms, SI units."""
        optional: dict[str, Any] = {
            name: fact.value * unit
            for name, fact, unit in (
                ("launch_s", self.launch_us, MICRO),
                ("moe_floor_s", self.moe_floor_us, MICRO),
                ("expert_s", self.expert_us, MICRO),
                ("compute_efficiency", self.compute_efficiency, 1.0),
                ("memory_efficiency", self.memory_efficiency, 1.0),
                ("attention_efficiency", self.attention_efficiency, 1.0),
                ("four_bit_efficiency", self.four_bit_efficiency, 1.0),
                ("expert_efficiency", self.expert_efficiency, 1.0),
                ("queue_steps", self.queue_steps, 1.0),
                ("prefill_share", self.prefill_share, 1.0),
                ("sampling_s", self.sampling_us, MICRO),
            )
            if fact is not None
        }
        return EngineProfile(
            name=self.id,
            versions=self.versions,
            kernel_floor_s=self.kernel_floor_us.value * MICRO,
            host_step_s=self.host_step_us.value * MICRO,
            host_sequence_s=self.host_sequence_us.value * MICRO,
            host_request_s=self.host_request_ms.value * MILLI,
            all_reduce=self.all_reduce,
            chunk_tokens=int(self.chunk_tokens.value),
            scheduler=self.scheduler,
            mixed_steps=self.mixed_steps,
            thin_products=self.thin_products,
            products=self.products,
            kv_cache=self.kv_cache,
            max_sequences=int(self.max_sequences.value),
            memory_fraction=self.memory_fraction.value,
            reserve_bytes=self.reserve_gb.value * GIGA,
            kv_block_tokens=int(self.kv_block_tokens.value),
            reserve_output=self.reserve_output.value,
            source="; ".join(source.title for source in self.sources.values()),
            assumptions=tuple(self._assumed()),
            eager=EagerFacts(**{name: fact.value for name, fact in self.extra.items()})
            if self.extra
            else None,
            **optional,
        )

    def _assumed(self) -> list[str]:
        facts = {key: getattr(self, key) for key in type(self).model_fields}
        return [
            f"{key} = {fact.value:g} ({fact.note})"
            for key, fact in facts.items()
            if isinstance(fact, Fact) and fact.kind == "assumed"
        ]


def engine_names() -> list[str]:
    """The engines that have a profile."""
    return sorted(_records())


def engine_facts(name: str) -> EngineRecord:
    """An engine's profile with the source of every figure.

    A name may carry a version or a remark, as tables print them: "vLLM 0.6.3",
    "llama.cpp (llama-bench)", "HF Transformers 4.35 [fp16]".

    Raises:
        UnknownEngine: no profile of that name or alias; the near ones are named.
    """
    records = _records()
    spellings = {
        _fold(known): record
        for record in records.values()
        for known in (record.id, record.name, *record.aliases)
    }
    plain = re.sub(r"[(\[].*|\bv?\d+(\.\w+)+\b.*", "", name)
    for candidate in (name, plain, plain.partition("/")[0]):
        if _fold(candidate) in spellings:
            return spellings[_fold(candidate)]
    raise UnknownEngine("engine", name, [*records, *(r.name for r in records.values())])


def load_engine(name: str = GENERIC, *, own: bool = True) -> EngineProfile:
    """The profile of an engine, with what was measured of it; an unknown name gets the generic one.

    The returned profile's `name` says which was used, so that the caller can tell the user.
    own: whether recipes that the user calibrated stand in for shipped ones.
    """
    try:
        record = engine_facts(name or GENERIC)
    except UnknownEngine:
        record = engine_facts(GENERIC)
    return replace(record.profile(), measurements=recipes.engine_measurements(record.id, own=own))


def prior_engine(name: str) -> EngineProfile:
    """The profile of an engine before any fit: what documentation and judgement say.

    Raises:
        UnknownEngine: no profile of that name.
    """
    path = files("hardware_db").joinpath("engines", "priors", f"{name}.yaml")
    if not path.is_file():
        raise UnknownEngine("engine", name, _records())
    return _read(path.name, path.read_text("utf-8")).profile()


def _fold(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def own_folder() -> Path:
    """Where the user's own engines lie; it need not exist."""
    return library.data_folder() / "engines"


def _records() -> Mapping[str, EngineRecord]:
    """The engines that ship, and the user's own, which stand in for shipped ones of their name."""
    own = sorted(own_folder().glob("*.yaml"))
    return {**_shipped(), **{path.stem: _kept(path, path.stat().st_mtime_ns) for path in own}}


@lru_cache(maxsize=64)
def _kept(path: Path, _modified: int) -> EngineRecord:
    return _read(path.name, path.read_text("utf-8"))


@cache
def _shipped() -> dict[str, EngineRecord]:
    found = {}
    for path in files("hardware_db").joinpath("engines").iterdir():
        if path.name.endswith(".yaml"):
            found[path.name.removesuffix(".yaml")] = _read(path.name, path.read_text("utf-8"))
    return found


def _read(label: str, text: str) -> EngineRecord:
    try:
        return EngineRecord.model_validate(document.parse(text, label))
    except ValidationError as error:
        raise InvalidValue(sentence(error, label, EngineRecord)) from None
