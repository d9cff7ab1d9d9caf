"""Inputs of page Plan: systems, load and targets in a row, what is searched folded away.

Everything else is the sidebar's: what it says beside the defaults is kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import streamlit as st

import hardware_db
from app.dashboard import own_definitions
from app.dashboard.question_form import control, load_kind, several
from app.decide.axes import ACROSS, UPWARDS
from app.decide.searched import Searched
from app.planning.space import DEGREES, KINDS
from app.planning.targets import FIGURES, parse_targets
from app.question.parameters import PARAMETERS
from app.question.question import STANDARD, Question
from app.question.verbs import parameters_of
from app.scenario.setup import Setup
from app.wording.markdown import plain

#: Toggle that frees the degrees and the engine of the sidebar.
FREE = "plan_free"
#: Parameters of which several values may be tried, by the label of their box.
_AMONG = {"engine": "Engines", "weights": "Weights", "speculation": "Speculation"}
_MOST_SYSTEMS = 12
_FREED = (*DEGREES, "engine", "engine_version", "max_num_seqs")


def searched(setup: Setup) -> Searched:
    """Draw the inputs; returns the sidebar's question with what is searched.

    Raises:
        RidgelineError: what was typed cannot be.
    """
    with st.container(horizontal=True, vertical_alignment="bottom"):
        systems = chosen_systems("plan", setup)
        load = _load(setup.scenario)
        target = control("target", value="tpot < 30ms", width=420)
    with st.expander("Search", icon=":material/tune:", key="plan_more"):
        changed, among = _search(setup.scenario)
    if any(one.figure.latency for one in parse_targets(", ".join(target))):
        changed["simulate"] = True
    question = replace(kept(setup.scenario), **load, **changed, target=target)
    question = freed(question) if _is_freed(question) else question
    if systems != [question.system]:
        among["system"] = tuple(systems)
    return Searched(replace(setup, scenario=question), tuple(among.items()), own_systems())


def kept(question: Question) -> Question:
    """The sidebar's question without what plays no part in a plan, which is said."""
    known = parameters_of("plan")
    idle = [name for name in question.changed() if name not in known and name != "batch"]
    if idle:
        st.caption(f"Plays no part in a plan: {', '.join(idle)}.")
    return replace(question, batch=1, **{name: getattr(STANDARD, name) for name in idle})


def freed(question: Question) -> Question:
    """The question with all degrees and engines to choose among."""
    return replace(question, **{name: getattr(STANDARD, name) for name in _FREED})


def every_load(question: Question) -> Question:
    """The question of one replica at every degree that its devices allow and every load."""
    loop = replace(freed(question), batch=1, rate=None, concurrency=1)
    return replace(loop, pools=KINDS[0], engine_version=question.engine_version)


def _is_freed(question: Question) -> bool:
    """Draw the toggle that frees what the sidebar says of degrees and engine, if it does."""
    said = [
        f"{PARAMETERS[name].label or name} {getattr(question, name)}"
        for name in _FREED
        if getattr(question, name) != getattr(STANDARD, name)
    ]
    if not said:
        return False
    return st.toggle(
        "Also other degrees and engines", key=FREE, bind="query-params",
        help=f"Off: only {plain(', '.join(said))}, as in the sidebar.",
    )  # fmt: skip


def chosen_systems(page: str, setup: Setup, most: int = _MOST_SYSTEMS) -> list[str]:
    """Draw the box of systems; returns the chosen ones, the sidebar's where none is."""
    s = setup.scenario
    chosen = several("system", page, "Systems", s, max_selections=most, width=420)
    return list(chosen) or [s.system]


def chosen_axes(page: str) -> tuple[str, str]:
    """Draw the boxes of a chart's axes; returns a name of `ACROSS` and one of `UPWARDS`."""
    across = st.selectbox("Across", list(ACROSS), format_func=lambda name: ACROSS[name].words,
                          key=f"{page}_x", bind="query-params", width=180)  # fmt: skip
    upwards = st.selectbox("Upwards", list(UPWARDS), format_func=lambda name: UPWARDS[name].words,
                           key=f"{page}_y", bind="query-params", width=200)  # fmt: skip
    return across, upwards


def own_systems() -> tuple[tuple[str, str], ...]:
    """Texts of the visitor's own systems, by name."""
    return tuple(own_definitions.own_texts("systems").items())


def slug_of(name: str, systems: tuple[tuple[str, str], ...]) -> str:
    """The slug of a system that is named, of the visitor's own ones among them."""
    text = dict(systems).get(name)
    return hardware_db.load_yaml(text).slug if text else hardware_db.load(name).slug


def _load(question: Question) -> dict[str, Any]:
    """Draw how much is asked; returns the load, a rate or a concurrency."""
    if load_kind("rate", "concurrency") == "concurrency":
        users = control("concurrency", placeholder=f"{question.batch:,}", width=150)
        return {"rate": None, "concurrency": users or question.batch}
    return {"rate": control("rate", placeholder="10", width=150) or 10.0, "concurrency": None}


def _search(question: Question) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw what is folded away; returns parameters, and values to choose among.

    Raises:
        InvalidValue: a value that cannot be.
    """
    among = {}
    with st.grid(4, min_column_width=190):
        devices = control("devices", value="1:64")
        for name, label in _AMONG.items():
            among[name] = several(name, "plan", label, question)
        pools = control("pools", default=KINDS[0], placeholder="both")
        rank = control("rank", options=list(FIGURES), index=None, placeholder="cost, else devices")
        confidence, top = control("confidence"), control("top")
    changed = {
        "devices": devices, "pools": pools, "rank": rank, "confidence": confidence, "top": top,
        "simulate": control("simulate", value=False), "break_even": control("break_even"),
        "cross_systems": KINDS[1] in (pools or KINDS) and control("cross_systems"),
    }  # fmt: skip
    return changed, {name: values for name, values in among.items() if values}
