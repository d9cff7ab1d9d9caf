"""The load that pages ask about: users or a rate."""

from __future__ import annotations

from dataclasses import dataclass

import streamlit as st

from app.dashboard import load_curves
from app.dashboard.question_form import control, load_kind
from app.question.parameters import PARAMETERS
from app.scenario.setup import Setup
from app.wording import quantities

#: Share of the highest sustained rate that is asked for unless one is typed.
USUAL_SHARE = 0.7
#: Users that are asked of unless the sidebar has a batch.
USUAL_USERS = 16


@dataclass(frozen=True, slots=True)
class Load:
    """A load.  name: "concurrency" or "rate", at `value`."""

    name: str
    value: float

    @property
    def words(self) -> str:
        """ "64 users" or "3.2 requests/s"."""
        if self.name == "concurrency":
            return f"{self.value:,.0f} user{'s' if self.value > 1 else ''}"
        return f"{quantities.digits(self.value)} requests/s"


def asked_load(setup: Setup) -> Load:
    """Draw the kind of load, and the number of users or the rate; returns the load.

    A closed loop has as many users as the sidebar's batch, or the usual number, unless one is
    typed, an open one seven tenths of the highest rate that is sustained.

    Raises:
        RidgelineError: the scenario cannot be priced, or a number that cannot be.
    """
    with st.container(horizontal=True, vertical_alignment="bottom"):
        name = load_kind("concurrency", "rate")
        place = st.container(width=150)
    if name == "concurrency":
        batch = setup.scenario.batch
        usual = float(batch if batch > 1 else USUAL_USERS)
        empty = f"the sidebar's batch, {USUAL_USERS} where it is 1"
        shown = f"{usual:,.0f}"
    else:
        usual, empty = USUAL_SHARE * load_curves.highest_rate(setup), "70 % of the highest rate"
        shown = quantities.digits(usual)
    help_ = f"{PARAMETERS[name].help} Empty: {empty}."
    return Load(name, float(control(name, place, placeholder=shown, help=help_) or usual))
