"""A sweep as rows: the axes, then the figures of every combination; and the frontier among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.scenario import intervals
from genz_core import Estimate
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
    return [
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


def frontier(table: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that no other beats in TPOT and tokens per second and device; fitting ones only."""
    fitting = [row for row in table if row["status"] == "ok"]
    costs = np.array([row["tpot_s"] for row in fitting])
    gains = np.array([row["output_tokens_per_s_per_device"] for row in fitting])
    return [row for row, keep in zip(fitting, pareto(costs, gains), strict=True) if keep]
