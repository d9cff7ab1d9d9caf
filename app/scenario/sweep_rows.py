"""A sweep as rows: the axes, then the figures of every combination; and the frontier among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.scenario import intervals
from app.scenario.reading import of_kind
from genz_core import Estimate
from genz_core.model_kinds import generates
from genz_core.search import grid, pareto


def rows(result: Estimate, axes: Mapping[str, Sequence[float]]) -> list[dict[str, Any]]:
    """One row a combination of the axes that were swept: the axes, then the figures."""
    columns = grid(axes)
    latencies = {name: getattr(result, name) for name in ("ttft_s", "tpot_s")}
    bounds = intervals.bounds_of(result)
    trusted = intervals.beside(latencies, intervals.of_batch(result), bounds)
    missing = trusted.pop("not_validated")
    shape = result.status.shape
    devices = np.broadcast_to(np.asarray(result.devices, float), shape)
    rate = result.output_tokens_per_s
    sequences = result.sequences_per_s
    table = [
        {
            **{name: int(column[at]) for name, column in columns.items()},
            "status": str(result.status[at]),
            **{name: float(values[at]) for name, values in trusted.items()},
            "not_validated": missing,
            "output_tokens_per_s": float(rate[at]),
            "output_tokens_per_s_per_device": float(rate[at] / devices[at]),
            "memory_bytes_per_device": float(result.memory.total_bytes[at]),
        }
        for at in range(shape[0])
    ]
    return [
        of_kind(result.model, row, float(sequences[at])) | _per_device(result, at, devices)
        for at, row in enumerate(table)
    ]


def _per_device(result: Estimate, at: int, devices: Any) -> dict[str, float]:
    """An encoder's sequences a second and device."""
    if generates(result.model):
        return {}
    rate = float(result.sequences_per_s[at] / devices[at])
    return {"sequences_per_s_per_device": rate}


def frontier(table: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that no other beats in TPOT and tokens per second and device; fitting ones only.

    Of an encoder in latency and sequences per second and device.
    """
    fitting = [row for row in table if row["status"] == "ok"]
    reads = bool(table) and "latency_s" in table[0]
    cost, gain = ("latency_s", "sequences") if reads else ("tpot_s", "output_tokens")
    costs = np.array([row[cost] for row in fitting])
    gains = np.array([row[f"{gain}_per_s_per_device"] for row in fitting])
    return [row for row, keep in zip(fitting, pareto(costs, gains), strict=True) if keep]
