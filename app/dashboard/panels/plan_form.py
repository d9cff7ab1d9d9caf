"""Inputs of page Plan: systems, load and targets in a row, what is searched folded away.

Everything else is the sidebar's: what it says beside the defaults is kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import streamlit as st

import hardware_db
from app.dashboard import name_options, near_names, own_definitions
from app.dashboard.question_form import AUTO, DEFAULT_ENGINE, PRECISIONS, control
from app.decide.searched import Searched
from app.planning.space import DEGREES, KINDS
from app.planning.targets import FIGURES, parse_targets
from app.question.parameters import PARAMETERS
from app.question.question import STANDARD, Question
from app.question.typed import words
from app.question.verbs import parameters_of
from app.scenario.setup import Setup
from app.wording.markdown import plain

RATE, USERS = "Arrivals", "Open requests"
#: Toggle that frees the degrees and the engine of the sidebar.
FREE = "plan_free"
FORMATS = (AUTO, *PRECISIONS)
_STATISTICS = ("mean", "p50", "p90", "p95", "p99")
_SPECULATION = ("none", "mtp", "ngram", "eagle")
_MOST_SYSTEMS = 12
_FREED = (*DEGREES, "engine", "engine_version", "max_num_seqs")


def searched(setup: Setup) -> Searched:
    """Draw the inputs; returns the sidebar's question with what is searched.

    Raises:
        RidgelineError: what was typed cannot be.
    """
    with st.container(horizontal=True, vertical_alignment="bottom"):
        systems = chosen_systems("plan_systems", setup)
        load = _load(setup.scenario)
    target = _targets()
    with st.expander("Search", icon=":material/tune:", key="plan_more"):
        changed, several = _search(setup.scenario, target)
    question = replace(kept(setup.scenario), **load, **changed)
    question = freed(question) if _is_freed(question) else question
    if systems != [question.system]:
        several["system"] = tuple(systems)
    return Searched(replace(setup, scenario=question), tuple(several.items()), own_systems())


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


def every_load(question: Question, most: int) -> Question:
    """The question of one replica at every degree of up to `most` devices and every load."""
    loop = replace(freed(question), batch=1, rate=None, concurrency=1)
    return replace(loop, devices=(1, most), pools=KINDS[0], engine_version=question.engine_version)


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


def chosen_systems(key: str, setup: Setup, most: int = _MOST_SYSTEMS) -> list[str]:
    """Draw the box of systems; returns the chosen ones, the sidebar's where none is."""
    names = name_options.systems()
    typed = st.query_params.get_all(key)
    if any("," in text for text in typed):  # "a,b,c" as well as "a" and "b" and "c"
        named = [name.strip() for text in typed for name in text.split(",")]
        st.query_params[key] = [name for name in named if name in names]
        st.rerun()
    chosen = st.multiselect(
        "Systems", names, key=key, bind="query-params", max_selections=most, width=420,
        select_all=False, accept_new_options=True, on_change=near_names.take_all,
        args=(key, "system", names), filter_mode=name_options.FILTER,
        placeholder=f"as in the sidebar: {setup.scenario.system}",
        help="What could be rented or bought; none: the sidebar's system.",
    )  # fmt: skip
    return [str(name) for name in chosen] or [setup.scenario.system]


def chosen_engines(key: str, question: Question) -> tuple[str, ...]:
    """Draw the box of engines; returns the chosen ones, none for the sidebar's."""
    return tuple(st.multiselect(
        "Engines", hardware_db.engine_names(), key=key, bind="query-params", width=260,
        placeholder=f"as in the sidebar: {question.engine or DEFAULT_ENGINE}",
    ))  # fmt: skip


def chosen_weights(key: str, question: Question) -> tuple[str, ...]:
    """Draw the box of weight formats; returns the chosen ones, none for the sidebar's."""
    chosen = st.multiselect(
        "Weights", FORMATS, key=key, bind="query-params", width=260,
        placeholder=f"as in the sidebar: {question.weights or AUTO}",
        help="Another format is another quality: check answers.",
    )  # fmt: skip
    return tuple("" if name == AUTO else name for name in chosen)


def own_systems() -> tuple[tuple[str, str], ...]:
    """Texts of the visitor's own systems, by name."""
    return tuple(own_definitions.own_texts("systems").items())


def slug_of(name: str, systems: tuple[tuple[str, str], ...]) -> str:
    """The slug of a system that is named, of the visitor's own ones among them."""
    text = dict(systems).get(name)
    return hardware_db.load_yaml(text).slug if text else hardware_db.load(name).slug


def _load(question: Question) -> dict[str, Any]:
    """Draw how much is asked; returns the load, a rate or a concurrency."""
    kind = st.segmented_control(
        "Load", [RATE, USERS], default=RATE, required=True, key="plan_load", bind="query-params",
        help="Arrivals: requests per second of the whole deployment, whoever waits. Open requests: "
        "users who each wait for an answer before they ask again.",
    )  # fmt: skip
    if kind == USERS:
        users = st.number_input(
            "Open requests", 1, 1_000_000, None, key="plan_users", bind="query-params", width=150,
            placeholder=f"{question.batch:,}", help="Empty: the sidebar's batch.",
        )  # fmt: skip
        return {"rate": None, "concurrency": int(users or question.batch)}
    rate = st.number_input(
        "Requests per second", 1e-3, 1e6, 10.0, step=1.0, key="plan_rate", bind="query-params",
        format="%.4g", width=150,
    )  # fmt: skip
    return {"rate": rate, "concurrency": None}


def _targets() -> tuple[str, ...]:
    """Draw the targets; returns them as the planner reads them."""
    fields = {
        "ttft": ("TTFT below [ms]", 0.0, "ms"),
        "tpot": ("TPOT below [ms]", 30.0, "ms"),
        "e2e": ("E2E below [s]", 0.0, "s"),
        "usd_per_mtok": ("$ per Mtok out below", 0.0, ""),
    }
    asked_for = []
    with st.grid(5, min_column_width=150):
        for name, (label, value, unit) in fields.items():
            bound = st.number_input(
                label, 0.0, 1e6, value, key=f"plan_{name}", bind="query-params", format="%.4g",
                help="0: no target.",
            )  # fmt: skip
            if bound:
                asked_for.append((name, f"{bound:g}{unit}"))
        statistic = st.selectbox(
            "Latencies as", _STATISTICS, key="plan_statistic", bind="query-params",
            help="Mean or percentile that the targets hold for; percentiles are simulated.",
        )  # fmt: skip
    suffix = "" if statistic == "mean" else f"_{statistic}"
    named = [(n + suffix if n in ("ttft", "tpot", "e2e") else n, v) for n, v in asked_for]
    return tuple(f"{name} < {value}" for name, value in named)


def _search(question: Question, target: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Draw what is folded away; returns parameters, and values to choose among.

    Raises:
        InvalidValue: a target that cannot be.
    """
    with st.grid(4, min_column_width=190):
        devices = st.text_input(
            "Devices", "1:64", key="plan_devices", bind="query-params",
            help=PARAMETERS["devices"].help,
        )  # fmt: skip
        engines = chosen_engines("plan_engines", question)
        weights = chosen_weights("plan_weights", question)
        kinds = st.multiselect(
            "Kinds", KINDS, key="plan_kinds", bind="query-params", placeholder="aggregated",
            help="Disaggregated: prompts have workers of their own. Nothing measured validates it.",
        )  # fmt: skip
        drafts = st.multiselect(
            "Speculation", _SPECULATION, key="plan_drafts", bind="query-params",
            placeholder=f"as in the sidebar: {question.speculation or 'none'}",
            help="Ways to draft to choose among; none: without drafts.",
        )  # fmt: skip
        rank = st.selectbox(
            "Rank by", ("cost", *FIGURES), key="plan_rank", bind="query-params",
            help="Cost, or devices where nothing is priced. Figures are called as in targets.",
        )  # fmt: skip
        confidence = st.number_input(
            "Least probability [%]", 0.0, 99.9, 0.0, 5.0, key="plan_confidence",
            bind="query-params", help="That all targets are met; what nothing validates has none.",
        )  # fmt: skip
        top = control("top", label="Plans shown", key="plan_top")
    simulate = st.toggle(
        "Simulate the best", key="plan_simulate", bind="query-params",
        help="Request by request, for percentiles; always where a target is on one.",
    )  # fmt: skip
    where = st.toggle(
        "Where drafts and pools pay", key="plan_pays", bind="query-params",
        help="Also compares them by load with doing without; takes some seconds.",
    )  # fmt: skip
    across = KINDS[1] in kinds and control(
        "cross_systems", label="Prompts on another system", key="plan_cross_systems"
    )
    extra = st.text_input(
        "More targets", key="plan_targets", bind="query-params",
        placeholder="ttft_p99 < 1s, joules_per_token < 2, output_tokens_per_s > 5000",
    )  # fmt: skip
    target = (*target, *words(extra))
    on_percentiles = any(one.figure.percentile for one in parse_targets(", ".join(target)))
    changed = {
        "devices": devices.strip() or "none", "pools": ",".join(kinds) or KINDS[0],
        "rank": "" if rank == "cost" else str(rank), "confidence": confidence / 100.0,
        "simulate": simulate or on_percentiles, "break_even": where, "target": target,
        "top": top, "cross_systems": across,
    }  # fmt: skip
    several: dict[str, Any] = {"engine": engines, "weights": weights}
    several["speculation"] = tuple("" if name == "none" else name for name in drafts)
    return changed, {name: values for name, values in several.items() if values}
