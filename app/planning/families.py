"""Families of deployments: what cannot be an array, a system with an engine and number formats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from app.planning.space import ENGINES, Space
from app.scenario.drafting import Drafting, drafted
from app.scenario.intervals import of_load
from app.scenario.scenario import (
    Resolved,
    Scenario,
    SystemSource,
    basis,
    find_system,
    resolve_objects,
)
from genz_core.adapters import Adapters, adapted_model
from genz_core.deployment import bulk_format
from genz_core.errors import InvalidValue, RidgelineError
from genz_core.model_kinds import check_generates
from genz_core.offload import What
from genz_core.serving import Novelty
from genz_core.speculative import Speculation
from genz_core.types import Model, System
from hardware_db.intervals import Interval
from model_registry.finding.sources import ModelSource

#: Times that the logarithm of an interval is wider for kinds that nobody measured: judgement.
_WIDER = 2.0


@dataclass(frozen=True, slots=True)
class Family:
    """Deployments that differ in numbers alone.

    kind: "aggregated" or "disaggregated".  resolved: what runs, of the decode workers where
    prompts have workers of their own.  prefill: these.  plain: without what drafts.  drafting,
    speculation: what does, as asked and as found.  weights, kv, prefill_weights: as asked, "" for
    the checkpoint's.  spill: what the host may hold, None for nothing.  beyond: what of the load or
    the deployment no measured run had, in words.
    """

    kind: str
    resolved: Resolved
    weights: str = ""
    kv: str = ""
    prefill: Resolved | None = None
    prefill_weights: str = ""
    plain: Resolved | None = None
    drafting: Drafting | None = None
    speculation: Speculation | None = None
    spill: What | None = None
    beyond: tuple[str, ...] = ()

    @property
    def system(self) -> System:
        """Of the replicas, or of the decode workers."""
        return self.resolved.system

    def intervals(self, novelty: Novelty | None = None) -> Mapping[str, Interval | None]:
        """Intervals of "ttft_s" and "tpot_s"; none where nothing measured validates the kind.

        novelty: of loads, whose intervals are arrays; default: a load of usual novelty.
        """
        if self.prefill is not None or self.speculation is not None or self.beyond:
            return {"ttft_s": None, "tpot_s": None}
        return self._of_plain(novelty)

    def error_model(self, novelty: Novelty | None = None) -> Mapping[str, Interval | None]:
        """The intervals that probabilities rest on.

        Where nothing measured validates the kind: those of plain deployments of its engine there,
        their logarithms `_WIDER` times as wide, an assumption.  novelty: see `intervals`.
        """
        if self.validated:
            return self._of_plain(novelty)
        return {name: _widened(interval) for name, interval in self._of_plain().items()}

    def _of_plain(self, novelty: Novelty | None = None) -> Mapping[str, Interval | None]:
        known = of_load(self.resolved.system, self.resolved.engine, novelty=novelty)
        return {name: known[name] for name in ("ttft_s", "tpot_s")}

    @property
    def validated(self) -> bool:
        """Whether measured runs validate the kind."""
        return all(self.intervals().values())

    @property
    def formats(self) -> dict[str, str]:
        """Formats of the bulk of the weights and of the cache."""
        model = self.resolved.model
        return {"weights": bulk_format(model), "kv": model.precision.kv}

    @property
    def notes(self) -> tuple[str, ...]:
        """What was assumed, in words."""
        both = [self.resolved, *([self.prefill] if self.prefill else [])]
        said = [note for resolved in both for note in (*resolved.notes, basis(resolved))]
        return tuple(dict.fromkeys([*said, *([str(self.speculation)] if self.speculation else [])]))

    def __str__(self) -> str:
        parts = [self.system.name, self.resolved.engine.name, self.formats["weights"]]
        if self.prefill is not None:
            parts.append(f"disaggregated, prompts on {self.prefill.system.name}")
        if self.speculation is not None:
            parts.append(f"speculative ({self.speculation.method})")
        if self.spill:
            parts.append(f"{self.spill} offloaded to the host")
        return ", ".join(parts)


def _widened(known: Interval | None) -> Interval | None:
    if known is None:
        return None
    return Interval(known.low**_WIDER, known.high**_WIDER, 0)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What was not tried, and why."""

    what: str
    why: str


def families(
    model: ModelSource | Model, space: Space
) -> tuple[tuple[Family, ...], tuple[LeftOut, ...]]:
    """The aggregated families of a space, and what could not be one.

    Raises:
        RidgelineError: the model, a system or an engine is not known, or no family is left.
    """
    found: list[Family] = []
    left: list[LeftOut] = []
    for system in space.systems:
        for engine, weights, kv in _choices(system, space):
            label = f"{_named(system)}, {engine}, {weights or 'checkpoint'} weights"
            try:
                resolved = _resolved(model, system, engine, {"weights": weights, "kv": kv}, space)
                check_generates(resolved.model, "a plan")
            except LookupError:
                raise
            except RidgelineError as error:
                left.append(LeftOut(label, str(error)))
                continue
            plain = Family("aggregated", resolved, weights, kv)
            found += [plain, *_drafting(plain, space, left), *_spilling(plain, space)]
    if not found:
        raise InvalidValue("; ".join(f"{entry.what}: {entry.why}" for entry in left))
    return tuple(found), tuple(left)


def _spilling(family: Family, space: Space) -> Iterator[Family]:
    """The family with what the host may hold."""
    for what in dict.fromkeys(space.offload):
        spill = cast(What, what)
        yield replace(family, spill=spill, beyond=(*family.beyond, f"{what} on the host"))


def adapted(family: Family, adapters: Adapters | None, left: list[LeftOut]) -> Iterator[Family]:
    """The family with the adapters of its requests; drafts of such models are left out."""
    if adapters is None:
        yield family
    elif family.speculation is not None:
        left.append(LeftOut(str(family), "drafts of a model with LoRA adapters are not priced"))
    else:
        model = adapted_model(family.resolved.model, adapters)
        resolved = replace(family.resolved, model=model)
        yield replace(family, resolved=resolved, beyond=(*family.beyond, str(adapters)))


def _drafting(family: Family, space: Space, left: list[LeftOut]) -> Iterator[Family]:
    """The family with each way to draft; what cannot draft for its model is left out."""
    for drafting in space.drafting:
        try:
            resolved = drafted(family.resolved, drafting)
        except LookupError:
            raise
        except RidgelineError as error:
            left.append(LeftOut(f"{family}, {drafting.speculation}", str(error)))
            continue
        speculation = drafting.of(family.resolved.model)
        yield replace(
            family,
            resolved=resolved,
            plain=family.resolved,
            drafting=drafting,
            speculation=speculation,
        )


def _choices(system: SystemSource | System, space: Space) -> Iterator[tuple[str, str, str]]:
    """(engine, weights, kv) to try on a system."""
    vendor = find_system(system).vendor.casefold()
    engines = space.engines or ENGINES.get(vendor, ("generic",))
    for engine in engines:
        for weights in dict.fromkeys(space.weights):
            for kv in dict.fromkeys(space.kv):
                yield engine, weights, kv


def _resolved(
    model: ModelSource | Model,
    system: SystemSource | System,
    engine: str,
    formats: Mapping[str, str],
    space: Space,
) -> Resolved:
    """A family's names looked up, its price as asked."""
    resolved = resolve_objects(Scenario(), model, system, engine, formats)
    price = space.prices.get(_named(system)) or space.prices.get(resolved.system.slug)
    if not price:
        return resolved
    return replace(resolved, system=replace(resolved.system, price_usd_per_hour=price))


def _named(system: SystemSource | System) -> str:
    if isinstance(system, System):
        return system.slug
    return system.stem if isinstance(system, Path) else str(system)
