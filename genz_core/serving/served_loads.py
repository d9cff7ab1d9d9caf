"""A model under loads, before any step is priced: lengths, memory, and how many requests run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self, cast

import numpy as np
from numpy.typing import NDArray

from genz_core.capacity.memory import Memory
from genz_core.deployment import Deployment, deploy
from genz_core.engine import EngineProfile
from genz_core.graphs import Model
from genz_core.models.speculative import query_tokens, steps_per_token
from genz_core.serving.kv_capacity import sequences_that_fit, usual_tokens
from genz_core.serving.load_checks import longest_lengths, real_lengths
from genz_core.serving.traffic import Traffic
from genz_core.serving.whole_prompts import over_budget, running_beside
from genz_core.systems import System
from genz_core.types import Array, Mask, Num, Parallelism, Places, Workload
from genz_core.validity import check
from genz_core.workload import OUT_OF_MEMORY

#: Share of the requests that could run, below which whole prompts are named as the reason.
_FEWER = 0.9
_NO_ROOM = "not even one sequence fits into memory next to the weights"


def _spread(load: Workload, users: Num) -> Workload:
    """The load with its lengths for every configuration.  users: open requests, [configs]."""
    isl, osl = (np.broadcast_to(tokens, np.shape(users)) for tokens in (load.isl, load.osl))
    return Workload(users, isl, osl)


@dataclass(frozen=True)
class ServedLoads:
    """A model that an engine serves on a system under some loads, [configs].

    load: open requests as its batch, with mean real lengths.  memory: with one sequence per rank.
    capacity: sequences whose cache fits.  status, messages: reason codes of loads that cannot be
    served, and a sentence for each.  devices: of the requested degrees, a number or [configs].
    pooled: prompts and answers have workers of their own.
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
    devices: Num
    pooled: bool = False

    @classmethod
    def of(
        cls,
        model: Model,
        system: System,
        engine: EngineProfile,
        parallelism: Parallelism,
        traffic: Traffic,
        users: Num,
        *,
        pooled: bool = False,
    ) -> Self:
        """The model under `traffic`; loads that cannot be served have reason codes."""
        nominal, ratio = Workload(users, traffic.isl, traffic.osl), traffic.length_ratio
        longest = longest_lengths(nominal, ratio)
        whole = replace(longest, batch=np.ceil(users))
        checked = check(model, whole, parallelism, batch_is="concurrency")
        load = _spread(real_lengths(nominal, ratio), np.broadcast_to(users, checked.status.shape))
        share = (1.0 + np.asarray(ratio, dtype=float)) / 2.0
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
        split, devices = checked.parallelism, parallelism.devices
        return cls(
            model, system, engine, split, traffic, load, single, capacity, status, messages,
            devices, pooled,
        )  # fmt: skip

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

    @cached_property
    def limit(self) -> Array:
        """Largest number of running sequences; 1 if none fits, so that times stay finite."""
        return np.maximum(np.minimum(self._places, self._beside_prompts), 1.0)

    @cached_property
    def _places(self) -> Array:
        """Number of sequences that fit and that the engine may run, [configs]."""
        asked = np.asarray(self.traffic.max_num_seqs, dtype=float)
        sequences = np.where(asked > 0, asked, self.engine.max_sequences)
        requests = np.floor(sequences / self.traffic.sharing.branches)
        return np.minimum(self._room(asked > 0), requests * self.ranks)

    @cached_property
    def _beside_prompts(self) -> Array:
        """Mean number of running requests that whole prompts leave, [configs]; infinite where none
        waits for decodes to end.
        """
        engine, everyone = self.engine, np.arange(self.status.size)
        if self.pooled or not (engine.whole_prompts and engine.mixed_steps):
            return np.full(everyone.size, np.inf)
        closed = self.traffic.rate_per_s is None
        most = np.minimum(self.load.batch, self._places) if closed else self._places
        ratio, osl, most, lanes = (
            self.chosen(values, everyone)
            for values in (self.traffic.length_ratio, self.osl, most, self._lanes)
        )
        budget, (longest, _) = self.budget(everyone), self._longest(everyone)
        gaps = (osl - 1.0) * steps_per_token(self.model, osl)
        each = running_beside(budget, longest, ratio, gaps, most / lanes, engine.ahead_steps)
        return each * lanes

    def captured(self, chosen: Places) -> Array:
        """Most tokens of a captured step, for the chosen loads; see
        `genz_core.engine.EngineProfile.captured_tokens`.
        """
        told = self.chosen(self.traffic.max_num_seqs, chosen)
        return np.asarray(self.engine.captured_tokens(query_tokens(self.model), told))

    def budget(self, chosen: Places) -> Array:
        """Token budget of a step, for the chosen loads."""
        told = self.chosen(self.traffic.max_num_batched_tokens, chosen)
        return np.where(told > 0, told, usual_tokens(self.engine, *self._longest(chosen)))

    def _longest(self, chosen: Places) -> tuple[Array, Array]:
        """Tokens that the longest prompt has to read, and of the longest output, for the chosen
        loads.
        """
        ratio, cached, isl, osl = (
            self.chosen(values, chosen)
            for values in (self.traffic.length_ratio, self.cached, self.load.isl, self.load.osl)
        )
        over_mean = 2.0 / (1.0 + ratio)
        return isl * over_mean - cached, osl * over_mean

    @property
    def _lanes(self) -> Num:
        """Ranks and pipeline stages that run steps of their own."""
        return np.asarray(self.parallelism.pp) * self.ranks

    def blocked(self, users: Array) -> dict[int, str]:
        """A sentence for each load whose running requests are limited by whole prompts.

        users: open requests, [configs].
        """
        most = self._beside_prompts
        fewer = most < _FEWER * np.minimum(self._places, users)
        sentence = (
            "without chunked prefill, a prompt waits until all of it fits into a step next to the "
            "decodes: about {:,.0f} of {:,.0f} requests run at a time; raise "
            "max_num_batched_tokens, or enable chunked_prefill"
        )
        found = np.flatnonzero(fewer & (self.status == "ok"))
        return {int(at): sentence.format(most[at], users[at]) for at in found}

    def refusing(self) -> dict[int, str]:
        """A sentence for each load whose longest prompt the engine refuses, see `over_budget`."""
        if self.pooled or not (self.engine.whole_prompts and self.engine.mixed_steps):
            return {}
        everyone = np.arange(self.status.size)
        told = self.chosen(self.traffic.max_num_batched_tokens, everyone)
        isl, osl = self._longest(everyone)
        least = np.where(told > 0, told, self.engine.whole_tokens or self.engine.chunk_tokens)
        found = np.flatnonzero((isl > least) & (self.status == "ok")).tolist()
        each = {at: over_budget(self.engine, told[at], isl[at], osl[at]) for at in found}
        return {at: said for at, said in each.items() if said}

    def crowded(self, running: Array) -> dict[int, str]:
        """A sentence for each rate at which nearly all places are taken.

        Prompts that come first leave decodes so little time that places fill up long before the
        sustained rate.  How long requests then wait for one depends on which of them end together.
        running: requests, [configs].
        """
        if self.traffic.rate_per_s is None or self.pooled or self.engine.mixed_steps:
            return {}
        found = np.flatnonzero((running >= self.limit * _FEWER) & (self.status == "ok"))
        sentence = (
            "prompts come first and leave decodes so little time that nearly all {:,.0f} places "
            "are taken; ttft_s does not include the wait for a free place: simulate this load"
        )
        return {int(at): sentence.format(self.limit[at]) for at in found}

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

    def offloaded_bytes(self, requests: Array) -> Array | float:
        """Bytes on the host with this number of requests per rank, [configs]."""
        if not self.traffic.spill:
            return 0.0
        over = requests * self.memory.kv_bytes - self.memory.free_bytes * self.engine.free_share
        return np.maximum(over, 0.0)

    def chosen(self, values: Num, chosen: Places) -> Array:
        """Values of the chosen loads, from a number or an array [configs]."""
        array = np.asarray(values, dtype=float)
        return array[chosen] if array.shape == self.status.shape else np.full(chosen.size, array)
