"""Serving with separate prefill workers, in closed form.

It applies `genz_core.serving.pools` to arrays of loads, with the engine's measured corrections, and
gives a reason code for each load that cannot run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genz_core.capacity.memory import memory
from genz_core.errors import InvalidValue
from genz_core.limits import short
from genz_core.models.speculative import steps_per_token
from genz_core.serving.disaggregation import Disaggregation, ServingPool
from genz_core.serving.load_checks import check_load, of_kind, rates
from genz_core.serving.pools.load import PooledLoad, pooled_load
from genz_core.serving.pools.pools_question import Combinations, Habits, Learned
from genz_core.serving.pools.workers import decode_workers, prefill_workers
from genz_core.serving.served_model import ServedModel
from genz_core.serving.traffic import (
    OVERLOADED,
    Novelty,
    ServingEstimate,
    Traffic,
    after_first,
)
from genz_core.steps.step_correction import StepCorrection, novelty
from genz_core.types import Array, Num, Parallelism, Workload
from genz_core.validity import OnError, columns, raise_for_status, split_of
from genz_core.workload import OUT_OF_MEMORY

_SPLIT = ("tp", "pp", "dp", "ep")


def serve_pools(
    disaggregation: Disaggregation,
    decode: ServingPool,
    traffic: Traffic,
    *,
    on_error: OnError = "raise",
) -> ServingEstimate:
    """TTFT, TPOT and throughput of prompts prefilled by one pool and decoded by another.

    Figures describe the whole deployment; `running` counts all decode workers, `memory` is of the
    fullest device of one, `devices` of both pools.

    Args:
        disaggregation: prefill workers, and the transfer of their cache.
        decode: decode workers; degrees may be arrays [configs].
        traffic: concurrency or rate of the whole deployment, as for `genz_core.serve`.
        on_error: as for `genz_core.serve`.

    Raises:
        InvalidValue: pools that cannot share a cache, or a load not supported by pools: weights or
            caches on the host, prompts that wait for others, drafts of several answers.
        InvalidParallelism, OutOfMemory: as `genz_core.serve`, for either pool.
    """
    disaggregation.refuse_mismatch(decode.deployed)
    _refuse(traffic)
    traffic = of_kind(decode.deployed.model, traffic)
    check_load(traffic)
    asked = _Asked.of(disaggregation, decode, traffic)
    estimate = asked.estimate()
    if on_error == "raise":
        raise_for_status(estimate.status, lambda at: estimate.messages.get(at, ""))
    return estimate


def _refuse(traffic: Traffic) -> None:
    unknown = {
        "weights or caches on the host": bool(traffic.spill or traffic.sharing.reads),
        "batch_wait": bool(np.any(np.asarray(traffic.batch_wait) > 0)),
    }
    for what, asked in unknown.items():
        if asked:
            raise InvalidValue(f"{what}: not modelled with a prefill pool; leave it out")


@dataclass(frozen=True, slots=True)
class _Asked:
    """Loads on both pools, [configs].

    written, read: the model as a decode worker and as a prefill worker runs it, each with its share
    of the load, counted per decode worker.  users: open requests per decode worker.
    """

    disaggregation: Disaggregation
    decode: ServingPool
    traffic: Traffic
    written: ServedModel
    read: ServedModel
    before_s: Array

    @classmethod
    def of(cls, disaggregation: Disaggregation, decode: ServingPool, traffic: Traffic) -> _Asked:
        part = _of_worker(traffic, decode.workers)
        users = np.ones_like(rates(part)) if part.concurrency is None else part.concurrency
        written = _served(decode, part, users)
        size = written.status.size
        split = disaggregation.prefill.parallelism
        numbers = columns(Workload(), split)
        degrees = {name: np.full(size, float(np.max(numbers[name]))) for name in _SPLIT}
        prefill = replace(disaggregation.prefill, parallelism=split_of(split, degrees))
        load = replace(part, isl=_of(part.isl, size), osl=_of(part.osl, size), max_num_seqs=0.0)
        read, before_s = _served(prefill, load, users), before_a_prompt_s(prefill, load)
        return cls(disaggregation, decode, traffic, written, read, before_s)

    @property
    def size(self) -> int:
        """Number of configurations."""
        return int(self.written.status.size)

    @property
    def closed(self) -> bool:
        """Whether the loop is closed: users wait for their answer."""
        return self.traffic.rate_per_s is None

    @property
    def always_open(self) -> bool:
        """Whether every user always has a request open."""
        return self.closed and not np.any(self.traffic.pause_s)

    @property
    def _users(self) -> Array:
        """Users per decode worker in a closed loop, [configs]."""
        return _of(self.written.load.batch, self.size)

    def learned(self, users: Array) -> Learned:
        """Corrections from measured runs for the steps of both pools.  users: open requests per
        decode worker.
        """
        first, later = (model.correction(users) for model in (self.read, self.written))
        return Learned(first, later, self.before_s)

    def load(self) -> tuple[PooledLoad, Learned]:
        """The balanced load."""
        if self.always_open:
            learned = self.learned(self._users)
            return self._balanced(learned), learned
        alone = Learned.nothing(self.size, self.before_s)
        found = self._balanced(alone)
        users = self._open(found)
        learned = self.learned(users)
        return self._balanced(learned), learned

    def _open(self, found: PooledLoad) -> Array:
        """Open requests per decode worker, by Little's law."""
        first = np.where(np.isfinite(found.ttft_s), found.ttft_s, 0.0)
        lasts = first + after_first(found.tpot_s, self.written.osl)
        served = np.minimum(found.requests_per_s, found.most_per_s)
        return np.maximum(served * lasts / self.decode.workers, 1.0)

    def _balanced(self, learned: Learned) -> PooledLoad:
        """The balance of all loads, grouped by equal lengths."""
        lengths = np.stack([self.written.load.isl, self.written.osl, self._cached, self._budget])
        kinds, of = np.unique(lengths, axis=1, return_inverse=True)
        whole = {name: np.empty(self.size) for name in PooledLoad.__dataclass_fields__}
        for kind, (isl, osl, cached, budget) in enumerate(kinds.T.tolist()):
            at = np.flatnonzero(of.ravel() == kind)
            part = self._of_lengths(at, isl, osl, cached, budget, learned.picked(at))
            for name, column in whole.items():
                column[at] = getattr(part, name)
        return PooledLoad(**whole)

    @property
    def _cached(self) -> Array:
        return np.broadcast_to(np.asarray(self.written.cached, float), (self.size,))

    @property
    def _budget(self) -> Array:
        told = np.asarray(self.traffic.max_num_batched_tokens, float)
        return np.broadcast_to(told, (self.size,))

    def _of_lengths(
        self, at: NDArray[np.intp], isl: float, osl: float, cached: float, budget: float,
        learned: Learned,
    ) -> PooledLoad:  # fmt: skip
        first, second = _some(self.read, at), _some(self.written, at)
        reader, writer = (pool.deployed for pool in (self.disaggregation.prefill, self.decode))
        readers = prefill_workers(reader, first, isl, cached, budget)
        steps = max(osl - 1.0, 0.0) * float(steps_per_token(writer.model, osl))
        limit = _of(self.traffic.max_num_seqs, self.size)[at]
        writers = decode_workers(writer, second, isl, osl, steps, self.traffic.sharing, limit)
        tokens, pool = np.full(at.size, isl), replace(self.decode, parallelism=second)
        way = self.disaggregation.transfer.of_configs(at, self.size)
        busy = replace(self.disaggregation, transfer=way).busy_s(pool, tokens)
        places = np.arange(at.size)
        which = Combinations(
            places, places,
            np.full(at.size, float(self.disaggregation.prefill.workers)),
            np.full(at.size, float(self.decode.workers)),
            busy, way.latency_s,
        )  # fmt: skip
        engine = writer.engine
        streamed = (_of(self.traffic.stream_interval, self.size)[at] - 1.0) * engine.held_share
        habits = Habits(
            waves=_of(self.traffic.waves, self.size)[at],
            late_steps=streamed,
            look_every=_of(self.traffic.recv_interval, self.size)[at],
            shown_by=way.shown_by,
        )
        amount: dict[str, Any] = (
            {
                "concurrency": _of(self.traffic.concurrency, self.size)[at],
                "pause_s": _of(self.traffic.pause_s, self.size)[at],
            }
            if self.closed
            else {"rate_per_s": _of(rates(self.traffic), self.size)[at]}
        )
        return pooled_load(readers, writers, which, osl, learned=learned, habits=habits, **amount)

    def estimate(self) -> ServingEstimate:
        """The figures of all loads."""
        found, learned = self.load()
        status, messages = self._statuses(found)
        timed = np.isin(status, ["ok", OUT_OF_MEMORY, OVERLOADED])

        def masked(values: Array) -> Array:
            return np.where(timed, values, np.nan)

        writer, workers = self.written, self.decode.workers
        each = steps_per_token(writer.model, writer.osl)
        first = found.bound_prefill_s
        served = np.minimum(found.requests_per_s, found.most_per_s)
        users = self._users if self.always_open else self._open(found)
        ranks = np.broadcast_to(np.asarray(writer.ranks, float), (self.size,))
        readers = self.disaggregation.prefill.workers * np.asarray(self.read.devices)
        devices = readers + workers * np.asarray(writer.devices)
        tpot = masked(np.maximum(found.tpot_s, found.bound_step_s * each))
        far = novelty(writer.engine, writer.model, writer.system, writer.run_sizes(users))
        return ServingEstimate(
            ttft_s=masked(np.maximum(found.ttft_s, first)),
            tpot_s=tpot,
            ttft_median_s=masked(np.maximum(found.ttft_median_s, first)),
            tpot_median_s=tpot,
            prefill_s=masked(found.prefill_s),
            decode_step_s=masked(found.step_s * each),
            bound_prefill_s=masked(first),
            bound_decode_step_s=masked(found.bound_step_s * each),
            running=masked(found.running * workers),
            correction=learned.decode,
            novelty=Novelty(*far, users / ranks),
            outside_s=self.before_s - self.read.engine.intake_s(self.read.load.isl),
            capacity=masked(writer.capacity * workers),
            utilisation=masked(found.use),
            prompt_share=np.full_like(found.use, np.nan),
            output_tokens_per_s=masked(served * writer.osl * self.traffic.sharing.kept),
            osl=writer.osl,
            devices=np.broadcast_to(devices, (self.size,)),
            ranks=ranks * workers,
            memory=writer.memory.where(timed),
            status=status,
            messages=messages,
            traffic=self.traffic,
            parallelism=writer.parallelism,
            branches=self.traffic.sharing.branches,
            pooled=True,
        )

    def _statuses(self, found: PooledLoad) -> tuple[Any, dict[int, str]]:
        status, messages = self.written.status.astype("U24"), dict(self.written.messages)
        for at in np.flatnonzero((status == "ok") & (self._reader_fits() < 1.0)):
            status[at] = OUT_OF_MEMORY
            reason = self.read.memory.reason(int(at))
            messages[int(at)] = f"prefill pool: {reason or 'no prompt fits beside the weights'}"
        for at in np.flatnonzero(self.read.status == "invalid_parallelism"):
            status[at] = "invalid_parallelism"
            messages[int(at)] = f"prefill pool: {self.read.messages.get(int(at), '')}"
        if not self.closed:
            for at in np.flatnonzero((found.use >= 1.0) & (status == "ok")):
                status[at] = OVERLOADED
                messages[int(at)] = (
                    f"{short(found.requests_per_s[at])} requests/s is more than the "
                    f"{short(found.most_per_s[at], 3)} that the slower pool sustains, so the queue "
                    "grows without bound; add workers to it"
                )
        return status, messages

    def _reader_fits(self) -> Array:
        """Whether a prompt's cache fits a prefill worker, [configs]."""
        read, split = self.read, self.read.parallelism
        load = Workload(np.asarray(split.dp, float), read.load.isl, 1.0)
        held = memory(read.model, read.system, load, split, read.engine)
        return np.where(held.free_bytes * read.engine.free_share >= held.kv_bytes, 1.0, 0.0)


def correction_of(pool: ServingPool, traffic: Traffic, users: Array) -> StepCorrection:
    """Corrections from measured runs for the steps of a pool's workers, [configs].

    Degrees may be arrays.  traffic: its lengths.  users: open requests per decode worker.
    """
    load = replace(traffic, concurrency=users, rate_per_s=None, max_num_seqs=0.0)
    return _served(pool, load, users).correction(users)


def before_a_prompt_s(pool: ServingPool, traffic: Traffic) -> Array:
    """Wait of a prompt before a prefill worker has it [s], [configs].

    It is the host's time for a request and its prompt, plus the wait outside of steps of a single
    user in measured runs of the same server when it also decodes.

    traffic: of a worker.
    """
    engine = pool.deployed.engine
    lengths = Workload(1.0, traffic.isl, traffic.osl)
    host = np.asarray(engine.intake_s(columns(lengths, pool.parallelism)["isl"]))
    if engine.neighbours is None:
        return host
    alone = replace(traffic, concurrency=1.0, rate_per_s=None, waves=0.0)
    read = _served(pool, alone, 1.0)
    outside = read.balance(read.correction(np.ones_like(host))).outside_s
    return host + np.where(np.isfinite(outside), outside, 0.0)


def _of(values: Num | None, size: int) -> Array:
    return np.broadcast_to(np.asarray(values, dtype=float), (size,))


def _of_worker(traffic: Traffic, workers: int) -> Traffic:
    """The share of a load for one of `workers` equal workers."""
    if traffic.concurrency is not None:
        users = np.floor(np.asarray(traffic.concurrency, float) / workers)
        return replace(traffic, concurrency=np.maximum(users, 1.0))
    return replace(traffic, rate_per_s=np.asarray(traffic.rate_per_s, float) / workers)


def _served(pool: ServingPool, traffic: Traffic, users: Num) -> ServedModel:
    deployed = pool.deployed
    return ServedModel.of(
        deployed.model, deployed.system, deployed.engine, pool.parallelism, traffic, users,
        pooled=True,
    )  # fmt: skip


def _some(served: ServedModel, at: NDArray[np.intp]) -> Parallelism:
    """The degrees of the selected configurations, as arrays."""
    numbers = columns(served.load, served.parallelism)
    size = served.status.size
    chosen = {name: np.broadcast_to(numbers[name], (size,))[at] for name in _SPLIT}
    return split_of(served.parallelism, chosen)
