"""The load that pages ask about: users or a rate, and how far lengths vary."""

from __future__ import annotations

import streamlit as st

from app.dashboard import load_curves
from app.dashboard.load import Load
from app.scenario.setup import Setup
from app.wording import quantities
from genz_core.limits import LIMITS

LOOPS = {"closed loop (concurrency)": "concurrency", "open loop (arrival rate)": "rate_per_s"}
#: Share of the highest sustained rate that is asked for unless one is typed.
USUAL_SHARE = 0.7


def asked_load(setup: Setup) -> Load:
    """Draw the loop, the number of users or the rate, and the lengths; returns the load.

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
        ratio = st.slider(
            "Shortest length", 0.1, 1.0, 1.0, 0.05, key="serving_ratio", bind="query-params",
            width=260,
            help="Real lengths are uniform between this share of the nominal ones and all of them; "
            "public benchmarks draw from 0.8.",
        )  # fmt: skip
    name = LOOPS[loop]
    with place:
        value = _users(setup) if name == "concurrency" else _rate(setup, ratio)
    return Load(name, value, ratio)


def _users(setup: Setup) -> float:
    limit, batch = LIMITS["concurrency"], setup.scenario.batch
    typed = st.number_input(
        "Users", limit.least, limit.most, None, placeholder=f"{batch:,}",
        key="serving_users", bind="query-params",
        help="Open requests in a closed loop; empty: the sidebar's batch.",
    )  # fmt: skip
    return float(typed or batch)


def _rate(setup: Setup, ratio: float) -> float:
    usual = USUAL_SHARE * load_curves.highest_rate(setup, ratio)
    typed = st.number_input(
        "Requests/s", 1e-6, 1e9, None, placeholder=quantities.digits(usual), format="%.4g",
        key="serving_rate", bind="query-params",
        help="Arrivals a second; empty: 70 % of the highest rate that is sustained.",
    )  # fmt: skip
    return float(typed or usual)
