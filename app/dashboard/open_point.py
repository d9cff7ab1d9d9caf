"""A point of a chart or what ran becomes the scenario: its controls in the sidebar are set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app.dashboard.question_form import set_controls

_OPENED = "opened_point"
_NEXT = "next_scenario"
#: Fields of a deployment that the sidebar has a control for.
FIELDS = ("system", "engine", "tp", "pp", "dp", "ep", "batch", "weights")


def scenario_of(row: Mapping[str, Any], system: str, weights: str) -> dict[str, Any]:
    """The sidebar's fields of a planned deployment: one replica with its share of the load.

    row: of `app.planning.document.deployment_row`.  system: its name in the sidebar.
    weights: as asked, "" for the checkpoint's.
    """
    running = row["running"] or row["replicas"]
    return {
        "system": system,
        "engine": row["engine"],
        **{name: int(row[name]) for name in ("tp", "pp", "dp", "ep")},
        "batch": max(round(running / row["replicas"]), 1),
        "weights": weights or "as checkpoint",
    }


def open_as_scenario(fields: Mapping[str, Any]) -> None:
    """Set the sidebar's controls; only from a callback, before the sidebar is drawn."""
    set_controls({name: fields[name] for name in FIELDS if name in fields})
    st.session_state[_OPENED] = True


def draw_opened() -> None:
    """Draw the whole page again after a click in a fragment: the sidebar is not part of it."""
    if st.session_state.pop(_OPENED, False):
        st.rerun()


def set_at_next_run(fields: Mapping[str, Any]) -> None:
    """Draw the whole page again with these fields of the sidebar; from within a page."""
    st.session_state[_NEXT] = dict(fields)
    st.rerun()


def take_next() -> None:
    """Set what `set_at_next_run` left, before the sidebar is drawn."""
    set_controls(st.session_state.pop(_NEXT, {}))
