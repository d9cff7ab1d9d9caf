"""The load that pages ask about: users or a rate."""

from __future__ import annotations

import streamlit as st

from app.dashboard import load_curves
from app.dashboard.load import Load
from app.scenario.setup import Setup
from app.wording import quantities
from genz_core.limits import LIMITS

LOOPS = {"closed loop (concurrency)": "concurrency", "open loop (arrival rate)": "rate"}
#: Share of the highest sustained rate that is asked for unless one is typed.
USUAL_SHARE = 0.7


def asked_load(setup: Setup) -> Load:
    """Draw the loop, and the number of users or the rate; returns the load.

    A closed loop has as many users as the sidebar's batch unless a number is typed, an open one
    seven tenths of the highest rate that is sustained.

    Raises:
        RidgelineError: the scenario cannot be priced.
    """
    with st.container(horizontal=True, vertical_alignment="bottom"):
        loop = st.segmented_control(
            "Load", list(LOOPS), default=next(iter(LOOPS)), required=True,
            key="serving_loop", bind="query-params",
        )  # fmt: skip
        place = st.container(width=150)
    name = LOOPS[loop]
    with place:
        value = _users(setup) if name == "concurrency" else _rate(setup)
    return Load(name, value)


def _users(setup: Setup) -> float:
    limit, batch = LIMITS["concurrency"], setup.scenario.batch
    typed = st.number_input(
        "Users", limit.least, limit.most, None, placeholder=f"{batch:,}",
        key="serving_users", bind="query-params",
        help="Open requests in a closed loop; empty: the sidebar's batch.",
    )  # fmt: skip
    return float(typed or batch)


def _rate(setup: Setup) -> float:
    usual = USUAL_SHARE * load_curves.highest_rate(setup)
    typed = st.number_input(
        "Requests/s", 1e-6, 1e9, None, placeholder=quantities.digits(usual), format="%.4g",
        key="serving_rate", bind="query-params",
        help="Arrivals a second; empty: 70 % of the highest rate that is sustained.",
    )  # fmt: skip
    return float(typed or usual)
