"""A model served under loads: running and waiting requests, and all serving figures."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from genz_core.capacity.memory import Memory, memory
from genz_core.deployment import Deployment, deploy
from genz_core.engine import EngineProfile
from genz_core.models.model_kinds import generates
from genz_core.models.speculative import steps_per_token
from genz_core.serving.balance import Balance, closed_loop, open_loop
from genz_core.serving.deduplicate import Kinds, step_seconds
from genz_core.serving.kv_capacity import sequences_that_fit, step_rooms
from genz_core.serving.load_checks import rates, real_lengths
from genz_core.serving.model_times import Sizes
from genz_core.serving.offloaded_traffic import Banks, Spilled
from genz_core.serving.queueing import Batching
from genz_core.serving.step_times import StepTimes
from genz_core.serving.traffic import Novelty, ServingEstimate, Traffic, between_tokens
from genz_core.steps.step_correction import StepCorrection, least_scale, novelty, step_correction
from genz_core.types import Array, Mask, Model, Num, Parallelism, Places, System, Workload
from genz_core.validity import check, columns, split_of
from genz_core.workload import OUT_OF_MEMORY

OVERLOADED = "overloaded"
_NO_ROOM = "no sequence's cache fits beside the weights"


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model served by an engine on a system under some loads, [configs].

    load: open requests as its batch, with mean real lengths.  memory: with one sequence per rank.
     capacity: sequences whose cache fits.  status, messages: reason codes of loads that cannot be
    served, and a sentence for each.  kept: priced batchings by number of pipeline stages, and the
    index of each load.
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
    kept: dict[int, tuple[Batching, Places]] = field(default_factory=dict)
    decoded: dict[bytes, tuple[Array, Array, Array]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        model: Model,
        system: System,
        engine: EngineProfile,
        parallelism: Parallelism,
        traffic: Traffic,
        users: Num,
    ) -> ServedModel:
        """The model under `traffic`; loads that cannot be served have reason codes."""
        nominal = Workload(users, traffic.isl, traffic.osl)
        checked = check(model, nominal, parallelism, batch_is="concurrency")
        load = real_lengths(checked.workload, traffic.length_ratio)
        share = (1.0 + np.asarray(traffic.length_ratio, dtype=float)) / 2.0
        traffic = replace(traffic, sharing=traffic.sharing.scaled(share, load.isl))
        single, capacity = sequences_that_fit(
            model, system, load, checked.parallelism, engine, traffic.sharing, traffic.spill
        )
        status, messages = checked.status, dict(checked.complaints)
        full = (status == "ok") & (capacity < 1.0)
        places = np.flatnonzero(full)
        for at, reason in zip(places.tolist(), single.reasons(places), strict=True):
            messages[at] = reason or _NO_ROOM
        status = np.where(full, OUT_OF_MEMORY, status)
        split = checked.parallelism
        return cls(model, system, engine, split, traffic, load, single, capacity, status, messages)

    @property
    def deployed(self) -> Deployment:
        """The model deployed on the system with the engine."""
        return deploy(self.model, self.system, self.engine)

    @property
    def osl(self) -> Array:
        """Mean output tokens of a request, [configs]."""
        return cast(Array, self.load.osl)

    @property
    def ranks(self) -> Array:
        """Attention data parallel ranks, [configs]."""
        return cast(Array, self.parallelism.dp)

    @property
    def cached(self) -> Num:
        """Prompt tokens that need no prefill, a number or [configs]."""
        return self.traffic.sharing.cached_tokens

    @property
    def limit(self) -> Array:
        """Largest number of running sequences; 1 if none fits, so that times stay finite."""
        asked = np.asarray(self.traffic.max_num_seqs, dtype=float)
        sequences = np.where(asked > 0, asked, self.engine.max_sequences)
        requests = np.floor(sequences / self.traffic.sharing.branches)
        most = np.minimum(self._room(asked > 0), requests * self.ranks)
        return np.maximum(most, 1.0)

    def _room(self, told: Mask) -> Array:
        """Number of requests whose cache fits, [configs].

        Weights move to the host to fit the given number of requests, or the number of users; if
        neither is known, only if not even one request fits.  told: whether the engine was given a
        limit.
        """
        if self.traffic.spill in (None, "kv") or self.traffic.rate_per_s is None:
            return self.capacity
        free = self.memory.free_bytes * self.engine.free_share
        beside = np.floor(np.maximum(free, 0.0) / np.maximum(self.memory.kv_bytes, 1.0))
        return np.where(told, self.capacity, np.minimum(self.capacity, beside * self.ranks))

    def correction(self, users: Array) -> StepCorrection:
        """Step corrections from measured runs for each load.  users: open requests, [configs]."""
        (sizes, read), least = self._among_runs(users), np.ones_like(users)
        if self.engine.neighbours is not None:
            total, _, bound = self._decoding(np.minimum(users, self.limit))
            least = least_scale(total, bound)
        return step_correction(self.engine, self.model, self.system, sizes, least, read)

    def _among_runs(self, users: Array) -> tuple[Array, Array]:
        """Position of loads among measured runs, and the prompt tokens that are prefilled."""
        sizes = self.run_sizes(users)
        cached = self._chosen(self.cached if self.traffic.sharing else 0.0, np.arange(len(sizes)))
        return sizes, np.maximum(sizes[:, 0] - cached, 1.0)

    def _decoding(self, running: Array) -> tuple[Array, Array, Array]:
        """Time of a step with this number of decoding requests, the host's part, and its bound
        [s].
        """
        sequences = np.maximum(np.round(running), 1.0) * self.traffic.sharing.branches
        key = sequences.tobytes()
        if key not in self.decoded:
            loads = Workload(sequences, self.load.isl, self.osl)
            self.decoded[key] = step_seconds(self.deployed, "decode", loads, self.parallelism)
        return self.decoded[key]

    def users(self) -> Array:
        """Number of open requests, [configs]."""
        closed = self.traffic.rate_per_s is None
        users = self.load.batch if closed else self._open()
        return self._chosen(users, np.arange(self.status.size))

    def run_sizes(self, users: Array) -> Array:
        """Lengths, open requests and degrees by which runs are compared, [configs, sizes]."""
        split, everyone = self.parallelism, np.arange(self.status.size)
        lengths = (self.traffic.isl, self.traffic.osl)
        columns = (*lengths, np.minimum(users, self.limit), split.tp, split.pp, split.dp, split.ep)
        return np.stack([self._chosen(column, everyone) for column in columns], axis=-1)

    def _open(self) -> Array:
        """Open requests in an open loop by Little's law; a rate that is too high is lowered to the
        sustained one.

        Computed with the correction of the engine's recipe, because nearby runs can only be found
        once the number is known.
        """
        alone, one = replace(self.engine, neighbours=None), np.ones(self.status.size)
        balance = self.balance(step_correction(alone, self.model, self.system, one[:, None], one))
        gaps = np.maximum(self.osl - 1.0, 0.0) * steps_per_token(self.model, self.osl)
        ttft = np.where(np.isfinite(balance.ttft_s), balance.ttft_s, 0.0)
        rate = np.minimum(rates(self.traffic), balance.most_per_s)
        return np.maximum(rate * (ttft + gaps * balance.cycle_s), 1.0)

    def balance(self, correction: StepCorrection) -> Balance:
        """The balance of all loads, grouped by number of pipeline stages."""
        stages = np.broadcast_to(np.asarray(self.parallelism.pp), self.status.shape)
        degrees = sorted(set(stages.tolist()))
        if len(degrees) == 1:
            return self._balance_of(np.arange(self.status.size), int(degrees[0]), correction)
        whole = {name: np.empty(self.status.size) for name in Balance.__dataclass_fields__}
        for degree in degrees:
            chosen = np.flatnonzero(stages == degree)
            part = self._balance_of(chosen, int(degree), correction.picked(chosen))
            for name, column in whole.items():
                column[chosen] = getattr(part, name)
        return Balance(**whole)

    def _balance_of(
        self, chosen: NDArray[np.intp], stages: int, correction: StepCorrection
    ) -> Balance:
        """The balance of the chosen loads, all with the same number of pipeline stages."""
        ranks = self._chosen(self.ranks, chosen)
        limit, users = (self._chosen(x, chosen) / ranks for x in (self.limit, self.load.batch))
        closed = self.traffic.rate_per_s is None
        admitted = np.minimum(users, limit) if closed else limit
        if stages not in self.kept:
            kinds = self._kinds(chosen, admitted)
            priced = self._batching(chosen[kinds.first], stages, admitted[kinds.first])
            self.kept[stages] = priced, kinds.of
        batching, of = self.kept[stages]
        if correction.corrects:
            each = np.arange(of.size)
            if not np.array_equal(of, each):
                batching = batching.picked(of)
            batching, of = batching.corrected(correction, users), each
        if closed:
            return closed_loop(batching, of, users, limit, ranks, correction.steps)
        asked = self._chosen(rates(self.traffic), chosen)
        return open_loop(batching, of, asked, ranks, correction.steps)

    def _kinds(self, chosen: NDArray[np.intp], admitted: Array) -> Kinds:
        """The chosen loads grouped by everything that `_batching` depends on."""
        told = self.traffic
        sizes = replace(self.load, batch=1.0, cached=self.cached)
        numbers = columns(sizes, self.parallelism).values()
        names = ("max_num_batched_tokens", "length_ratio", "stream_interval", "recv_interval",
                 "batch_wait", "waves")  # fmt: skip
        asked = [self._chosen(getattr(told, name), chosen) for name in names]
        return Kinds.told_by([admitted, *asked, *(self._chosen(x, chosen) for x in numbers)])

    def _batching(self, chosen: NDArray[np.intp], stages: int, admitted: Array) -> Batching:
        """How the engine handles the chosen loads; admitted: largest number of sequences per
        rank.
        """
        numbers = {name: v[chosen] for name, v in columns(self.load, self.parallelism).items()}
        sharing, engine = self.traffic.sharing, self.engine
        cached = self._chosen(self.cached, chosen) if sharing else 0.0
        isl = numbers["isl"] - cached
        whole = engine.scheduler == "tensorrt_llm"
        told = self._chosen(self.traffic.max_num_batched_tokens, chosen)
        budget, room, piece = step_rooms(engine, told, isl, admitted, whole=whole)
        running = np.maximum(admitted / stages, 1.0)
        share = np.minimum(admitted, 1.0)
        sizes = Sizes(running, room, piece, isl, numbers["osl"], cached, sharing.branches, share)
        split = split_of(self.parallelism, {**numbers, "pp": float(stages)})
        times = StepTimes.of(self.model, self.system, split, engine, sizes)
        times = replace(times, spilled=self._spilled(chosen, stages, admitted))
        together = np.maximum(admitted * times.ranks, 1.0)
        closed = self.traffic.rate_per_s is None
        steps = 1.0 + (numbers["osl"] - 1.0) * steps_per_token(self.model, numbers["osl"])
        ratio = self._chosen(self.traffic.length_ratio, chosen)
        return Batching(
            times=times,
            isl=isl,
            steps=steps,
            steps_spread=np.floor(steps * (1.0 - ratio) / (1.0 + ratio) * 2.0),
            admitted=admitted,
            others=(together - 1.0) / together if closed else np.ones_like(isl),
            lanes=stages,
            budget=budget,
            waves=self._chosen(self.traffic.waves, chosen),
            late_steps=self._late_steps(chosen),
            look_every=self._chosen(self.traffic.recv_interval, chosen),
            batch_wait=self._chosen(self.traffic.batch_wait, chosen),
            ahead_steps=engine.ahead_steps if stages == 1 else 0.0,
            closed=closed,
            mixed=engine.mixed_steps,
            whole=whole,
            host_s=engine.host_request_s + self._fetch_s(chosen),
            routed=numbers["dp"],
        )

    def _fetch_s(self, chosen: NDArray[np.intp]) -> Array | float:
        """Time to fetch a request's cached tokens from the host [s], for the chosen loads."""
        sharing = self.traffic.sharing
        if not sharing.reads:
            return 0.0

        def weigh(tokens: Num) -> Memory:
            load = Workload(self.ranks, tokens, 0.0)
            return memory(self.model, self.system, load, self.parallelism, self.engine)

        return self._chosen(sharing.fetch_s(self.system, weigh), chosen)

    def _admitted(self, running: Array) -> Array:
        """Requests per rank that memory is reserved for: with weights on the host, all that may
        run.
        """
        most = self.limit
        if self.traffic.rate_per_s is None:
            most = np.minimum(self.load.batch, most)
        return np.asarray((running if self.traffic.spill == "kv" else most) / self.ranks)

    def _bound_s(self, balance: Balance, bound_s: Array) -> Array:
        """The lower bound of a steady step [s].

        If a step is shorter than if all running requests decoded, the number of decoding ones
        follows from Little's law.

        bound_s: of a step in which all running requests decode.
        """
        if not np.any(balance.cycle_s < bound_s):
            return bound_s
        steps = np.maximum(self.osl - 1.0, 0.0) * steps_per_token(self.model, self.osl)
        served = np.minimum(balance.requests_per_s, balance.most_per_s)
        decoding = np.minimum(served * steps * balance.cycle_s, balance.running)
        return np.where(balance.cycle_s < bound_s, self._decoding(decoding)[2], bound_s)

    def _offloaded(self, requests: Array) -> Array | float:
        """Bytes on the host with this number of requests per rank, [configs]."""
        if not self.traffic.spill:
            return 0.0
        over = requests * self.memory.kv_bytes - self.memory.free_bytes * self.engine.free_share
        return np.maximum(over, 0.0)

    def _spilled(self, chosen: NDArray[np.intp], stages: int, admitted: Array) -> Spilled | None:
        """What the steps of the chosen loads read from the host, None if nothing is offloaded."""
        if not self.traffic.spill or not self.system.host_bytes_per_s:
            return None
        size, kv = self.status.size, self.traffic.spill == "kv"
        everyone, none = np.ones(size), np.zeros(size)
        everyone[chosen] = admitted
        free = np.maximum(self.memory.free_bytes * self.engine.free_share, 0.0)
        model, system, split = self.model, self.system, self.parallelism
        whole = Spilled(
            system=system,
            banks=Banks.of(model, system, self.engine, split, size),
            moved_bytes=none if kv else np.asarray(self._offloaded(everyone)),
            free_bytes=free if kv else none,
            request_bytes=self.memory.kv_bytes if kv else none,
            lanes=stages,
            ranks=self._chosen(self.ranks, np.arange(size)),
            worked=self.traffic.spill == "experts",
        )
        return whole.picked(chosen)

    def _late_steps(self, chosen: NDArray[np.intp]) -> Array:
        """Steps between a first token and its delivery, see `Traffic.stream_interval`."""
        streamed = np.asarray(self.traffic.stream_interval) - 1.0
        return self._chosen(streamed * self.engine.held_share, chosen)

    def _chosen(self, values: Num, chosen: NDArray[np.intp]) -> Array:
        """Values of the chosen loads, from a number or an array [configs]."""
        array = np.asarray(values, dtype=float)
        return array[chosen] if array.shape == self.status.shape else np.full(chosen.size, array)

    def estimate(
        self, balance: Balance, correction: StepCorrection, users: Array
    ) -> ServingEstimate:
        """The figures of all loads; no latency is below its bound.  users: open requests,
        [configs].

        TPOT averages over many steps, so its median is taken as its mean.
        """
        decode_s, decode_host, bound_decode = self._decoding(balance.running)
        prompts = Workload(1.0, self.load.isl, 1.0, self.cached)
        prefill_s, prefill_host, bound_prefill = step_seconds(
            self.deployed, "prefill", prompts, self.parallelism
        )
        decode_s = correction.seconds(decode_s, decode_host, bound_decode)
        prefill_s = correction.seconds(prefill_s, prefill_host, bound_prefill, reads=True)
        over = (
            (balance.utilisation >= 1.0) & (self.status == "ok") & np.isfinite(balance.most_per_s)
        )
        offered = np.broadcast_to(balance.requests_per_s, self.status.shape)
        messages = self.messages | {
            int(
                at
            ): f"{offered[at]:.4g} requests/s is more than the {balance.most_per_s[at]:.3g} this "
            "deployment sustains: the queue grows without end; add replicas or devices"
            for at in np.flatnonzero(over)
        }
        status = np.where(over, OVERLOADED, self.status)
        valid = np.isin(status, ["ok", OUT_OF_MEMORY, OVERLOADED])

        def masked(values: Array, least: Array | float = 0.0) -> Array:
            return np.where(valid, np.maximum(values, least), np.nan)

        each = steps_per_token(self.model, self.osl)
        bound_decode = self._bound_s(balance, bound_decode) * each
        tpot = between_tokens(masked(balance.cycle_s * each, bound_decode), self.osl)
        if not generates(self.model):
            tpot = np.full_like(tpot, np.nan)
        served = np.minimum(balance.requests_per_s, balance.most_per_s)
        of_rank = users / self._chosen(self.ranks, np.arange(status.size))
        far = novelty(self.engine, self.model, self.system, *self._among_runs(users))
        return ServingEstimate(
            ttft_s=masked(balance.ttft_s, bound_prefill),
            tpot_s=tpot,
            ttft_median_s=masked(balance.ttft_median_s, bound_prefill),
            tpot_median_s=tpot,
            prefill_s=masked(np.minimum(prefill_s, np.maximum(balance.ttft_s, bound_prefill))),
            decode_step_s=masked(decode_s * each),
            bound_prefill_s=masked(bound_prefill),
            bound_decode_step_s=masked(bound_decode),
            running=balance.running,
            correction=correction,
            novelty=Novelty(*far, of_rank),
            outside_s=balance.outside_s,
            capacity=self.capacity,
            utilisation=balance.utilisation,
            output_tokens_per_s=masked(served * self.osl * self.traffic.sharing.kept),
            osl=self.osl,
            devices=cast(Array, self.parallelism.devices),
            ranks=self.ranks,
            memory=self.memory,
            status=status,
            messages=messages,
            traffic=self.traffic,
            parallelism=self.parallelism,
            branches=self.traffic.sharing.branches,
            offloaded=self._offloaded(self._admitted(balance.running)),
        )
