"""Serving under load for the dashboard: a scenario over concurrencies or arrival rates.

Kept by what is asked, so that a page costs nothing to revisit.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from app.dashboard import cached
from app.scenario import intervals, scenario
from app.scenario.scenario import Resolved
from app.scenario.served_rows import columns, serve_resolved
from app.scenario.setup import Setup
from genz_core.serving import ServingEstimate
from genz_core.types import Array

#: Share of the highest rate that rates run up to: beyond 1 the queue grows without end.
_RATE_SHARES = np.concatenate([np.geomspace(0.02, 0.5, 12), np.linspace(0.55, 0.98, 14), [1.1]])
_MOST_POWER = 12


def basis(setup: Setup) -> str:
    """What the figures stand on, in words."""
    return scenario.basis(cached.resolved(setup))


@st.cache_data(max_entries=64, show_spinner=False)
def closed_loop(setup: Setup, length_ratio: float) -> pd.DataFrame:
    """A row a concurrency, 1 to 4096 in powers of two; see `genz_core.serving`.

    Raises:
        RidgelineError: as `cached.resolved`.
    """
    users: Array = np.exp2(np.arange(_MOST_POWER + 1))
    resolved = cached.resolved(setup)
    result = serve_resolved(resolved, concurrency=users, length_ratio=length_ratio)
    return _frame(resolved, result, "concurrency", users)


@st.cache_data(max_entries=64, show_spinner="Pricing every arrival rate …")
def open_loop(setup: Setup, length_ratio: float) -> pd.DataFrame:
    """A row an arrival rate, up to just beyond the highest that is sustained."""
    resolved = cached.resolved(setup)
    probe = serve_resolved(resolved, rate_per_s=np.array([1e-6, 1e9]), length_ratio=length_ratio)
    highest = 1e9 / max(float(probe.utilisation[1]), 1e-300)
    rates: Array = highest * _RATE_SHARES
    result = serve_resolved(resolved, rate_per_s=rates, length_ratio=length_ratio)
    return _frame(resolved, result, "rate_per_s", rates)


def known(setup: Setup) -> intervals.Known:
    """The intervals of the latencies under load."""
    asked = cached.resolved(setup)
    return intervals.of_load(asked.system, asked.engine)


def _frame(resolved: Resolved, result: ServingEstimate, name: str, loads: Array) -> pd.DataFrame:
    messages = [result.messages.get(at, "") for at in range(len(loads))]
    return pd.DataFrame({name: loads, **columns(resolved, result), "message": messages})


def without_waiting(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """The loads at which every request runs at once: beyond them only the queue grows."""
    kept = table["status"] != "overloaded"
    if name == "concurrency":
        kept &= table[name] <= table["running"] * 1.001
    return (table[kept] if kept.any() else table[:1]).reset_index(drop=True)


def regions(table: pd.DataFrame, name: str) -> list[str]:
    """What happens along a load, in sentences: where requests wait, and where none is served."""
    found = []
    if (table["status"] == "out_of_memory").all():
        return [f"Out of memory at every load: {table['message'].iloc[0]}."]
    waits = table[table[name] > table["running"] * 1.001] if name == "concurrency" else None
    if waits is not None and len(waits):
        most = float(table["running"].max())
        found.append(
            f"At most {most:,.0f} requests run at once, so from {waits[name].iloc[0]:,.0f} open "
            "requests on the others wait and TTFT grows with each."
        )
    full = table[table["status"] == "overloaded"]
    if len(full):
        last = table.loc[table["status"] != "overloaded", name].max()
        found.append(
            f"Overloaded beyond {_highest(full):.3g} requests/s (the last stable point drawn is "
            f"{last:.3g}): the queue grows without end and TTFT has no mean."
        )
    return found


def _highest(full: pd.DataFrame) -> float:
    row = full.iloc[0]
    return float(row["rate_per_s"] / row["utilisation"])
