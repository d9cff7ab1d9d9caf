"""Serving figures as rows: one table for the command, the page, the points file and Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from app.scenario import intervals
from app.scenario.reading import of_kind
from app.scenario.scenario import Resolved, basis
from genz_core.deployment import recipe_key
from genz_core.model_kinds import prompt_tokens
from genz_core.offload import What
from genz_core.serving import ServingEstimate, Traffic, serve
from genz_core.serving.sharing import ALONE, Sharing
from genz_core.types import Array, Num, Parallelism
from hardware_db import recipes

#: Requests that each user of a public benchmark sends.
WAVES = 10.0
#: Figures of a load that are latencies, each with an interval or none, and those that are not.
LATENCIES = ("ttft_s", "ttft_median_s", "tpot_s", "tpot_median_s", "e2e_s")
OTHERS = (
    "output_tokens_per_s", "output_tokens_per_s_per_device", "interactivity", "running",
    "capacity", "utilisation",
)  # fmt: skip


def as_calibrated(resolved: Resolved) -> Resolved:
    """A scenario with the user's own scale of this deployment's steps, if one was kept.

    It stands in for what else was measured under load, as in a simulation.
    """
    key = recipe_key(resolved.engine, resolved.model, resolved.system)
    kept = recipes.step_scale(key, resolved.scenario.parallelism)
    if kept is None:
        return resolved
    scales = replace(resolved.engine.recipe, tpot_scale=kept.scale, ttft_scale=kept.scale, points=1)
    engine = replace(resolved.engine, recipe=scales, neighbours=None, measured_on="own_few")
    return replace(resolved, engine=engine, notes=(*resolved.notes, kept.sentence))


def serve_resolved(
    resolved: Resolved,
    *,
    concurrency: Num | None = None,
    rate_per_s: Num | None = None,
    isl: Num | None = None,
    osl: Num | None = None,
    parallelism: Parallelism | None = None,
    length_ratio: Num = 1.0,
    waves: float = 0.0,
    stream_interval: Num = 1.0,
    recv_interval: Num = 1.0,
    as_benchmarked: bool = False,
    max_num_seqs: Num = 0.0,
    max_num_batched_tokens: Num = 0.0,
    sharing: Sharing = ALONE,
    spill: What | None = None,
) -> ServingEstimate:
    """Serve a scenario under loads, [loads]; one that cannot be served has a reason code.

    concurrency, rate_per_s: the loads, one of them.  isl, osl, parallelism: in place of the
    scenario's.  The others: see `genz_core.Traffic`.

    Raises:
        InvalidValue: see `genz_core.serve`.
    """
    s = resolved.scenario
    traffic = Traffic(
        isl=prompt_tokens(resolved.model, s.isl if isl is None else isl),
        osl=s.osl if osl is None else osl,
        concurrency=concurrency,
        rate_per_s=rate_per_s,
        length_ratio=length_ratio,
        waves=waves,
        stream_interval=stream_interval,
        recv_interval=recv_interval,
        as_benchmarked=as_benchmarked,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        sharing=sharing,
        spill=spill,
    )
    split = parallelism or s.parallelism
    return serve(
        resolved.model, resolved.system, traffic, split, resolved.engine, on_error="status"
    )


def columns(
    resolved: Resolved,
    result: ServingEstimate,
    latencies: Sequence[str] = LATENCIES,
    others: Sequence[str] = OTHERS,
    *,
    closed: bool,
    beyond: Sequence[str] = (),
) -> dict[str, Any]:
    """Figures of every load as columns [loads].

    "status", each latency followed by the ends of its 80 % interval, "not_validated" (the names
    of those without one), the other figures, throughput with its interval.

    closed: whether the loads are numbers of open requests.  beyond: what of them no measured run
    had, so that nothing is validated.
    """
    known = intervals.of_load(resolved.system, resolved.engine, resolved.model, result.novelty)
    known = dict.fromkeys(known) if beyond else known
    seconds = {name: _column(result, name) for name in latencies}
    timed = intervals.beside(seconds, known, intervals.bounds_of_load(result))
    rate = _column(result, "output_tokens_per_s")
    trusted = (
        intervals.of_throughput(rate, timed)
        if closed
        else dict.fromkeys(intervals.THROUGHPUT_ENDS, rate)  # that of the arrivals
    )
    return {
        "status": result.status,
        **timed,
        **{name: _column(result, name) for name in others},
        **trusted,
    }


def rows(
    resolved: Resolved,
    result: ServingEstimate,
    load: str,
    values: Array,
    beyond: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """One row a load, as `ridgeline serve` prints them: the load, the figures, a message.

    load: "concurrency" or "rate".  values: of the load, [loads].  beyond: see `columns`.
    """
    table = columns(resolved, result, closed=load == "concurrency", beyond=beyond)
    unheard = [f"no measured run had this: {', '.join(beyond)}"] if beyond else []
    notes = [*resolved.notes, basis(resolved), *unheard]
    priced = [
        {
            load: float(value),
            **{name: _at(column, at) for name, column in table.items()},
            "message": "; ".join(filter(None, [result.messages.get(at, ""), *notes])),
        }
        for at, value in enumerate(values)
    ]
    return [of_kind(resolved.model, row) for row in priced]


def _column(result: ServingEstimate, name: str) -> Array:
    values = np.asarray(getattr(result, name), dtype=float)
    return np.broadcast_to(values, result.status.shape)


def _at(column: Any, at: int) -> Any:
    if isinstance(column, str):
        return column
    value = column[at]
    return str(value) if isinstance(value, str) else float(value)
