"""Inputs of page Plan: systems, load and targets in a row, everything else folded away."""

from __future__ import annotations

from dataclasses import dataclass, replace

import streamlit as st

import hardware_db
from app.dashboard import near_names, own_definitions
from app.decide.asked import Asked
from app.planning.ask import device_range
from app.planning.space import KINDS
from app.planning.targets import FIGURES
from app.scenario.load_options import OFFLOADS
from app.scenario.request_shape import TIERS, RequestShape
from app.scenario.setup import Setup
from genz_core.errors import InvalidValue, RidgelineError

RATE, USERS = "Arrivals", "Open requests"
_STATISTICS = ("mean", "p50", "p90", "p95", "p99")
FORMATS = ("as checkpoint", "bf16", "fp8", "fp8_block", "int8", "int4", "mxfp4", "nvfp4")
_SPECULATION = ("mtp", "ngram", "eagle")
_MOST_SYSTEMS = 12


@dataclass(frozen=True, slots=True)
class _Load:
    """How much is asked: "rate" [requests/s] or "concurrency" [open requests], and its amount."""

    kind: str
    amount: float


def asked(setup: Setup) -> Asked:
    """Draw the inputs; returns the question, the sidebar's model and lengths in it.

    Raises:
        RidgelineError: what was typed cannot be.
    """
    with st.container(horizontal=True, vertical_alignment="bottom"):
        systems = chosen_systems("plan_systems", setup)
        load = _load()
    targets = _targets()
    with st.expander("Search, formats, rent", icon=":material/tune:", key="plan_more"):
        more = _more(targets)
        rents = _rents(systems)
    s = setup.scenario
    return replace(
        more,
        model=s.model, model_config=setup.model_config, systems=named_systems(systems),
        load=load.kind, amount=load.amount, isl=s.isl, osl=s.osl, prices=rents,
        own_folder=setup.own_folder, own_edition=setup.own_edition,
    )  # fmt: skip


def chosen_systems(key: str, setup: Setup, most: int = _MOST_SYSTEMS) -> list[str]:
    """Draw the box of systems; returns the chosen ones, the sidebar's where none is."""
    names = [*own_definitions.own_texts("systems"), *hardware_db.names()]
    typed = st.query_params.get_all(key)
    if any("," in text for text in typed):  # "a,b,c" as well as "a" and "b" and "c"
        named = [name.strip() for text in typed for name in text.split(",")]
        st.query_params[key] = [name for name in named if name in names]
        st.rerun()
    chosen = st.multiselect(
        "Systems", names, key=key, bind="query-params", max_selections=most, width=420,
        select_all=False, accept_new_options=True, on_change=near_names.take_firsts,
        args=(key, "system", names),
        placeholder=f"as in the sidebar: {setup.scenario.system}",
        help="What could be rented or bought; none: the sidebar's system.",
    )  # fmt: skip
    return [str(name) for name in chosen] or [setup.scenario.system]


def named_systems(names: list[str]) -> tuple[tuple[str, str], ...]:
    """Systems with the text of the visitor's own ones."""
    own = own_definitions.own_texts("systems")
    return tuple((name, own.get(name, "")) for name in names)


def slug_of(name: str, text: str) -> str:
    """The slug of a system that is named, or described by the text of a visitor's YAML."""
    return hardware_db.load_yaml(text).slug if text else hardware_db.load(name).slug


def _load() -> _Load:
    kind = st.segmented_control(
        "Load", [RATE, USERS], default=RATE, required=True, key="plan_load", bind="query-params",
        help="Arrivals: requests per second of the whole deployment, whoever waits. Open requests: "
        "users who each wait for an answer before they ask again.",
    )  # fmt: skip
    if kind == USERS:
        users = st.number_input(
            "Open requests", 1, 1_000_000, 64, key="plan_users", bind="query-params", width=150
        )
        return _Load("concurrency", float(users))
    rate = st.number_input(
        "Requests per second", 1e-3, 1e6, 10.0, step=1.0, key="plan_rate", bind="query-params",
        format="%.4g", width=150,
    )  # fmt: skip
    return _Load("rate", rate)


def _targets() -> str:
    """Draw the targets; returns their text as the planner reads it."""
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
    return ", ".join(f"{name} < {value}" for name, value in named)


def _more(targets: str) -> Asked:
    """Draw what is folded away; returns a question of it alone."""
    with st.grid(4, min_column_width=190):
        devices = st.text_input(
            "Devices", "1:64", key="plan_devices", bind="query-params", help="Least and most: 1:64."
        )
        engines = st.multiselect(
            "Engines", hardware_db.engine_names(), key="plan_engines", bind="query-params",
            placeholder="those that run there",
        )  # fmt: skip
        weights = st.multiselect(
            "Weights", FORMATS, key="plan_weights", bind="query-params",
            placeholder="as checkpoint", help="Another format is another quality: check answers.",
        )  # fmt: skip
        kinds = st.multiselect(
            "Kinds", KINDS, key="plan_kinds", bind="query-params", placeholder="aggregated",
            help="Disaggregated: prompts have workers of their own. Nothing measured validates it.",
        )  # fmt: skip
        drafts = st.multiselect(
            "Speculation", _SPECULATION, key="plan_drafts", bind="query-params",
            placeholder="none", help="Tried beside none.",
        )  # fmt: skip
        rank = st.selectbox(
            "Rank by", ("cost", *FIGURES), key="plan_rank", bind="query-params",
            help="Cost, or devices where nothing is priced. Figures are called as in targets.",
        )  # fmt: skip
        confidence = st.number_input(
            "Least probability [%]", 0.0, 99.9, 0.0, 5.0, key="plan_confidence",
            bind="query-params", help="That all targets are met; what nothing validates has none.",
        )  # fmt: skip
        ratio = st.number_input(
            "Shortest length", 0.05, 1.0, 1.0, 0.05, key="plan_ratio", bind="query-params",
            help="Lengths are uniform between this share of the sidebar's and all of them.",
        )  # fmt: skip
    shape, lora, offload = _sharing()
    simulate = st.toggle(
        "Simulate the best", key="plan_simulate", bind="query-params",
        help="Request by request, for percentiles; always where a target is on one.",
    )  # fmt: skip
    where = st.toggle(
        "Where drafts and pools pay", key="plan_pays", bind="query-params",
        help="Also compares them by load with doing without; takes some seconds.",
    )  # fmt: skip
    extra = st.text_input(
        "More targets", key="plan_targets", bind="query-params",
        placeholder="ttft_p99 < 1s, joules_per_token < 2, output_tokens_per_s > 5000",
    )  # fmt: skip
    return Asked(
        model="", systems=(), target=", ".join(filter(None, (targets, extra))),
        rank="" if rank == "cost" else str(rank), confidence=confidence / 100.0,
        simulate=simulate, pays=where,
        length_ratio=ratio, devices=_range(devices), engines=tuple(engines),
        weights=tuple("" if w == FORMATS[0] else w for w in weights) or ("",),
        kinds=tuple(kinds) or ("aggregated",), speculation=tuple(drafts),
        shape=shape, lora=lora, offload=offload,
    )  # fmt: skip


def _sharing() -> tuple[RequestShape, tuple[int, int], tuple[str, ...]]:
    """Draw what requests share, their adapters, and what the host may hold.

    Raises:
        InvalidValue: what contradicts each other.
    """
    with st.grid(4, min_column_width=190):
        hits = st.number_input(
            "Prefix hits [%]", 0.0, 99.0, 0.0, 5.0, key="plan_hits", bind="query-params",
            help="Share of every prompt that is found in the cache and not read again.",
        )  # fmt: skip
        shared = st.number_input(
            "Shared prompt [tokens]", 0, 10_000_000, 0, key="plan_shared", bind="query-params",
            help="All requests start with it, on top of the sidebar's input.",
        )  # fmt: skip
        turns = st.number_input(
            "Turns of a session", 1, 1000, 1, key="plan_turns", bind="query-params",
            help="Each prompt repeats what was said, which is found in the cache.",
        )  # fmt: skip
        tier = st.selectbox(
            "Prefixes lie on the", TIERS, key="plan_tier", bind="query-params",
            help="Those on the host come over its link before the rest of a prompt is read.",
        )  # fmt: skip
        samples = st.number_input(
            "Answers to a prompt", 1, 1024, 1, key="plan_samples", bind="query-params",
            help="Parallel sampling: all are wanted, and share the prompt's cache.",
        )  # fmt: skip
        beams = st.number_input(
            "Beams", 1, 1024, 1, key="plan_beams", bind="query-params",
            help="Of a beam search: one answer is wanted, as many are written.",
        )  # fmt: skip
        rank = st.number_input(
            "LoRA rank", 0, 4096, 0, key="plan_lora_rank", bind="query-params", help="0: none."
        )
        adapters = st.number_input(
            "LoRA adapters", 1, 10_000, 1, key="plan_lora_adapters", bind="query-params",
            help="That requests name, evenly, unmerged and in one batch.",
        )  # fmt: skip
        offload = st.multiselect(
            "Offload", OFFLOADS, key="plan_offload", bind="query-params", placeholder="nothing",
            help="To the host where a device is full; tried beside nothing there.",
        )  # fmt: skip
    shape = RequestShape(hits / 100.0, int(shared), int(turns), str(tier), int(samples), int(beams))
    lora = (int(rank), int(adapters)) if rank else (0, 1)
    return shape, lora, tuple(offload)


def _range(text: str) -> tuple[int, int]:
    if not text.strip():
        raise InvalidValue('devices "": give the least and the most, as 1:64')
    return device_range(text)


def _rents(systems: list[str]) -> tuple[tuple[str, float], ...]:
    """Draw the rent of each system; returns those that differ from what the system states."""
    changed = []
    with st.grid(4, min_column_width=190):
        for name in systems:
            stated = _stated(name)
            rent = st.number_input(
                f"{name} [$/h]", 0.0, 1e5, stated, 0.1, key=f"plan_rent_{name}",
                help="Rent of a device; stated in the library with its source, 0: not known.",
            )  # fmt: skip
            if rent and rent != stated:
                changed.append((name, rent))
    return tuple(changed)


def _stated(name: str) -> float:
    """The rent that a system states, 0 where it states none or is not known."""
    text = own_definitions.own_texts("systems").get(name)
    try:
        system = hardware_db.load_yaml(text) if text else hardware_db.load(name)
    except RidgelineError:
        return 0.0
    return float(system.price_usd_per_hour or 0.0)
