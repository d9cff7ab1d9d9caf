"""The tab Simulate of page Serving: traffic in, requests served one by one, their latencies."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from app.charts import simulation as charts
from app.dashboard import cached, export
from app.dashboard.job_progress import is_running, show_progress, submitted
from app.dashboard.panels import simulation_pools
from app.dashboard.widgets import card
from app.jobs import SIMULATING
from app.scenario.setup import Setup
from app.simulation import rows, trace_file
from app.simulation.offered_load import OfferedLoad
from app.simulation.run import ROUTERS, Run, Settings, run, run_setup
from app.wording import quantities
from app.wording.markdown import plain
from genz_core.deployment import recipe_key
from genz_core.errors import InvalidValue, RidgelineError
from genz_core.serving.simulation import Options
from hardware_db import recipes

CLOSED, OPEN, TRACE = "Closed loop", "Arrival rate", "Trace file"
JOB, RESULT = "simulation", "simulated"
#: Requests, and pieces of prompts, that are simulated while the page waits: a second or two.
_AT_ONCE, _PIECE_TOKENS = 5000, 4096
_MOST_MB = 200


def simulation_panel(setup: Setup) -> None:
    """Draw the form, run what it asks, and show the last simulation of this session."""
    st.caption(
        "Requests go through the engine's scheduler one by one: chunked prompts, the KV cache, "
        "preemption, prefix reuse. The curves of the other tab are a formula for the mean of the "
        "same; here are percentiles."
    )
    kind = st.segmented_control(
        "Traffic", [CLOSED, OPEN, TRACE], default=CLOSED, required=True, key="sim_traffic",
        bind="query-params",
    )  # fmt: skip
    settings = _form(kind)
    if settings and not is_running(JOB):
        _start(setup, settings)
    if is_running(JOB):
        show_progress(JOB, "simulation")
    _take_job()
    shown = st.session_state.get(RESULT)
    if shown is None:
        st.info("Nothing is simulated yet in this session.", icon=":material/play_arrow:")
        return
    asked, answer = shown
    if asked != setup:
        st.info("Of an earlier scenario: press Simulate for this one.", icon=":material/history:")
    _show(asked, answer)


# ------------------------------------------------------------------------------- the form


def _form(kind: str) -> Settings | None:
    """Draw the form; returns what to simulate, None before it is sent or where it is wrong."""
    with st.form("sim_form"):
        load, upload = _traffic(kind)
        if kind != TRACE:
            load |= _lengths()
        targets = _target_fields()
        with st.expander("Engine, router, seed", icon=":material/tune:"):
            options, router, replicas, seed = _engine()
        drafts, pool = simulation_pools.draft_fields(), simulation_pools.pool_fields()
        sent = st.form_submit_button(
            "Simulate", icon=":material/play_arrow:", type="primary", disabled=is_running(JOB)
        )
    if not sent:
        return None
    try:
        if kind == TRACE:
            load["trace"] = _trace(upload, load["requests"])
        load["seed"] = seed if kind != TRACE else 0
        more = simulation_pools.pools(drafts, pool)
        return Settings(OfferedLoad(**load), options, replicas, router, targets, **more)
    except RidgelineError as error:
        st.error(plain(error), icon=":material/error:")
        return None


def _traffic(kind: str) -> tuple[dict[str, Any], Any]:
    """Draw the fields of a kind of traffic; returns those of `OfferedLoad`, and an upload."""
    if kind == TRACE:
        upload = st.file_uploader(
            "Trace", key="sim_trace", max_upload_size=_MOST_MB,
            help="CSV or JSON lines, also packed with gzip: arrival_s, input_tokens and "
            "output_tokens a row, or the columns of Azure's and Mooncake's public traces.",
        )  # fmt: skip
        first = st.number_input(
            "Requests", 0, trace_file.MOST_REQUESTS, 0, key="sim_first", width=180,
            help="The first of the file; 0: all of them.",
        )  # fmt: skip
        return {"requests": int(first)}, upload
    with st.grid(5, min_column_width=150):
        if kind == CLOSED:
            users = st.number_input(
                "Concurrency", 1, 100_000, 32, key="sim_users", bind="query-params",
                help="Open requests; with several turns, open sessions.",
            )  # fmt: skip
            load: dict[str, Any] = {"concurrency": int(users)}
        else:
            load = _rate()
        load["requests"] = int(st.number_input(
            "Requests", 0, 1_000_000, 0, key="sim_requests",
            help="0: ten a slot of a closed loop, 1,000 at a rate.",
        ))  # fmt: skip
    return load, None


def _rate() -> dict[str, Any]:
    rate = st.number_input(
        "Rate [requests/s]", 1e-3, 1e6, 2.0, key="sim_rate", bind="query-params", format="%.3g"
    )
    burstiness = st.number_input(
        "Burstiness", 0.01, 1000.0, 1.0, key="sim_burstiness", format="%.3g",
        help="Shape of the gamma-distributed gaps: 1 is Poisson, less is burstier.",
    )  # fmt: skip
    ramp_to = st.number_input(
        "Ramp to [requests/s]", 0.0, 1e6, 0.0, key="sim_ramp_to", format="%.3g",
        help="The rate climbs linearly to this one; 0: it stays.",
    )  # fmt: skip
    ramp_s = st.number_input("Ramp seconds", 0.0, 1e6, 0.0, key="sim_ramp_s", format="%.3g")
    return {"rate": rate, "burstiness": burstiness, "ramp_to": ramp_to, "ramp_s": ramp_s}


def _lengths() -> dict[str, Any]:
    """Draw how lengths are drawn and what prompts share; returns the fields of `OfferedLoad`."""
    scenario = st.session_state["setup"].scenario
    with st.grid(5, min_column_width=150):
        ratio = st.number_input(
            "Shortest length", 0.05, 1.0, 0.8, 0.05, key="sim_ratio",
            help="Lengths are uniform between this share of the sidebar's and all of them. At 1 "
            "all are equal, and a closed loop then serves them in waves.",
        )  # fmt: skip
        spread = st.number_input(
            "Spread", 0.0, 10.0, 0.0, 0.1, key="sim_spread",
            help="Above 0, lengths are lognormal instead: standard deviation over mean.",
        )  # fmt: skip
        turns = st.number_input("Turns of a session", 1, 100, 1, key="sim_turns")
        think_s = st.number_input("Think time [s]", 0.0, 1e6, 0.0, key="sim_think", format="%.3g")
        shared = st.number_input(
            "Shared prompt [tokens]", 0, 1_000_000, 0, key="sim_shared",
            help="A system prompt before every conversation, on top of the input tokens.",
        )  # fmt: skip
    return {
        "isl": scenario.isl,
        "osl": scenario.osl,
        "length_ratio": 1.0 if spread else ratio,
        "length_spread": spread,
        "turns": int(turns),
        "think_s": think_s if turns > 1 else 0.0,
        "shared_tokens": int(shared),
    }


def _target_fields() -> dict[str, float]:
    """Draw the targets; returns seconds by latency, 0 where there is none."""
    labels = {
        "ttft_s": ("TTFT target [ms]", 1e-3),
        "tpot_s": ("TPOT target [ms]", 1e-3),
        "e2e_s": ("E2E target [s]", 1.0),
    }
    with st.grid(5, min_column_width=150):
        return {
            name: unit * st.number_input(
                label, 0.0, 1e6, 0.0, key=f"sim_target_{name}", format="%.4g",
                help="Requests within every target are goodput; 0: none.",
            )
            for name, (label, unit) in labels.items()
        }  # fmt: skip


def _engine() -> tuple[Options, str, int, int]:
    """Draw what an operator sets; returns options, router, replicas and the seed."""
    with st.grid(4, min_column_width=150):
        sequences = st.number_input(
            "Most sequences", 0, 1_000_000, 0, key="sim_sequences",
            help="Of a step and rank; 0: the engine's default.",
        )  # fmt: skip
        budget = st.number_input(
            "Token budget", 0, 10**7, 0, key="sim_budget",
            help="Tokens of a step and rank; 0: the engine's default.",
        )  # fmt: skip
        fraction = st.number_input(
            "Memory fraction", 0.0, 1.0, 0.0, 0.01, key="sim_fraction",
            help="Of a device; 0: the engine's default.",
        )  # fmt: skip
        kv = st.number_input(
            "KV tokens", 0, 10**10, 0, key="sim_kv",
            help="That the cache of a rank holds; 0: what fits.",
        )  # fmt: skip
        router = st.selectbox("Router", ROUTERS, index=1, key="sim_router",
                              format_func=lambda name: name.replace("_", " "))  # fmt: skip
        replicas = st.number_input("Replicas", 1, 256, 1, key="sim_replicas")
        seed = st.number_input("Seed", 0, 2**31, 0, key="sim_seed")
        caching = st.toggle("Prefix caching", value=True, key="sim_caching")
    options = Options(
        max_num_seqs=int(sequences),
        max_num_batched_tokens=int(budget),
        memory_fraction=float(fraction),
        kv_tokens=float(kv),
        prefix_caching=caching,
    )
    return options, str(router), int(replicas), int(seed)


def _trace(upload: Any, first: int) -> trace_file.Trace:
    """The requests of an upload.

    Raises:
        InvalidValue: there is none, or it is no trace.
    """
    if upload is None:
        raise InvalidValue("upload a trace first: CSV or JSON lines")
    return trace_file.parse(io.BytesIO(upload.getvalue()), upload.name, first)


# ------------------------------------------------------------------------------- running


def _start(setup: Setup, settings: Settings) -> None:
    """Simulate at once, or start a job where that takes long."""
    if _pieces(settings.load) > _AT_ONCE:
        submitted(JOB, run_setup, (setup, settings), "Simulating", SIMULATING)
        st.rerun()
    try:
        with st.spinner("Simulating …"):
            answer = run(cached.resolved(setup), settings)
    except RidgelineError as error:
        st.error(plain(error), icon=":material/error:")
        return
    st.session_state[RESULT] = (setup, answer)


def _pieces(load: OfferedLoad) -> float:
    """Requests of a load, and the pieces that their prompts are read in."""
    if isinstance(load.trace, trace_file.Trace):
        requests = load.trace.requests
        return len(requests) + float(requests.input_tokens.sum()) / _PIECE_TOKENS
    prompt = load.shared_tokens + load.isl * load.turns
    return load.count * (1.0 + prompt / _PIECE_TOKENS)


def _take_job() -> None:
    """Show what became of the job, once."""
    job = st.session_state.get(JOB)
    if job is None or not job.over:
        return
    del st.session_state[JOB]
    if job.error:
        st.error(plain(job.error), icon=":material/error:")
    else:
        st.session_state[RESULT] = job.result


# ------------------------------------------------------------------------------- results


def _show(setup: Setup, answer: Run) -> None:
    """Draw the figures, charts, table and downloads of a simulation."""
    named = rows.figures(answer)
    st.caption(_words(answer, named))
    for sentence in answer.refusals:
        st.warning(plain(sentence), icon=":material/warning:")
    _cards(named)
    figures = _charts(answer)
    st.subheader("Latencies", anchor=False)
    table = pd.DataFrame(rows.latency_rows(answer))
    st.dataframe(_in_words(table), hide_index=True, key="sim_latencies", height="auto")
    for note in answer.notes:
        st.caption(f"Note: {plain(note)}.")
    _forget_button(answer)
    _downloads(answer, figures, table, setup)


def _words(answer: Run, named: Mapping[str, Any]) -> str:
    load = answer.settings.load
    if load.concurrency:
        asked = f"{load.concurrency:,} open requests"
    elif load.rate:
        ramp = f" climbing to {load.ramp_to:g}" if load.ramp_to else ""
        asked = f"{load.rate:g}{ramp} requests/s"
    else:
        asked = plain(answer.drawn.name)
    return (
        f"{asked} · {named['requests']:,} requests in {quantities.seconds(named['seconds'])} · "
        f"{named['steps']:,} steps · {named['preemptions']:,} preemptions"
        + (f" · {quantities.percent(named['cached_share'])} of the prompts from the cache"
           if named["cached_share"] else "")
    )  # fmt: skip


def _cards(named: Mapping[str, Any]) -> None:
    with st.grid(5, min_column_width=150):
        for name, label in rows.LATENCIES.items():
            if name in ("ttft", "tpot", "e2e"):
                card(
                    f"{label}, median",
                    quantities.seconds(named[f"{name}_p50_s"]),
                    f"p99: {quantities.seconds(named[f'{name}_p99_s'])}",
                )
        card(
            "Throughput per device",
            quantities.tokens_rate(named["output_tokens_per_s_per_device"]),
            f"{named['requests_per_s']:.3g} requests/s in all",
        )
        if "good_share" in named:
            card(
                "Goodput",
                quantities.percent(named["good_share"]),
                f"{named['good_requests_per_s']:.3g} requests/s in target",
            )


def _charts(answer: Run) -> dict[str, Any]:
    """Draw every chart; returns them by name."""
    look, simulation, targets = export.look(), answer.simulation, answer.settings.targets
    figures = {"course": charts.course(simulation.series, look)}
    export.chart(figures["course"], "sim-course", "Queue, cache and preemptions over time")
    for name, label in (("ttft_s", "TTFT"), ("tpot_s", "TPOT")):
        windows = rows.over_time(simulation, name)
        figures[f"{label} over time"] = charts.over_time(
            windows, label, targets.get(name, 0.0), look
        )
    left, right = st.columns(2, gap="medium")
    with left:
        export.chart(figures["TTFT over time"], "sim-ttft", "Percentiles of TTFT over time")
    with right:
        export.chart(figures["TPOT over time"], "sim-tpot", "Percentiles of TPOT over time")
    groups = {"TTFT": ("ttft_s",), "TPOT and ITL": ("tpot_s", "itl_s"), "E2E": ("e2e_s",)}
    latencies = simulation.latencies()
    with st.grid(3, min_column_width=300):
        for title, names in groups.items():
            curves = {
                rows.LATENCIES[name[:-2]]: rows.distribution(*latencies[name]) for name in names
            }
            lines = [targets[name] for name in names if name in targets]
            figure = charts.cumulative(curves, lines, f"Distribution of {title}", look)
            figures[f"distribution of {title}"] = figure
            key = f"sim-cdf-{names[0][:-2]}"
            export.chart(figure, key, f"Cumulative distribution of {title}")
    return figures


def _in_words(table: pd.DataFrame) -> pd.DataFrame:
    """The table with latencies in words, its columns without their unit."""
    shown = table.rename(columns=lambda name: name.removesuffix("_s"))
    names = shown.columns[1:]
    return shown.assign(**{name: shown[name].map(quantities.seconds) for name in names})


def _forget_button(answer: Run) -> None:
    if answer.kept_scale is None:
        return
    if st.button("Forget the calibration", key="sim_forget", icon=":material/delete:"):
        resolved = answer.resolved
        key = recipe_key(resolved.engine, resolved.model, resolved.system)
        recipes.forget_step_scale(key, resolved.scenario.parallelism)
        cached.clear_stale_caches()
        st.info("Forgotten: simulate again.", icon=":material/info:")


def _downloads(answer: Run, figures: Mapping[str, Any], table: pd.DataFrame, setup: Setup) -> None:
    """Draw the buttons that save every request, and those of charts and scenario."""

    def requests() -> pd.DataFrame:
        return pd.DataFrame(rows.request_columns(answer))

    def parquet() -> bytes:
        return requests().to_parquet(index=False)

    with st.container(horizontal=True):
        st.download_button(
            "Requests (CSV)", lambda: requests().to_csv(index=False), "requests.csv", "text/csv",
            on_click="ignore", icon=":material/download:", key="sim_csv",
        )  # fmt: skip
        st.download_button(
            "Requests (Parquet)", parquet, "requests.parquet", "application/vnd.apache.parquet",
            on_click="ignore", icon=":material/download:", key="sim_parquet",
        )  # fmt: skip
        export.downloads("simulation", figures, table, setup)
