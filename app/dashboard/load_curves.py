"""Serving under load for the dashboard: a scenario over concurrencies or arrival rates.

Kept by what is asked, so that a page costs nothing to revisit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app.dashboard import cached
from app.scenario import intervals, scenario
from app.scenario.setup import Setup
from app.scenario.summary import SERVING_FIGURES
from genz_core.serving import ServingEstimate, Traffic, serve

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
        RidgelineError: as `pricing.resolved`, and degrees that do not divide the model.
    """
    users = 2.0 ** np.arange(_MOST_POWER + 1)
    return _frame(setup, _served(setup, length_ratio, concurrency=users), "concurrency", users)


@st.cache_data(max_entries=64, show_spinner="Pricing every arrival rate …")
def open_loop(setup: Setup, length_ratio: float) -> pd.DataFrame:
    """A row an arrival rate, up to just beyond the highest that is sustained."""
    probe = _served(setup, length_ratio, rate_per_s=np.array([1e-6, 1e9]))
    highest = 1e9 / max(float(probe.utilisation[1]), 1e-300)
    rates = highest * _RATE_SHARES
    return _frame(setup, _served(setup, length_ratio, rate_per_s=rates), "rate_per_s", rates)


def _served(setup: Setup, length_ratio: float, **load: Any) -> ServingEstimate:
    asked, s = cached.resolved(setup), setup.scenario
    traffic = Traffic(isl=s.isl, osl=s.osl, length_ratio=length_ratio, **load)
    return serve(asked.model, asked.system, traffic, s.parallelism, asked.engine, on_error="status")


def known(setup: Setup) -> intervals.Known:
    """The intervals of the latencies under load."""
    asked = cached.resolved(setup)
    return intervals.of_load(asked.system, asked.engine)


def _frame(setup: Setup, result: ServingEstimate, name: str, loads: np.ndarray) -> pd.DataFrame:
    found = known(setup)
    values = {key: np.asarray(getattr(result, key), dtype=float) for key in SERVING_FIGURES}
    latencies = {key: values.pop(key) for key in found if key in values}
    trusted = intervals.beside(latencies, found, intervals.bounds_of_load(result))
    words = [result.messages.get(at, "") for at in range(len(loads))]
    columns = {name: loads, "status": result.status, **trusted, **values, "message": words}
    return pd.DataFrame(columns)


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
