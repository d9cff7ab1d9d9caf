"""Closed and open loops: how many sequences run, and what their requests see.

Lengths are uniform in [length_ratio, 1] of their nominal value, as public benchmarks draw them; a
deployment is priced at their mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from genz_core.deployment import deploy
from genz_core.engine import EngineProfile, Recipe
from genz_core.errors import InvalidValue
from genz_core.memory import Memory, memory
from genz_core.serving.queueing import Latencies, Residents, Steps, gap_s, latencies
from genz_core.serving.traffic import ServingEstimate, Traffic
from genz_core.types import Array, Group, Model, Num, Parallelism, System, Workload
from genz_core.validity import OnError, check, raise_for_status
from genz_core.workload import OUT_OF_MEMORY, decode, mixed, prefill

OVERLOADED = "overloaded"
_RATE_NODES = 24
_NO_ROOM = "no sequence's cache fits beside the weights"


def serve(
    model: Model,
    system: System,
    traffic: Traffic,
    parallelism: Parallelism | None = None,
    engine: EngineProfile | None = None,
    *,
    on_error: OnError = "raise",
) -> ServingEstimate:
    """TTFT, TPOT and throughput under load, with what was measured of the engine applied.

    on_error: "raise" the error of the first load that cannot be served, or give each a reason
    code in its "status"; where no sequence fits, times are those that one would take.  A rate
    that is too high is "overloaded" either way.

    Raises:
        InvalidValue: neither or both of concurrency and rate; a length ratio outside (0, 1]; a
            size below one.
        InvalidParallelism: degrees that do not divide the model.
        OutOfMemory: not even one sequence fits.
    """
    parallelism, deployed = parallelism or Parallelism(), deploy(model, system, engine)
    model, engine, recipe = deployed.model, deployed.engine, deployed.engine.recipe
    engine = replace(engine, queue_steps=engine.queue_steps * recipe.queue_scale)
    if (traffic.concurrency is None) == (traffic.rate_per_s is None):
        raise InvalidValue("give a concurrency or an arrival rate, one of them")
    ratio = np.atleast_1d(np.asarray(traffic.length_ratio, dtype=float))
    wrong = ratio[~((ratio > 0.0) & (ratio <= 1.0))]
    if wrong.size:
        raise InvalidValue(
            f"length_ratio = {wrong[0]:g}: the shortest over the nominal length lies above 0 and "
            "is at most 1"
        )
    if traffic.concurrency is None:
        rate = np.atleast_1d(np.asarray(traffic.rate_per_s, dtype=float))
        if np.any(~(rate > 0)):
            raise InvalidValue(
                f"an arrival rate must be above 0 requests a second, not {rate.min():g}"
            )
        site = _Deployment.of(model, system, engine, parallelism, traffic, np.ones_like(rate))
        served = _open_loop(site, rate, recipe)
    else:
        site = _Deployment.of(model, system, engine, parallelism, traffic, traffic.concurrency)
        served = _closed_loop(site, traffic.waves, recipe)
    if on_error == "raise":
        raise_for_status(served.status, lambda at: served.messages.get(at, ""))
    return served


def sequences_that_fit(
    model: Model, system: System, load: Workload, par: Parallelism, engine: EngineProfile
) -> tuple[Memory, Array]:
    """Memory of one sequence a rank, and how many sequences the cache holds, [configs].

    A sequence takes its prompt and the part of its output that the engine reserves.
    """
    output = np.maximum(np.asarray(load.osl) * engine.reserve_output, 1.0)
    ranks = np.asarray(par.dp, dtype=float)
    one = memory(model, system, Workload(ranks, load.isl, output), par, engine)
    free = one.usable_bytes - (one.total_bytes - one.kv_bytes)
    fit = np.floor(free / np.maximum(one.kv_bytes, 1.0)) * ranks
    return one, np.where(free > 0, fit, 0.0)


@dataclass(frozen=True, slots=True)
class _Deployment:
    """A model that an engine serves on a system, [configs].

    load: open requests as its batch, and the mean of the real lengths.  memory: with one sequence
    a rank.  capacity: sequences whose cache fits.  status, messages: what cannot run, and why.
    """

    model: Model
    system: System
    engine: EngineProfile
    parallelism: Parallelism
    load: Workload
    memory: Memory
    capacity: Array
    status: NDArray[np.str_]
    messages: dict[int, str]

    @classmethod
    def of(
        cls,
        model: Model,
        system: System,
        engine: EngineProfile,
        parallelism: Parallelism,
        traffic: Traffic,
        users: Num,
    ) -> _Deployment:
        """Refuse what cannot run, and weigh the rest."""
        asked = Workload(users, traffic.isl, traffic.osl)
        checked = check(model, asked, parallelism, batch_is="concurrency")
        load = _real_lengths(checked.workload, traffic.length_ratio)
        held, capacity = sequences_that_fit(model, system, load, checked.parallelism, engine)
        status, messages = checked.status, dict(checked.complaints)
        full = (status == "ok") & (capacity < 1.0)
        for at in np.flatnonzero(full):
            messages[int(at)] = held.reason(int(at)) or _NO_ROOM
        status = np.where(full, OUT_OF_MEMORY, status)
        split = checked.parallelism
        return cls(model, system, engine, split, load, held, capacity, status, messages)

    @property
    def osl(self) -> Array:
        return cast(Array, self.load.osl)

    @property
    def ranks(self) -> Array:
        return cast(Array, self.parallelism.dp)

    @property
    def limit(self) -> Array:
        """Sequences that run at most; one where not even that fits, so that times stay finite."""
        return np.maximum(np.minimum(self.capacity, self.engine.max_sequences), 1.0)

    def steps(self, running: Array) -> Steps:
        """Price the decode step of `running` sequences, and what a prompt adds to it."""
        given = (self.model, self.system)
        split, engine, isl = self.parallelism, self.engine, self.load.isl
        sequences = np.maximum(np.round(running), 1.0)
        steady = decode(*given, Workload(sequences, isl, self.osl), split, engine)
        alone = prefill(*given, Workload(1.0, isl, 1.0), split, engine)
        least = alone.bound_total_s
        own = added = np.maximum(alone.total_s * engine.prefill_share, least)
        if engine.mixed_steps:
            others = Group(np.maximum(sequences - 1.0, 0.0), 1.0, isl + self.osl / 2.0)
            together = mixed(*given, [Group(1.0, isl, 0.0), others], split, engine).total_s
            added = np.maximum(together - steady.total_s, 0.0) * engine.prefill_share
            own = own + (self._chunks(isl) - 1.0) * steady.total_s
        return Steps(steady.total_s, steady.bound_total_s, added, alone.total_s, own, least)

    def _chunks(self, isl: Num) -> Array:
        """Steps that a prompt takes: one for every `chunk_tokens` of it."""
        tokens = self.engine.chunk_tokens
        return np.ceil(np.asarray(isl) / tokens) if tokens else np.ones_like(isl, dtype=float)

    def served_per_s(self, running: Array) -> Array:
        """Requests per second that `running` sequences complete."""
        steps = self.steps(running)
        tpot, _ = gap_s(steps, Residents(np.round(running), running, self.osl, self.ranks))
        return running / (steps.own_s + tpot * self.osl)

    def seen(self, steps: Steps, load: Residents, waves: float, recipe: Recipe) -> Latencies:
        """What a request sees, scaled as measured, and never below the bound."""
        plain = latencies(steps, load, self.engine, waves)
        return Latencies(
            np.maximum(plain.ttft_s * recipe.ttft_scale, steps.bound_alone_s),
            np.maximum(plain.ttft_median_s * recipe.ttft_scale, steps.bound_alone_s),
            np.maximum(plain.tpot_s * recipe.tpot_scale, steps.bound_decode_s),
            plain.share,
        )

    def estimate(
        self, steps: Steps, seen: Latencies, running: Array, utilisation: Array, tokens_per_s: Array
    ) -> ServingEstimate:
        """Gather the figures.  A TPOT averages over many steps, so its median is its mean."""
        valid = np.isin(self.status, ["ok", OUT_OF_MEMORY, OVERLOADED])

        def shown(values: Array) -> Array:
            return np.where(valid, values, np.nan)

        return ServingEstimate(
            ttft_s=shown(seen.ttft_s),
            tpot_s=shown(seen.tpot_s),
            ttft_median_s=shown(seen.ttft_median_s),
            tpot_median_s=shown(seen.tpot_s),
            prefill_s=shown(steps.alone_s),
            decode_step_s=shown(steps.decode_s),
            bound_prefill_s=shown(steps.bound_alone_s),
            bound_decode_step_s=shown(steps.bound_decode_s),
            running=running,
            capacity=self.capacity,
            utilisation=utilisation,
            output_tokens_per_s=shown(tokens_per_s),
            osl=self.osl,
            devices=cast(Array, self.parallelism.devices),
            ranks=self.ranks,
            memory=self.memory,
            status=self.status,
            messages=self.messages,
        )


def _real_lengths(load: Workload, ratio: Num) -> Workload:
    mean = (1.0 + np.asarray(ratio, dtype=float)) / 2.0
    isl, osl = (np.maximum(np.round(np.asarray(x) * mean), 1.0) for x in (load.isl, load.osl))
    return Workload(load.batch, isl, osl)


def _closed_loop(site: _Deployment, waves: float, recipe: Recipe) -> ServingEstimate:
    """Every request that ends makes room for the next of the same number of users.

    Where some wait for room, those that run set the pace: no more leaves than they complete.
    """
    users = cast(Array, site.load.batch)
    running = np.clip(users, 1.0, site.limit)
    steps = site.steps(running)
    seen = site.seen(steps, Residents(running, users, site.osl, site.ranks), waves, recipe)
    later = seen.tpot_s * (site.osl - 1.0)
    asked = users * site.osl / (seen.ttft_s + later)
    completed = running * site.osl / (steps.own_s + later)
    tokens = np.where(users > running, np.minimum(asked, completed), asked)
    return site.estimate(steps, seen, running, seen.share, tokens)


def _open_loop(site: _Deployment, rate: Array, recipe: Recipe) -> ServingEstimate:
    """Little's law: the sequences running are the rate times the time each one runs.

    The time is known as a function of the sequences, so the balance is found on a grid of them.
    """
    rate = np.broadcast_to(rate, site.limit.shape)
    grid = np.geomspace(np.ones_like(site.limit), site.limit, _RATE_NODES)
    served = np.maximum.accumulate(np.stack([site.served_per_s(d) for d in grid]), axis=0)
    running = np.array([np.interp(rate[at], served[:, at], grid[:, at]) for at in range(rate.size)])
    steps = site.steps(running)
    seen = site.seen(steps, Residents(running, running, site.osl, site.ranks), 0.0, recipe)
    utilisation = rate / served[-1]
    full = utilisation >= 1.0
    endless = replace(
        seen,
        ttft_s=np.where(full, np.inf, seen.ttft_s),
        ttft_median_s=np.where(full, np.inf, seen.ttft_median_s),
    )
    over = full & (site.status == "ok")
    sustained = {
        int(at): f"{rate[at]:g} requests/s is more than the {served[-1, at]:.3g} this deployment "
        "sustains: the queue grows without end; add replicas or devices"
        for at in np.flatnonzero(over)
    }
    told = replace(
        site,
        status=np.where(over, OVERLOADED, site.status),
        messages=site.messages | sustained,
    )
    tokens = np.minimum(rate, served[-1]) * site.osl
    return told.estimate(steps, endless, running, utilisation, tokens)
