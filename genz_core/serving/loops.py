"""Serving under a closed or an open loop: sequences that run, and latencies of their requests.

Lengths are uniform in [length_ratio, 1] of their nominal value, as public benchmarks draw them;
steps are priced at their mean.
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
from genz_core.validity import OnError, check, raise_for_status, tiled
from genz_core.workload import OUT_OF_MEMORY, decode, mixed, prefill

OVERLOADED = "overloaded"
_RATE_NODES = 24
_LANES = 4096  # steps priced in one call: more take memory and no less time each
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
    """TTFT, TPOT and throughput under load, with the measurements of the engine applied.

    Args:
        traffic: concurrency or rate and lengths, numbers or arrays [configs].
        parallelism: degrees, likewise.
        engine: default: the generic one.
        on_error: "raise" the error of the first load that cannot be served, or give each a reason
            code in its "status"; where no sequence fits, times are those that a single one would
            take.  A rate that is too high is "overloaded" either way.

    Raises:
        InvalidValue: neither or both of concurrency and rate; a length ratio outside (0, 1]; a
            size below one.
        InvalidParallelism: degrees that do not divide the model.
        OutOfMemory: not even one sequence fits.
    """
    parallelism, deployed = parallelism or Parallelism(), deploy(model, system, engine)
    recipe = deployed.engine.recipe
    scaled = replace(deployed.engine, queue_steps=deployed.engine.queue_steps * recipe.queue_scale)
    _refuse(traffic)
    users = np.ones_like(_rates(traffic)) if traffic.concurrency is None else traffic.concurrency
    served = _ServedModel.of(deployed.model, system, scaled, parallelism, traffic, users)
    if traffic.concurrency is None:
        estimate = _open_loop(served, _rates(traffic), recipe)
    else:
        estimate = _closed_loop(served, traffic.waves, recipe)
    if on_error == "raise":
        raise_for_status(estimate.status, lambda at: estimate.messages.get(at, ""))
    return estimate


def _refuse(traffic: Traffic) -> None:
    """Raise `InvalidValue` for a load or a length ratio outside its range, see `serve`."""
    if (traffic.concurrency is None) == (traffic.rate_per_s is None):
        raise InvalidValue("give a concurrency or an arrival rate, one of them")
    ratio = np.atleast_1d(np.asarray(traffic.length_ratio, dtype=float))
    wrong = ratio[~((ratio > 0.0) & (ratio <= 1.0))]
    if wrong.size:
        raise InvalidValue(
            f"length_ratio = {wrong[0]:g}: the shortest over the nominal length lies above 0 and "
            "is at most 1"
        )
    if traffic.rate_per_s is not None and np.any(~(_rates(traffic) > 0)):
        raise InvalidValue(
            f"an arrival rate must be above 0 requests a second, not {_rates(traffic).min():g}"
        )


def _rates(traffic: Traffic) -> Array:
    """Arrival rates [requests/s], [configs]."""
    return np.atleast_1d(np.asarray(traffic.rate_per_s, dtype=float))


def sequences_that_fit(
    model: Model, system: System, load: Workload, par: Parallelism, engine: EngineProfile
) -> tuple[Memory, Array]:
    """Memory with one sequence a rank, and number of sequences whose cache fits, [configs].

    A sequence takes its prompt and the part of its output that the engine reserves.
    """
    output = np.maximum(np.asarray(load.osl) * engine.reserve_output, 1.0)
    ranks = np.asarray(par.dp, dtype=float)
    single = memory(model, system, Workload(ranks, load.isl, output), par, engine)
    free = single.usable_bytes - (single.total_bytes - single.kv_bytes)
    fit = np.floor(free / np.maximum(single.kv_bytes, 1.0)) * ranks
    return single, np.where(free > 0, fit, 0.0)


@dataclass(frozen=True, slots=True)
class _ServedModel:
    """A model that an engine serves on a system under some loads, [configs].

    load: open requests as its batch, and the mean of the real lengths.  memory: with one sequence
    a rank.  capacity: sequences whose cache fits.  status, messages: reason codes of loads that
    cannot be served, and the sentence behind each.
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
    ) -> _ServedModel:
        """The model under `traffic`, loads that cannot be served with their reason codes."""
        nominal = Workload(users, traffic.isl, traffic.osl)
        checked = check(model, nominal, parallelism, batch_is="concurrency")
        load = _real_lengths(checked.workload, traffic.length_ratio)
        single, capacity = sequences_that_fit(model, system, load, checked.parallelism, engine)
        status, messages = checked.status, dict(checked.complaints)
        full = (status == "ok") & (capacity < 1.0)
        for at in np.flatnonzero(full):
            messages[int(at)] = single.reason(int(at)) or _NO_ROOM
        status = np.where(full, OUT_OF_MEMORY, status)
        split = checked.parallelism
        return cls(model, system, engine, split, load, single, capacity, status, messages)

    @property
    def osl(self) -> Array:
        """Mean output tokens of a request, [configs]."""
        return cast(Array, self.load.osl)

    @property
    def ranks(self) -> Array:
        """Attention data parallel ranks, [configs]."""
        return cast(Array, self.parallelism.dp)

    @property
    def limit(self) -> Array:
        """Sequences that run at most; 1 where none fits, so that times stay finite."""
        return np.maximum(np.minimum(self.capacity, self.engine.max_sequences), 1.0)

    def steps(self, running: Array) -> Steps:
        """Times of the decode step of `running` sequences, and of the prompt that joins it."""
        deployed = (self.model, self.system)
        split, engine, isl = self.parallelism, self.engine, self.load.isl
        sequences = np.maximum(np.round(running), 1.0)
        steady = decode(*deployed, Workload(sequences, isl, self.osl), split, engine)
        alone = prefill(*deployed, Workload(1.0, isl, 1.0), split, engine)
        least = alone.bound_total_s
        prefill_s = added_s = np.maximum(alone.total_s * engine.prefill_share, least)
        if engine.mixed_steps:
            others = Group(np.maximum(sequences - 1.0, 0.0), 1.0, isl + self.osl / 2.0)
            together = mixed(*deployed, [Group(1.0, isl, 0.0), others], split, engine).total_s
            added_s = np.maximum(together - steady.total_s, 0.0) * engine.prefill_share
            prefill_s = prefill_s + (self._chunks(isl) - 1.0) * steady.total_s
        return Steps(steady.total_s, steady.bound_total_s, added_s, alone.total_s, prefill_s, least)

    def _chunks(self, isl: Num) -> Array:
        """Steps that a prompt takes: one for every `chunk_tokens` of it."""
        tokens = self.engine.chunk_tokens
        return np.ceil(np.asarray(isl) / tokens) if tokens else np.ones_like(isl, dtype=float)

    def served_per_s(self, running: Array) -> Array:
        """Requests per second that `running` sequences complete, [nodes, configs] both."""
        nodes = max(_LANES // running.shape[1], 1)
        parts = np.split(running, range(nodes, len(running), nodes))
        return np.concatenate([self._served_per_s(part) for part in parts])

    def _served_per_s(self, running: Array) -> Array:
        """`served_per_s`, all nodes side by side."""
        sizes, split = tiled(self.load, self.parallelism, len(running))
        load = Workload(sizes["batch"], sizes["isl"], sizes["osl"])
        lanes, sequences = replace(self, load=load, parallelism=split), running.reshape(-1)
        steps = lanes.steps(sequences)
        inside = Residents(np.round(sequences), sequences, lanes.osl, lanes.ranks)
        tpot, _ = gap_s(steps, inside)
        return (sequences / (steps.own_s + tpot * lanes.osl)).reshape(running.shape)

    def seen(self, steps: Steps, load: Residents, waves: float, recipe: Recipe) -> Latencies:
        """Latencies of a request, scaled by the recipe, and never below the bound."""
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
        """The figures of all loads.  A TPOT averages over many steps: its median is its mean."""
        valid = np.isin(self.status, ["ok", OUT_OF_MEMORY, OVERLOADED])

        def masked(values: Array) -> Array:
            return np.where(valid, values, np.nan)

        return ServingEstimate(
            ttft_s=masked(seen.ttft_s),
            tpot_s=masked(seen.tpot_s),
            ttft_median_s=masked(seen.ttft_median_s),
            tpot_median_s=masked(seen.tpot_s),
            prefill_s=masked(steps.alone_s),
            decode_step_s=masked(steps.decode_s),
            bound_prefill_s=masked(steps.bound_alone_s),
            bound_decode_step_s=masked(steps.bound_decode_s),
            running=running,
            capacity=self.capacity,
            utilisation=utilisation,
            output_tokens_per_s=masked(tokens_per_s),
            osl=self.osl,
            devices=cast(Array, self.parallelism.devices),
            ranks=self.ranks,
            memory=self.memory,
            status=self.status,
            messages=self.messages,
        )


def _real_lengths(load: Workload, ratio: Num) -> Workload:
    """The load with mean lengths where real ones are uniform in [ratio, 1] of the nominal."""
    mean = (1.0 + np.asarray(ratio, dtype=float)) / 2.0
    isl, osl = (np.maximum(np.round(np.asarray(x) * mean), 1.0) for x in (load.isl, load.osl))
    return Workload(load.batch, isl, osl)


def _closed_loop(served: _ServedModel, waves: float, recipe: Recipe) -> ServingEstimate:
    """Closed loop: each user sends its next request when the last one completes.

    If memory or max_sequences admits fewer than all users, throughput is that of the admitted ones.
    """
    users = cast(Array, served.load.batch)
    running = np.clip(users, 1.0, served.limit)
    steps = served.steps(running)
    seen = served.seen(steps, Residents(running, users, served.osl, served.ranks), waves, recipe)
    later = seen.tpot_s * (served.osl - 1.0)
    requested = users * served.osl / (seen.ttft_s + later)
    completed = running * served.osl / (steps.own_s + later)
    tokens = np.where(users > running, np.minimum(requested, completed), requested)
    return served.estimate(steps, seen, running, seen.share, tokens)


def _open_loop(served: _ServedModel, rate: Array, recipe: Recipe) -> ServingEstimate:
    """Open loop: requests arrive at `rate` [1/s]; by Little's law, rate x residence of them run.

    The residence is a function of the running sequences; the balance is interpolated on a grid.
    """
    rate = np.broadcast_to(rate, served.limit.shape)
    grid = np.geomspace(np.ones_like(served.limit), served.limit, _RATE_NODES)
    rates = np.maximum.accumulate(served.served_per_s(grid), axis=0)
    running = np.array([np.interp(rate[at], rates[:, at], grid[:, at]) for at in range(rate.size)])
    steps = served.steps(running)
    seen = served.seen(steps, Residents(running, running, served.osl, served.ranks), 0.0, recipe)
    utilisation = rate / rates[-1]
    full = utilisation >= 1.0
    endless = replace(
        seen,
        ttft_s=np.where(full, np.inf, seen.ttft_s),
        ttft_median_s=np.where(full, np.inf, seen.ttft_median_s),
    )
    over = full & (served.status == "ok")
    sustained = {
        int(at): f"{rate[at]:g} requests/s is more than the {rates[-1, at]:.3g} this deployment "
        "sustains: the queue grows without end; add replicas or devices"
        for at in np.flatnonzero(over)
    }
    marked = replace(
        served,
        status=np.where(over, OVERLOADED, served.status),
        messages=served.messages | sustained,
    )
    tokens = np.minimum(rate, rates[-1]) * served.osl
    return marked.estimate(steps, endless, running, utilisation, tokens)
