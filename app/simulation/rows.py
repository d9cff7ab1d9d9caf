"""A simulation as tables: its document, latencies, requests, and state over time."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.answers import latencies
from app.scenario import cache_tiers, pools
from app.simulation import offered_load
from app.simulation.run import UNVALIDATED, Run
from genz_core.serving.simulation import Simulation
from genz_core.serving.simulation.answers import PERCENTILES
from genz_core.types import Array

#: Titles of latencies by column name, in the order of a request's life.
LATENCIES: Mapping[str, str] = {
    name: latencies.LATENCIES[name].head for name in ("queue", "ttft", "tpot", "itl", "e2e")
}
STATISTICS = ("mean", *(f"p{percent}" for percent in PERCENTILES))
_RATES = (
    "requests_per_s", "input_tokens_per_s", "output_tokens_per_s",
    "output_tokens_per_s_per_device",
)  # fmt: skip


def document(run: Run) -> dict[str, Any]:
    """The question and the answer, SI units, as `ridgeline simulate --json` prints it."""
    q = run.question
    return {
        "model": run.resolved.model.name,
        "system": run.resolved.system.slug,
        "engine": run.resolved.engine.name,
        **{name: getattr(q, name) for name in ("tp", "pp", "dp", "ep")},
        "replicas": q.replicas,
        "router": q.router,
        "front_ends": q.front_ends,
        "devices": devices(run),
        "load": offered_load.described(q, run.requests, run.drawn.name),
        "targets": run.targets,
        "step_scale": run.step_scale,
        "prompt_scale": run.options.prompt_scale,
        "request_wait_s": run.options.wait_s,
        **_pools(run),
        **_tiers(run),
        **figures(run),
        "not_validated": UNVALIDATED,
        "message": "; ".join(run.notes[:-1]),
    }


def _pools(run: Run) -> dict[str, Any]:
    """Entries on drafts and on the prefill pool, where there are any."""
    named: dict[str, Any] = {}
    if run.speculation:
        draft, acceptance = run.speculation.draft, run.speculation.acceptance
        named["speculation"] = {
            "method": run.speculation.method,
            "draft": draft.name if draft else "",
            "draft_tokens": run.speculation.draft_tokens,
            "acceptance": list(acceptance.positions),
            "acceptance_source": acceptance.source,
            "tokens_per_step": acceptance.tokens_per_step,
        }
    if run.prefill:
        named["prefill"] = run.prefill.document()
    if run.balance:
        named["prefill"]["workers_per_decode_worker"] = run.balance.prefill_per_decode
        named["prefill"]["most_requests_per_s"] = run.balance.requests_per_s
    return named


def _tiers(run: Run) -> dict[str, Any]:
    """Entries on the cache tiers, where there are any: sizes, reads, writes, rent."""
    tiers, simulation = run.tiers, run.simulation
    if not tiers:
        return {}
    rents = cache_tiers.rents(run.question)
    seconds = max(float(np.nanmax(simulation.arrival_s + simulation.e2e_s)), 1e-12)
    return {
        "cache_tiers": [
            {
                "tier": tier.name,
                "size_gib": tier.size_bytes / 2.0**30,
                "read_bytes_per_s": tier.read_bytes_per_s,
                "latency_s": tier.latency_s,
                "written_bytes_per_s": simulation.written_bytes[tier.name] / seconds,
                "usd_per_hour": rents[tier.name],
            }
            for tier in tiers
        ]
    }


def figures(run: Run) -> dict[str, float]:
    """The figures of a run by name: counts, throughput, each latency's mean and percentiles."""
    named = run.simulation.summary(run.targets)
    named["output_tokens_per_s_per_device"] = named["output_tokens_per_s"] / devices(run)
    counts = ("requests", "ended", "refused", "preemptions", "steps")
    first = {name: named.pop(name) for name in ("requests", "ended", "refused", "seconds")}
    rates = {name: named.pop(name) for name in _RATES}
    together = {**first, **rates, **named}
    return {name: int(v) if name in counts else v for name, v in together.items()}


def devices(run: Run) -> int:
    """Devices of all replicas and of the prefill pool."""
    return sum(pools.devices_of(run.question))


def latency_rows(run: Run) -> list[dict[str, Any]]:
    """Mean and percentiles [s], one row per latency."""
    named = run.simulation.summary()
    return [
        {"latency": label, **{f"{what}_s": named[f"{name}_{what}_s"] for what in STATISTICS}}
        for name, label in LATENCIES.items()
    ]


def request_columns(run: Run) -> dict[str, NDArray[Any]]:
    """One row per counted request; times in seconds, NaN if there is none.

    request: its index among all requests sent.  good: whether it met the targets, if there are any.
    """
    answers = run.simulation
    columns: dict[str, NDArray[Any]] = {
        "request": np.arange(len(answers.requests)),
        "arrival_s": answers.arrival_s,
        "input_tokens": answers.requests.input_tokens.astype(int),
        "output_tokens": answers.requests.output_tokens.astype(int),
        "cached_tokens": answers.cached_tokens.astype(int),
        "rank": answers.rank,
        **{name: getattr(answers, name) for name in ("queue_s", "ttft_s", "tpot_s", "e2e_s")},
        "status": np.where(answers.refused, "refused", "ok"),
    }
    if run.targets:
        columns["good"] = answers.good(run.targets)
    return {name: column[answers.counted] for name, column in columns.items()}


# ------------------------------------------------------------------------------- over time


def over_time(simulation: Simulation, name: str, windows: int = 60) -> dict[str, Array]:
    """Percentiles of a latency by arrival time, in windows of equal length, [windows].

    Only counted requests are included.

    Returns time_s (the middle of each window) and p50, p90, p99; windows without a value are left
    out.
    """
    values, arrival = getattr(simulation, name), simulation.arrival_s
    known = simulation.counted & np.isfinite(values)
    values, arrival = values[known], arrival[known]
    if not values.size:
        return {column: np.zeros(0) for column in ("time_s", "p50", "p90", "p99")}
    start, length = arrival.min(), max(np.ptp(arrival), 1e-9) / windows
    window = np.minimum(((arrival - start) / length).astype(int), windows - 1)
    filled = np.unique(window)
    percentiles = [np.percentile(values[window == at], (50, 90, 99)) for at in filled]
    p50, p90, p99 = np.array(percentiles).T
    return {"time_s": start + (filled + 0.5) * length, "p50": p50, "p90": p90, "p99": p99}


def distribution(values: Array, counts: Array, points: int = 300) -> tuple[Array, Array]:
    """The cumulative distribution: values, and the share of values that are at most as large, at
    most `points` of them.
    """
    order = np.argsort(values)
    share = np.cumsum(counts[order])
    if not share.size:
        return np.zeros(0), np.zeros(0)
    share = share / share[-1]
    kept = np.unique(np.searchsorted(share, np.linspace(share[0], 1.0, points)))
    kept = np.minimum(kept, len(share) - 1)
    return values[order][kept], share[kept]
