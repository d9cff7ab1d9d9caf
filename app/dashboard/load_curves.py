"""Cached curves of a setup under load: over concurrencies, or over arrival rates."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st

from app.dashboard import cached
from app.scenario import scenario
from app.scenario.scenario import Resolved
from app.scenario.served_rows import columns, serve_resolved
from app.scenario.setup import Setup
from genz_core.serving import ServingEstimate
from genz_core.types import Array

#: Rates as shares of the highest sustained one: beyond 1 the queue grows without end.
_RATE_SHARES = np.concatenate([np.geomspace(0.02, 0.5, 12), np.linspace(0.55, 0.98, 14), [1.1]])
_CONCURRENCIES: Array = np.exp2(np.arange(13))


def basis(setup: Setup) -> str:
    """The measurements behind the figures in words; see `app.scenario.scenario.basis`."""
    return scenario.basis(cached.resolved(setup))


@st.cache_data(max_entries=64, show_spinner=False)
def closed_loop(setup: Setup, length_ratio: float) -> pd.DataFrame:
    """Serving figures by concurrency, 1 to 4096 in powers of two.

    length_ratio: real lengths are uniform in [ratio, 1] of the nominal ones.

    Raises:
        RidgelineError: as `cached.resolved`.
    """
    resolved, users = cached.resolved(setup), _CONCURRENCIES
    result = serve_resolved(resolved, concurrency=users, length_ratio=length_ratio)
    return _frame(resolved, result, "concurrency", users)


@st.cache_data(max_entries=64, show_spinner="Pricing every arrival rate …")
def open_loop(setup: Setup, length_ratio: float) -> pd.DataFrame:
    """Serving figures by arrival rate, up to just beyond the highest that is sustained.

    Arguments and errors as `closed_loop`.
    """
    resolved = cached.resolved(setup)
    probe = serve_resolved(resolved, rate_per_s=np.array([1e-6, 1e9]), length_ratio=length_ratio)
    highest = 1e9 / max(float(probe.utilisation[1]), 1e-300)
    rates: Array = highest * _RATE_SHARES
    result = serve_resolved(resolved, rate_per_s=rates, length_ratio=length_ratio)
    return _frame(resolved, result, "rate_per_s", rates)


def _frame(resolved: Resolved, result: ServingEstimate, name: str, loads: Array) -> pd.DataFrame:
    messages = [result.messages.get(at, "") for at in range(len(loads))]
    return pd.DataFrame({name: loads, **columns(resolved, result), "message": messages})


def without_waiting(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows whose requests all run at once; beyond them only the queue grows.

    name: the column of the load.  The first row stays where none are left.
    """
    kept = table["status"] != "overloaded"
    if name == "concurrency":
        kept &= table[name] <= table["running"] * 1.001
    return (table[kept] if kept.any() else table[:1]).reset_index(drop=True)


def load_warnings(table: pd.DataFrame, name: str) -> list[str]:
    """Sentences on the loads at which memory is full, requests wait, or the queue is unstable.

    name: the column of the load.
    """
    sentences = []
    if (table["status"] == "out_of_memory").all():
        return [f"Out of memory at every load: {table['message'].iloc[0]}."]
    waits = table[table[name] > table["running"] * 1.001] if name == "concurrency" else None
    if waits is not None and len(waits):
        most = float(table["running"].max())
        sentences.append(
            f"At most {most:,.0f} requests run at once, so from {waits[name].iloc[0]:,.0f} open "
            "requests on the others wait and TTFT grows with each."
        )
    full = table[table["status"] == "overloaded"]
    if len(full):
        last = table.loc[table["status"] != "overloaded", name].max()
        sentences.append(
            f"Overloaded beyond {_highest(full):.3g} requests/s (the last stable point drawn is "
            f"{last:.3g}): the queue grows without end and TTFT has no mean."
        )
    return sentences


def _highest(full: pd.DataFrame) -> float:
    row = full.iloc[0]
    return float(row["rate_per_s"] / row["utilisation"])
