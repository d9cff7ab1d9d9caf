"""Families of deployments: combinations of a system, an engine and number formats, which are not
array axes.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, product
from pathlib import Path
from typing import Any

from app.planning import demand
from app.planning.space import DEGREES, choices, formats, split, systems
from app.question.comparison import DRAFTED, of_split
from app.question.evidence import Evidence
from app.question.groups import DRAFTS
from app.question.parameters import in_group
from app.question.query import Query
from app.question.question import STANDARD, Question
from app.scenario import drafting, served_rows, sharing
from app.scenario.gate import context_complaint, experts_of
from app.scenario.intervals import never_measured, of_load
from app.scenario.known_systems import SystemSource, find_system
from app.scenario.rents import rent_of
from app.scenario.scenario import Resolved, basis, resolve
from genz_core.deployment import bulk_format
from genz_core.errors import InvalidValue, RidgelineError
from genz_core.graphs import Model
from genz_core.models.model_kinds import check_generates
from genz_core.models.speculative import Speculation
from genz_core.serving import Novelty
from genz_core.systems import System
from genz_core.types import Array
from hardware_db import engines_for
from hardware_db.intervals import Interval, Kind, kind_interval

#: Factor on the logarithm of an interval for kinds of deployments without measurements: judgement.
_WIDER = 2.0
_DRAFTS = in_group(DRAFTS)


@dataclass(frozen=True, slots=True)
class Family:
    """Deployments that differ only in numbers.

    kind: "aggregated" or "disaggregated".  resolved: the deployment, or its decode workers if there
    is a prefill pool.  prefill: the prefill workers.  plain: the deployment without drafts.
     speculation: the draft method.
    """

    kind: str
    resolved: Resolved
    prefill: Resolved | None = None
    plain: Resolved | None = None
    speculation: Speculation | None = None

    @property
    def question(self) -> Question:
        """The question with the family's names and formats."""
        return self.resolved.scenario

    @property
    def copies(self) -> int:
        """Copies of experts in addition to the model's own."""
        return int(self.question.redundant_experts)

    @property
    def spill(self) -> str:
        """What may be offloaded to the host, "" for nothing."""
        return self.question.offload

    @property
    def beyond(self) -> tuple[str, ...]:
        """Properties of the load or the deployment that no measured run had, as phrases."""
        return sharing.unmeasured(self.question)

    @property
    def system(self) -> System:
        """System of the replicas, or of the decode workers."""
        return self.resolved.system

    def pool_of(self, row: Mapping[str, float]) -> dict[str, Any]:
        """The prefill pool of a candidate as parameters; {} without one.

        row: of `app.planning.candidates.COLUMNS`.
        """
        reading, own = self.prefill, (self.system.slug, self.question.weights)
        if reading is None:
            return {}
        same = (reading.system.slug, reading.scenario.weights) == own
        return {
            "prefill_workers": int(row["prefill_workers"]),
            "prefill_system": "" if same else reading.scenario.system,
            "prefill_weights": "" if same else bulk_format(reading.model),
            **{f"prefill_{name}": int(row[f"prefill_{name}"]) for name in DEGREES},
        }

    def evidence(self, columns: Mapping[str, Array]) -> Evidence:
        """What was measured near some candidates: degrees, formats, users and lengths.

        columns: of `app.planning.candidates.COLUMNS`.
        """
        plain = self.plain or self.resolved
        numbers = {name: columns[name] for name in ("isl", "osl")}
        numbers["users"] = columns["users"] * columns["dp"]
        name = self.resolved.engine.name
        pools = {"": self.resolved, "prefill_": self.prefill}
        splits = (
            split(one.scenario, *(columns[f"{pool}{degree}"] for degree in DEGREES))
            for pool, one in pools.items()
            if one is not None
        )
        model, pooled = self._validated_as(plain), self.prefill is not None
        own, *others = (
            of_split("served", name, model, one, numbers, pooled=pooled) for one in splits
        )
        for other in others:
            both = {**other.unmeasured, **own.unmeasured}
            shared = own.unmeasured.keys() & other.unmeasured.keys()
            both |= {c: own.unmeasured[c] | other.unmeasured[c] for c in shared}
            own = replace(own, unmeasured=both)
        return own

    def _validated_as(self, plain: Resolved) -> Model:
        """The model whose measurements count as evidence: the drafting one if such runs were
        measured.
        """
        drafts = self.speculation is not None and not self._other_drafts
        return self.resolved.model if drafts else plain.model

    @property
    def _other_drafts(self) -> bool:
        """Whether the draft method differs from that of the measured runs."""
        return self.speculation is not None and self.speculation.method != DRAFTED

    @property
    def kind_measured(self) -> Kind | None:
        """The kind of deployment with measured runs of its own, if this is one."""
        isl = float(self.question.isl)
        if self.prefill is not None:
            return Kind("pools", isl)
        return Kind("drafts", isl) if self.speculation is not None else None

    @property
    def unmeasured_kind(self) -> bool:
        """Whether no measured run had this kind of load or draft method, or such a system."""
        pools = (one.system for one in (self.resolved, self.prefill) if one is not None)
        return bool(self.beyond) or self._other_drafts or any(map(never_measured, pools))

    def intervals(
        self, novelty: Novelty | None = None, of: Evidence | None = None
    ) -> Mapping[str, Interval | None]:
        """Intervals of "ttft_s", "tpot_s", "e2e_s"; none if measurements do not validate the kind.

        novelty: of loads, whose intervals are arrays; default: a load of typical novelty.
        of: what was measured near the loads; default: everything.
        """
        if self.unmeasured_kind:
            return {"ttft_s": None, "tpot_s": None, "e2e_s": None}
        evidence = of or Evidence("served", kind=self.kind_measured)
        return of_load(self.resolved.system, self.resolved.engine, evidence, novelty)

    def error_model(
        self, novelty: Novelty | None = None, of: Evidence | None = None
    ) -> Mapping[str, Interval | None]:
        """The intervals used for probabilities.

        If measurements do not validate the kind, they are those of plain deployments with `_WIDER`
        times the logarithmic width, an assumption.  novelty, of: see `intervals`.
        """
        if not self.unmeasured_kind and (kind := self.kind_measured) is not None:
            return {name: kind_interval(name, kind, widest=math.inf)
                    for name in ("ttft_s", "tpot_s")}  # fmt: skip
        if not self.unmeasured_kind:
            return self._of_plain(novelty, of)
        return {name: _widened(interval) for name, interval in self._of_plain().items()}

    def _of_plain(
        self, novelty: Novelty | None = None, of: Evidence | None = None
    ) -> Mapping[str, Interval | None]:
        known = of_load(self.resolved.system, self.resolved.engine, of, novelty)
        return {name: known[name] for name in ("ttft_s", "tpot_s")}

    @property
    def validated(self) -> bool:
        """Whether measured runs validate the kind."""
        return not self.unmeasured_kind and all(self.error_model().values())

    @property
    def formats(self) -> dict[str, str]:
        """Formats of most weights and of the cache."""
        model = self.resolved.model
        return {"weights": bulk_format(model), "kv": model.precision.kv}

    @property
    def notes(self) -> tuple[str, ...]:
        """Assumptions, in sentences."""
        both = [self.resolved, *([self.prefill] if self.prefill else [])]
        said = [note for resolved in both for note in (*resolved.notes, basis(resolved))]
        return tuple(dict.fromkeys([*said, *([str(self.speculation)] if self.speculation else [])]))

    @property
    def words(self) -> tuple[str, ...]:
        """The name in parts: system, engine, format of the weights, and what else it has."""
        parts = [self.system.name, self.resolved.engine.name, self.formats["weights"]]
        if self.prefill is not None:
            parts.append("disaggregated")
            if self.prefill.system.name != self.system.name:
                parts.append(f"prompts on {self.prefill.system.name}")
        if self.speculation is not None:
            parts.append(f"speculative ({self.speculation.method})")
        if self.copies:
            parts.append(f"{self.copies} redundant experts")
        if self.spill:
            parts.append(f"{self.spill} offloaded to the host")
        return tuple(parts)

    def __str__(self) -> str:
        return ", ".join(self.words)


def _widened(known: Interval | None) -> Interval | None:
    if known is None:
        return None
    return Interval(known.low**_WIDER, known.high**_WIDER, 0)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that was not tried, and why."""

    what: str
    why: str


def families(query: Query) -> tuple[tuple[Family, ...], tuple[LeftOut, ...]]:
    """The aggregated families of a question, and the combinations that were left out.

    asked: its load is open requests or a rate, see `demand.at_means`.

    Raises:
        RidgelineError: the model, a system or an engine is unknown, or no family is left.
    """
    found: list[Family] = []
    left: list[LeftOut] = []
    for system in systems(query):
        known = find_system(system)
        rent_of(query.question.price, known)  # refused here, not left out
        engines = choices(query, "engine") or engines_for(known)
        for named in product(engines, formats(query, "weights"), formats(query, "kv")):
            label = f"{_named(system)}, {named[0]}, {named[1] or 'checkpoint'} weights"
            try:
                plain = Family("aggregated", _resolved(query, system, *named))
            except LookupError:
                raise
            except RidgelineError as error:
                left.append(LeftOut(label, str(error)))
                continue
            for family in chain.from_iterable(
                _drafting(one, query, left) for one in _with_copies(plain, query, left)
            ):
                found.append(family)
                # if everything fits, offload changes nothing
                for what in filter(None, choices(query, "offload")):
                    offloading = asking_for(family.resolved, offload=what)
                    found.append(replace(family, resolved=offloading))
    if not found:
        whys = {entry.why for entry in left}  # a reason shared by all is given once
        raise InvalidValue(
            whys.pop() if len(whys) == 1 else "; ".join(f"{e.what}: {e.why}" for e in left)
        )
    return tuple(found), tuple(left)


def _resolved(
    query: Query, system: SystemSource | System, engine: str, weights: str, kv: str
) -> Resolved:
    """The resolved names of a family; without drafts and offload."""
    none = {name: getattr(STANDARD, name) for name in (*_DRAFTS, "offload")}
    question = replace(
        query.question, system=_named(system), engine=engine, weights=weights, kv=kv, **none
    )
    resolved = resolve(
        question, {"model": query.named("model"), "system": system, "engine": engine}
    )
    check_generates(resolved.model, "a plan")
    if complaint := context_complaint(resolved.model, *demand.longest(query)):
        raise InvalidValue(complaint)
    return sharing.adapted(served_rows.as_calibrated(resolved))


def _with_copies(family: Family, query: Query, left: list[LeftOut]) -> Iterator[Family]:
    """The family with each number of redundant experts; a model without experts has none."""
    for copies in choices(query, "redundant_experts") or (query.question.redundant_experts,):
        if copies and not experts_of(family.resolved.model):
            what = f"{family}, {copies} redundant experts"
            left.append(LeftOut(what, f"{family.resolved.model.name} has no experts"))
            continue
        yield replace(family, resolved=asking_for(family.resolved, redundant_experts=int(copies)))


def _drafting(family: Family, query: Query, left: list[LeftOut]) -> Iterator[Family]:
    """The family with each draft method; methods that the model cannot use are left out."""
    for method in choices(query, "speculation") or ("",):
        if not method:
            yield family
            continue
        draft = "draft_model" if method == "draft_model" else ""
        stated = {name: getattr(query.question, name) for name in _DRAFTS}
        stated |= {"speculation": method, "draft_model": stated["draft_model"] if draft else ""}
        plain = family.resolved
        try:
            if sharing.adapters(query.question):
                raise InvalidValue("speculative decoding with LoRA adapters is not modelled")
            meant = query.objects.get(draft, "")
            wanted = asking_for(plain, **stated)
            speculation = drafting.speculation(wanted.scenario, plain.model, meant)
            resolved = drafting.drafted(wanted, meant)
        except LookupError:
            raise
        except RidgelineError as error:
            left.append(LeftOut(f"{family}, {method}", str(error)))
            continue
        yield replace(family, resolved=resolved, plain=plain, speculation=speculation)


def asking_for(resolved: Resolved, **changed: Any) -> Resolved:
    """A resolved deployment with changed parameters that do not affect any name."""
    return replace(resolved, scenario=replace(resolved.scenario, **changed))


def _named(system: SystemSource | System) -> str:
    if isinstance(system, System):
        return system.slug
    return system.stem if isinstance(system, Path) else str(system)
