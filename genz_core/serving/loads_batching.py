"""How an engine batches loads: their kinds, and the equations' input for one load of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from genz_core.capacity.memory import Memory, memory
from genz_core.models.speculative import steps_per_token
from genz_core.serving.deduplicate import Kinds
from genz_core.serving.kv_capacity import step_rooms
from genz_core.serving.load_checks import whole_lengths
from genz_core.serving.offloaded_traffic import Banks, Spilled
from genz_core.serving.queueing import Batching
from genz_core.serving.served_loads import ServedLoads
from genz_core.serving.step_sizes import Sizes
from genz_core.serving.step_times import StepTimes
from genz_core.types import Array, Num, Places, Workload
from genz_core.validity import columns, split_of


def kinds(served: ServedLoads, chosen: Places, admitted: Array) -> Kinds:
    """The chosen loads grouped by everything that `batching` depends on."""
    return Kinds.told_by(_numbers(served, chosen, admitted))


def _numbers(served: ServedLoads, chosen: Places, admitted: Array) -> Iterator[Array]:
    yield admitted
    yield served.captured(chosen)
    for name in ("max_num_batched_tokens", "length_ratio", "stream_interval", "recv_interval",
                 "batch_wait", "waves"):  # fmt: skip
        yield served.chosen(getattr(served.traffic, name), chosen)
    sizes = replace(served.load, batch=1.0, cached=served.cached)
    for column in columns(sizes, served.parallelism).values():
        yield served.chosen(column, chosen)


def batching(served: ServedLoads, chosen: Places, stages: int, admitted: Array) -> Batching:
    """How the engine handles the chosen loads.  admitted: largest number of sequences per rank."""
    numbers = {name: v[chosen] for name, v in columns(served.load, served.parallelism).items()}
    sharing, engine = served.traffic.sharing, served.engine
    cached = served.chosen(served.cached, chosen) if sharing else 0.0
    isl = numbers["isl"] - cached
    budget = served.budget(chosen)
    room, piece = step_rooms(engine, budget, isl, admitted)
    running = np.maximum(admitted / stages, 1.0)
    share = np.minimum(admitted, 1.0)
    sizes = Sizes(running, room, piece, isl, numbers["osl"], cached, sharing.branches, share)
    split = split_of(served.parallelism, {**numbers, "pp": float(stages)})
    captured = served.captured(chosen)
    times = StepTimes.of(served.model, served.system, split, engine, sizes, captured)
    times = replace(times, spilled=spilled(served, chosen, stages, admitted))
    together = np.maximum(admitted * times.ranks, 1.0)
    closed = served.traffic.rate_per_s is None
    each = steps_per_token(served.model, numbers["osl"])
    ratio = served.chosen(served.traffic.length_ratio, chosen)
    nominal = served.chosen(served.traffic.osl, chosen)
    shortest, longest = whole_lengths(nominal, ratio)
    least, most = whole_lengths(served.chosen(served.traffic.isl, chosen), ratio)
    return Batching(
        times=times,
        isl=isl,
        steps=1.0 + (numbers["osl"] - 1.0) * each,
        steps_spread=np.floor((longest - shortest) * each),
        nominal_spread=nominal * (1.0 - ratio) * each,
        admitted=admitted,
        others=(together - 1.0) / together if closed else np.ones_like(isl),
        lanes=stages,
        budget=budget,
        waves=served.chosen(served.traffic.waves, chosen),
        late_steps=_late_steps(served, chosen),
        look_every=served.chosen(served.traffic.recv_interval, chosen),
        batch_wait=served.chosen(served.traffic.batch_wait, chosen),
        ahead_steps=engine.ahead_steps if stages == 1 else 0.0,
        closed=closed,
        mixed=engine.mixed_steps,
        whole=engine.whole_prompts,
        host_s=engine.intake_s(numbers["isl"]) + _fetch_s(served, chosen),
        apart_s=engine.intake_s(most) - engine.intake_s(least),
        routed=numbers["dp"],
    )


def _fetch_s(served: ServedLoads, chosen: Places) -> Array | float:
    """Time to fetch a request's cached tokens from the host [s], for the chosen loads."""
    sharing = served.traffic.sharing
    if not sharing.reads:
        return 0.0

    def weigh(tokens: Num) -> Memory:
        load = Workload(served.ranks, tokens, 0.0)
        return memory(served.model, served.system, load, served.parallelism, served.engine)

    return served.chosen(sharing.fetch_s(served.system, weigh), chosen)


def spilled(served: ServedLoads, chosen: Places, stages: int, admitted: Array) -> Spilled | None:
    """What the steps of the chosen loads read from the host, None if nothing is offloaded.

    admitted: largest number of sequences per rank.
    """
    if not served.traffic.spill or not served.system.host_bytes_per_s:
        return None
    size, kv = served.status.size, served.traffic.spill == "kv"
    everyone, none = np.ones(size), np.zeros(size)
    everyone[chosen] = admitted
    free = np.maximum(served.memory.free_bytes * served.engine.free_share, 0.0)
    model, system, split = served.model, served.system, served.parallelism
    whole = Spilled(
        system=system,
        banks=Banks.of(model, system, served.engine, split, size),
        moved_bytes=none if kv else np.asarray(served.offloaded_bytes(everyone)),
        free_bytes=free if kv else none,
        request_bytes=served.memory.kv_bytes if kv else none,
        lanes=stages,
        ranks=served.chosen(served.ranks, np.arange(size)),
        worked=served.traffic.spill == "experts",
    )
    return whole.picked(chosen)


def _late_steps(served: ServedLoads, chosen: Places) -> Array:
    """Steps between a first token and its delivery, see `Traffic.stream_interval`."""
    streamed = np.asarray(served.traffic.stream_interval) - 1.0
    return served.chosen(streamed * served.engine.held_share, chosen)
