"""Serving under a closed or an open loop: sequences that run, and latencies of their requests.

Lengths are uniform in [length_ratio, 1] of their nominal value, as public benchmarks draw them;
steps are priced at their mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from genz_core.deployment import deploy
from genz_core.engine import EngineProfile, Recipe
from genz_core.errors import InvalidValue
from genz_core.memory import Memory, memory
from genz_core.serving.queueing import Batching
from genz_core.serving.step_times import Sizes, StepTimes
from genz_core.serving.traffic import ServingEstimate, Traffic
from genz_core.types import Array, Model, Num, Parallelism, System, Workload
from genz_core.validity import OnError, check, columns, raise_for_status, split_of
from genz_core.workload import OUT_OF_MEMORY, decode, prefill

OVERLOADED = "overloaded"
_GRID = 14  # numbers of decodes that a balance is looked for among
_FINER = 9  # between two of them
_LEAST = 1e-4  # of the requests admitted that decode
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
    _refuse(traffic)
    users = np.ones_like(_rates(traffic)) if traffic.concurrency is None else traffic.concurrency
    served = _ServedModel.of(deployed.model, system, deployed.engine, parallelism, traffic, users)
    estimate = served.estimate(served.balance())
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
    for name in ("stream_interval", "recv_interval"):
        least = getattr(traffic, name)
        if least is not None and not np.all(np.asarray(least, dtype=float) >= 1.0):
            raise InvalidValue(f"{name} = {np.min(least):g}: give a number of at least 1")
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
class _Balance:
    """A load in balance, [configs].

    decodes: sequences that decode, all ranks.  running: admitted requests.  ttft_s, ttft_median_s,
    tpot_s: of a request.  requests_per_s: completed.  utilisation: see `ServingEstimate`.
    most_per_s: requests that the deployment sustains, infinite in a closed loop.
    """

    running: Array
    ttft_s: Array
    ttft_median_s: Array
    tpot_s: Array
    requests_per_s: Array
    utilisation: Array
    most_per_s: Array


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
    traffic: Traffic
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
        return cls(model, system, engine, split, traffic, load, single, capacity, status, messages)

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
        asked = np.asarray(self.traffic.max_num_seqs, dtype=float)
        sequences = np.where(asked > 0, asked, self.engine.max_sequences)
        most = np.minimum(self.capacity, sequences * self.ranks)
        return np.maximum(most, 1.0)

    def balance(self) -> _Balance:
        """The loads in balance; those with the same number of pipeline stages side by side."""
        stages = np.broadcast_to(np.asarray(self.parallelism.pp), self.status.shape)
        whole = {name: np.empty(self.status.size) for name in _Balance.__dataclass_fields__}
        for degree in np.unique(stages):
            chosen = np.flatnonzero(stages == degree)
            part = self._balance_of(chosen, int(degree))
            for name, column in whole.items():
                column[chosen] = getattr(part, name)
        return _Balance(**whole)

    def _balance_of(self, chosen: NDArray[np.intp], stages: int) -> _Balance:
        """The balance of some of the loads, all with so many pipeline stages."""
        numbers = {name: v[chosen] for name, v in columns(self.load, self.parallelism).items()}
        split = split_of(self.parallelism, {**numbers, "pp": float(stages)})
        isl, osl = numbers["isl"], numbers["osl"]
        closed = self.traffic.rate_per_s is None
        ranks, limit = numbers["dp"], (self.limit / self.ranks)[chosen]
        users = numbers["batch"] / ranks
        admitted = np.minimum(users, limit) if closed else limit
        engine = self.engine
        whole = engine.scheduler == "tensorrt_llm"
        budget = (
            np.full_like(isl, engine.chunk_tokens)
            if engine.chunk_tokens
            else np.maximum(isl, 8192.0)
        )
        room = np.maximum(np.floor(budget / isl), 1.0) * isl if whole else budget
        room = np.minimum(room, np.ceil(np.maximum(admitted, 1.0)) * isl)
        piece = isl / np.ceil(isl / budget) if not whole else isl
        times = StepTimes.of(
            self.model,
            self.system,
            split,
            engine,
            Sizes(np.maximum(admitted / stages, 1.0), room, piece, isl, osl),
        )
        together = np.maximum(admitted * times.ranks, 1.0)
        ratio = _chosen(self.traffic.length_ratio, chosen, self.status.size)
        late = self.traffic.stream_interval
        balanced = np.where(ranks > 1, engine.balance_steps, 0.0)
        published = (engine.queue_steps + balanced) * engine.recipe.queue_scale
        late = published if late is None else np.maximum(np.asarray(late) - 1.0, 0.0)
        batching = Batching(
            times=times,
            isl=isl,
            osl=osl,
            osl_spread=np.floor(osl * (1.0 - ratio) / (1.0 + ratio) * 2.0),
            admitted=admitted,
            others=(together - 1.0) / together if closed else np.ones_like(isl),
            lanes=stages,
            budget=budget,
            waves=self.traffic.waves,
            late_steps=_chosen(late, chosen, self.status.size),
            look_every=_chosen(self.traffic.recv_interval, chosen, self.status.size),
            closed=closed,
            mixed=engine.mixed_steps,
            whole=whole,
            host_s=engine.host_request_s,
        )
        if closed:
            return _closed_loop(batching, users, limit, ranks, engine.recipe)
        rate = np.broadcast_to(_rates(self.traffic), self.status.shape)[chosen]
        return _open_loop(batching, rate, ranks, engine.recipe)

    def estimate(self, balance: _Balance) -> ServingEstimate:
        """The figures of all loads, no latency below its bound.

        A TPOT averages over many steps: its median is its mean.
        """
        deployed = (self.model, self.system)
        sequences = np.maximum(np.round(balance.running), 1.0)
        split, engine = self.parallelism, self.engine
        steady = decode(*deployed, Workload(sequences, self.load.isl, self.osl), split, engine)
        alone = prefill(*deployed, Workload(1.0, self.load.isl, 1.0), split, engine)
        over = (
            (balance.utilisation >= 1.0) & (self.status == "ok") & np.isfinite(balance.most_per_s)
        )
        rates = np.broadcast_to(balance.requests_per_s, self.status.shape)
        messages = self.messages | {
            int(at): f"{rates[at]:g} requests/s is more than the {balance.most_per_s[at]:.3g} this "
            "deployment sustains: the queue grows without end; add replicas or devices"
            for at in np.flatnonzero(over)
        }
        status = np.where(over, OVERLOADED, self.status)
        valid = np.isin(status, ["ok", OUT_OF_MEMORY, OVERLOADED])

        def masked(values: Array, least: Array | float = 0.0) -> Array:
            return np.where(valid, np.maximum(values, least), np.nan)

        bound_prefill, bound_decode = alone.bound_total_s, steady.bound_total_s
        tpot = masked(balance.tpot_s, bound_decode)
        served = np.minimum(balance.requests_per_s, balance.most_per_s)
        return ServingEstimate(
            ttft_s=masked(balance.ttft_s, bound_prefill),
            tpot_s=tpot,
            ttft_median_s=masked(balance.ttft_median_s, bound_prefill),
            tpot_median_s=tpot,
            prefill_s=masked(alone.total_s),
            decode_step_s=masked(steady.total_s),
            bound_prefill_s=masked(bound_prefill),
            bound_decode_step_s=masked(bound_decode),
            running=balance.running,
            capacity=self.capacity,
            utilisation=balance.utilisation,
            output_tokens_per_s=masked(served * self.osl),
            osl=self.osl,
            devices=cast(Array, self.parallelism.devices),
            ranks=self.ranks,
            memory=self.memory,
            status=status,
            messages=messages,
        )


def _chosen(values: Num, chosen: NDArray[np.intp], size: int) -> Array:
    """Values of some of the loads, of a number or an array [configs]."""
    return np.broadcast_to(np.asarray(values, dtype=float), (size,))[chosen]


def _real_lengths(load: Workload, ratio: Num) -> Workload:
    """The load with mean lengths where real ones are uniform in [ratio, 1] of the nominal."""
    mean = (1.0 + np.asarray(ratio, dtype=float)) / 2.0
    isl, osl = (np.maximum(np.round(np.asarray(x) * mean), 1.0) for x in (load.isl, load.osl))
    return Workload(load.batch, isl, osl)


def _closed_loop(
    batching: Batching, users: Array, limit: Array, ranks: Array, recipe: Recipe
) -> _Balance:
    """Closed loop: each user sends its next request when the last one completes.

    The requests admitted decode or wait for their first token, D + X TTFT of them by Little's law;
    the others wait for their room.  users, limit: per rank, [configs].
    """
    clump = batching.clump_steps()

    def requests_per_s(decodes: Array) -> Array:
        gaps = np.maximum(batching.osl - 1.0, 1e-9)
        return decodes / (gaps * batching.tpot_s(decodes, clump) * recipe.tpot_scale)

    def beyond(decodes: Array) -> Array:
        first = batching.ttft_s(decodes, clump) * recipe.ttft_scale
        return decodes + requests_per_s(decodes) * first - batching.admitted

    decodes = _root(beyond, _LEAST * batching.admitted, batching.admitted)
    tpot = batching.tpot_s(decodes, clump) * recipe.tpot_scale
    mean, median = (
        batching.ttft_s(decodes, clump, median=which) * recipe.ttft_scale for which in (False, True)
    )
    served = batching.admitted / (mean + np.maximum(batching.osl - 1.0, 0.0) * tpot)
    reader = batching.osl <= 1.0
    if np.any(reader):
        at_most = batching.prompts_per_s() / recipe.ttft_scale
        alone = batching.first_wave_s() * recipe.ttft_scale
        served = np.where(reader, np.minimum(batching.admitted / alone, at_most), served)
        mean = np.where(reader, batching.admitted / served, mean)
        median = np.where(reader, mean, median)
    waiting = np.maximum(users - limit, 0.0) / served
    burst: Array | float = 0.0
    if batching.waves:
        first = np.maximum(batching.first_wave_s() * recipe.ttft_scale, mean)
        burst = (first - mean) / batching.waves
    plain = batching.cycle_s(np.maximum(decodes, 1.0), np.zeros_like(decodes)) * recipe.tpot_scale
    return _Balance(
        running=np.minimum(users, limit) * ranks,
        ttft_s=mean + burst + waiting,
        ttft_median_s=np.minimum(median, mean + burst) + waiting,
        tpot_s=tpot,
        requests_per_s=served * ranks,
        utilisation=np.where(reader, 1.0, 1.0 - np.minimum(plain / tpot, 1.0)),
        most_per_s=np.full_like(mean, np.inf),
    )


def _open_loop(batching: Batching, rate: Array, ranks: Array, recipe: Recipe) -> _Balance:
    """Open loop: requests arrive at `rate` [1/s]; as many decode as keep up with them."""
    one, steps = np.ones_like(rate), np.maximum(batching.osl, 1.0)
    gaps = np.maximum(batching.osl - 1.0, 1e-9)

    def requests_per_s(decodes: Array) -> Array:
        return decodes / (gaps * batching.tpot_s(decodes, steps) * recipe.tpot_scale)

    most = batching.most_decodes()
    grid = np.geomspace(_LEAST * one, most, 2 * _GRID)
    sustained = np.maximum.accumulate(requests_per_s(grid), axis=0)
    reader = batching.osl <= 1.0
    reading = batching.prompts_per_s() / recipe.ttft_scale
    most_per_s = np.where(reader, reading, sustained[-1])
    each = np.minimum(rate / ranks, most_per_s)
    decodes = np.array(
        [np.interp(each[at], sustained[:, at], grid[:, at]) for at in range(one.size)]
    )
    tpot = batching.tpot_s(decodes, steps) * recipe.tpot_scale
    mean, median = (
        batching.ttft_s(decodes, steps, median=which) * recipe.ttft_scale for which in (False, True)
    )
    utilisation = rate / ranks / most_per_s
    if np.any(reader):
        load = np.minimum(utilisation, 0.9995)
        alone = batching.reading_s(
            one * 0, batching.isl, batching.isl, batching.room(one * 0), one * 0
        )
        queue = batching.host_s + alone * (1.0 + load / (2.0 * (1.0 - load)))
        mean = np.where(reader, queue * recipe.ttft_scale, mean)
        median = np.where(reader, mean, median)
    full = utilisation >= 1.0
    return _Balance(
        running=(decodes + each * np.where(full, 0.0, mean)) * ranks,
        ttft_s=np.where(full, np.inf, mean),
        ttft_median_s=np.where(full, np.inf, np.minimum(median, mean)),
        tpot_s=tpot,
        requests_per_s=rate,
        utilisation=utilisation,
        most_per_s=most_per_s * ranks,
    )


def _root(beyond: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Where an increasing function [configs] crosses zero between two bounds; else the nearer."""
    places = np.arange(low.size)
    spaced: Callable[..., Array] = np.geomspace
    for number in (_GRID, _FINER):
        grid = spaced(low, high, number)
        values = beyond(grid)
        at = np.clip((values < 0).sum(0), 1, number - 1)
        low, high = grid[at - 1, places], grid[at, places]
        below, above = values[at - 1, places], values[at, places]
        spaced = np.linspace
    share = np.clip(-below / np.maximum(above - below, 1e-300), 0.0, 1.0)
    return low + share * (high - low)
