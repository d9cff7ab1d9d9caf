"""One simulation of a load on replicas that start and stop, and its figures."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import numpy as np

from app.planning.targets import Target, parse_targets
from app.question.question import Question
from app.scaling.capacity import Capacity, with_targets
from app.scaling.load import requests_of
from app.scenario.drafting import speculation
from app.scenario.gate import refuse_meaningless_for
from app.scenario.scenario import Resolved, resolve
from app.scenario.served_rows import mean_device
from app.simulation import offered_load
from app.simulation.closed_form import ClosedForm, options_of
from app.simulation.run import targets_in_words, targets_of
from app.simulation.trace_file import Trace
from genz_core.common.progress import Cancel, Cancelled, Progress, never, silent
from genz_core.models.model_kinds import check_one_by_one
from genz_core.models.speculative import Speculation
from genz_core.serving.simulation import (
    Options,
    ReplicaSetCourse,
    ReplicaSetPlan,
    Simulation,
    simulate_replica_set,
)
from genz_core.types import Array, Mask

PERCENTILES = (50, 90, 95, 99)
LATENCIES = ("ttft", "tpot", "e2e")
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Deployed:
    """What all simulations of a question share.

    resolved: the question with its targets.  drawn: its requests.  options: of the engine.
    """

    resolved: Resolved
    drawn: Trace
    options: Options
    drafts: Speculation | None
    capacity: Capacity

    @classmethod
    def of(
        cls,
        question: Question,
        objects: Mapping[str, Any],
        cancelled: Cancel = never,
        *,
        by_day: bool,
        deployment: Resolved | None = None,
    ) -> Deployed:
        """Resolve a question and draw its load.

        deployment: the resolved question, if the caller has it.

        Raises:
            RidgelineError: an unknown name, an invalid load, or targets that even a single request
                misses.
        """
        question = with_targets(question)
        resolved = deployment or resolve(question, objects)
        resolved = replace(resolved, scenario=question)
        refuse_meaningless_for(resolved)
        check_one_by_one(resolved.model)
        draft = objects.get("draft_model", "")
        drafts = speculation(question, resolved.model, draft)
        drawn = requests_of(question, objects, cancelled, by_day=by_day)
        capacity = Capacity(resolved, drawn, draft)
        each = max(capacity.replicas(drawn.requests.arrival_s), 1)
        spread = replace(resolved, scenario=replace(question, replicas=each))
        options, _ = options_of(ClosedForm(spread, drawn, draft))
        return cls(resolved, drawn, options, drafts, capacity)

    @property
    def devices(self) -> int:
        """Devices of a replica."""
        q = self.resolved.scenario
        return q.tp * q.pp * q.dp

    @property
    def rent_usd_per_hour(self) -> float | None:
        """Rent of a device, None if no price is known."""
        return mean_device(self.resolved).price_usd_per_hour

    @property
    def targets(self) -> dict[str, float]:
        """Targets of ttft_s, tpot_s and e2e_s [s]."""
        return targets_of(self.resolved.scenario)

    @property
    def targets_in_words(self) -> str:
        """The targets as text for a sentence."""
        return targets_in_words(self.targets)

    @property
    def load_targets(self) -> tuple[Target, ...]:
        """The question's targets on figures of the whole load."""
        return parse_targets(", ".join(self.resolved.scenario.target))

    def unjudged(self, figures: Collection[str] = ()) -> list[str]:
        """A note on each target that is neither on a latency nor on one of these figures."""
        return [
            f"the target {target} is not judged here"
            for target in self.load_targets
            if not target.figure.latency and target.figure.column not in figures
        ]

    def document(self) -> dict[str, Any]:
        """The question for a document, SI units."""
        resolved, q = self.resolved, self.resolved.scenario
        load = offered_load.described(q, len(self.drawn.requests), self.drawn.name)
        return {
            "model": resolved.model.name,
            "system": resolved.system.slug,
            "engine": resolved.engine.name,
            **{name: getattr(q, name) for name in ("tp", "pp", "dp", "ep")},
            "devices_per_replica": self.devices,
            "load": load | ({"day": list(q.day)} if q.day else {}),
            "targets": self.targets,
        }

    def run(
        self, plan: ReplicaSetPlan, progress: Progress = silent, cancelled: Cancel = never
    ) -> FleetRun:
        """Simulate the requests on replicas.

        Raises:
            Cancelled: `cancelled` returned True.
        """
        q = self.resolved.scenario
        simulation, course = simulate_replica_set(
            self.resolved.model,
            self.resolved.system,
            self.drawn.requests,
            plan,
            q.parallelism,
            self.resolved.engine,
            options=self.options,
            routing=cast(Any, q.router),
            speculation=self.drafts,
            seed=q.seed,
            progress=lambda ended, of: progress(ended / of, f"{ended:,} of {of:,} requests"),
            cancelled=cancelled,
        )
        ended = int((simulation.ended | simulation.refused).sum())
        if ended < len(self.drawn.requests):
            raise Cancelled(f"{ended:,} of {len(self.drawn.requests):,} requests")
        return FleetRun(self, plan, simulation, course)


@dataclass(frozen=True)
class FleetRun:
    """A simulation and its figures."""

    deployed: Deployed
    plan: ReplicaSetPlan
    simulation: Simulation
    course: ReplicaSetCourse

    @cached_property
    def good(self) -> Mask:
        """Whether each request met every target."""
        return self.simulation.good(self.deployed.targets)

    @property
    def good_share(self) -> float:
        """Share of the requests that met every target."""
        return float(self.good.mean())

    def usd(self) -> float | None:
        """Rent of the devices while replicas start, serve, stop and are replaced."""
        rent = self.deployed.rent_usd_per_hour
        hours = self.course.replica_s / _HOUR_S
        return hours * self.deployed.devices * rent if rent else None

    def figures(self) -> dict[str, Any]:
        """Counts, cost, and mean and percentiles of each latency [s]."""
        return dict(self._figures)

    @cached_property
    def _figures(self) -> dict[str, Any]:
        course, answers = self.course, self.simulation
        there = course.there if course.there.size else np.zeros(1)
        usd, tokens = self.usd(), float(answers.requests.output_tokens[answers.ended].sum())
        named: dict[str, Any] = {
            "requests": len(answers.requests),
            "refused": int(answers.refused.sum()),
            "good_share": self.good_share,
            "replica_hours": course.replica_s / _HOUR_S,
            "most_replicas": int(there.max()),
            "starts": course.starts - self.plan.initial,
            "losses": course.losses,
            "moved": course.moved,
            "held": course.held,
            "usd": usd,
            "usd_per_mtok": usd / tokens * 1e6 if usd is not None and tokens else None,
        }
        for name in LATENCIES:
            values = getattr(answers, f"{name}_s")
            named |= {f"{name}_{what}": v for what, v in statistics(values).items()}
        return named

    def windows(self, edges: Array) -> list[dict[str, Any]]:
        """Replicas, good share and percentiles of the requests that arrived in each window."""
        answers, good = self.simulation, self.good
        place = np.searchsorted(edges, answers.arrival_s, side="right") - 1
        found = []
        for at, (start, end) in enumerate(pairwise(edges.tolist())):
            here = place == at
            row: dict[str, Any] = {
                "start_s": start,
                "end_s": end,
                "requests_per_s": float(here.sum() / (end - start)),
                "replicas": mean_between(self.course, self.course.there, start, end),
                "ready": mean_between(self.course, self.course.ready, start, end),
                "good_share": float(good[here].mean()) if here.any() else None,
            }
            for name in ("ttft", "tpot"):
                marks = statistics(getattr(answers, f"{name}_s")[here])
                row |= {f"{name}_{what}": marks[what] for what in ("p50_s", "p99_s")}
            found.append(row)
        return found


def statistics(values: Array) -> dict[str, float | None]:
    """mean_s and percentiles of the known values; None if there are none."""
    known = values[np.isfinite(values)]
    names = ("mean_s", *(f"p{percent}_s" for percent in PERCENTILES))
    if not known.size:
        return dict.fromkeys(names)
    marks = (known.mean(), *np.percentile(known, PERCENTILES))
    return {name: float(mark) for name, mark in zip(names, marks, strict=True)}


def mean_between(course: ReplicaSetCourse, values: Array, start: float, end: float) -> float:
    """Time average of a quantity that changes with the replicas."""
    if not course.time_s.size:
        return 0.0
    inside = course.time_s[(course.time_s > start) & (course.time_s < end)]
    edges = np.concatenate([[start], inside, [end]])
    at = np.searchsorted(course.time_s, edges[:-1], side="right") - 1
    held = np.where(at >= 0, values[np.maximum(at, 0)], 0.0)
    return float(np.sum(held * np.diff(edges)) / (end - start))
