"""A point of a chart, or a measured deployment, becomes the scenario in the sidebar."""

from collections.abc import Iterable, Mapping
from typing import Any

import streamlit as st

import hardware_db
from app.dashboard.question_form import set_controls
from app.planning.families import Family
from app.planning.plan_text import shape
from app.planning.space import DEGREES
from app.wording.markdown import plain

_WORDS, _NEXT = "opened_words", "next_scenario"
#: Differences between curves of one chart, besides system, engine and degrees.
_ASKED = ("model", "isl", "osl", "weights", "engine_version")


def scenario_of(
    row: Mapping[str, Any], family: Family, systems: Iterable[tuple[str, str]]
) -> dict[str, Any]:
    """The sidebar's fields of a deployment of a family: one replica with its share of the load.

    row: of `app.planning.document.deployment_row`.  systems: texts of the visitor's own, by name.
    """
    question, running = family.question, row["running"] or row["replicas"]
    own = {hardware_db.load_yaml(text).slug: name for name, text in systems}
    return {
        "system": own.get(family.system.slug, question.system),
        "engine": row["engine"],
        **{name: int(row[name]) for name in DEGREES},
        "batch": max(round(running / row["replicas"]), 1),
        **{name: getattr(question, name) for name in _ASKED},
    }


def clicked(key: str) -> list[Any]:
    """The custom data of the point that was clicked in a chart, [] for none; for callbacks."""
    points = (st.session_state.get(key) or {}).get("selection", {}).get("points", [])
    custom = points[0].get("customdata") if points else None
    return custom if isinstance(custom, list) else []


def open_as_scenario(
    row: Mapping[str, Any], family: Family, systems: Iterable[tuple[str, str]]
) -> None:
    """Set the sidebar's controls to `scenario_of` when it is drawn next; a callback."""
    fields = scenario_of(row, family, systems)
    one = shape({**row, "replicas": 1})
    st.session_state[_NEXT] = fields
    st.session_state[_WORDS] = f"{one} with {fields['batch']:,} users, {family}"


def opened_words() -> str:
    """A sentence on the point that was opened, "" for none."""
    words = st.session_state.get(_WORDS)
    return f"Opened as the scenario: **{plain(words)}**. " if words else ""


def draw_opened() -> None:
    """Draw the whole page again after a click in a fragment: the sidebar is not part of it."""
    if _NEXT in st.session_state:
        st.rerun()


def set_at_next_run(fields: Mapping[str, Any]) -> None:
    """Draw the whole page again with these fields of the sidebar; from within a page."""
    st.session_state[_NEXT] = dict(fields)
    st.rerun()


def take_next() -> None:
    """Set what a click or `set_at_next_run` left, before the sidebar is drawn."""
    set_controls(st.session_state.pop(_NEXT, {}))
