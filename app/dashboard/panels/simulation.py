"""The part Simulate of page Answer: traffic in, requests simulated one by one, their latencies."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st

from app.answers.columns import COLUMNS
from app.charts import simulation as charts
from app.dashboard import caches, export, traces
from app.dashboard.display_tables import rows_in_words
from app.dashboard.job_progress import is_running, kept_result, start
from app.dashboard.page_texts import page_text
from app.dashboard.widgets import card, draw_table, say_each, saying_errors
from app.jobs import SIMULATING
from app.planning.targets import judged, parse_targets, verdicts
from app.question.groups import LOAD, PRICES
from app.question.parameters import PARAMETERS
from app.question.query import Query, ask
from app.question.question import Question
from app.question.validity import tiers_of
from app.question.verbs import LEFT_OUT, parameters_of
from app.scenario.description import load_words
from app.scenario.setup import Setup
from app.simulation import offered_load, rows, trace_file
from app.simulation.run import Run, run, run_setup
from app.wording import quantities
from app.wording.markdown import plain
from genz_core.deployment import recipe_key
from hardware_db import recipes

JOB, RESULT = "simulation", "simulated"
#: Requests, and chunks of prompts, that are simulated while the page waits: a second or two.
_AT_ONCE, _PIECE_TOKENS = 5000, 4096


def simulation_panel(setup: Setup) -> None:
    """Draw the form, run its simulation, and show the last simulation of this session."""
    st.caption(page_text("simulation"))
    left = (name for name in setup.scenario.changed() if name in LEFT_OUT["simulate"])
    if unused := [name for name in left if PARAMETERS[name].group not in (LOAD, PRICES)
                  and name != "target"]:  # fmt: skip
        st.caption(f"Not simulated: {', '.join(unused)}.")
    if st.button(
        "Simulate", icon=":material/play_arrow:", type="primary", disabled=is_running(JOB)
    ):
        with saying_errors():
            _start(setup, query_of(setup.scenario))
    if shown := kept_result(JOB, RESULT, setup):
        _show(*shown)


def query_of(scenario: Question, verb: str = "simulate") -> Query:
    """A simulation's input: a static batch as that many users, a trace with its requests.

    Raises:
        RidgelineError: it cannot be simulated.
    """
    known = parameters_of(verb)
    paid = verb != "simulate" or bool(tiers_of(scenario))  # there for the worth of tiers alone
    kept = {
        name: value
        for name, value in scenario.changed().items()
        if name in known and (paid or PARAMETERS[name].group != PRICES)
    }
    if scenario.kind == "trace":
        kept["trace"] = traces.keyed(scenario.requests or 0)[1]
        kept = {name: value for name, value in kept.items() if name not in ("isl", "osl")}
    elif scenario.kind == "batch":
        kept["concurrency"] = scenario.batch
    return ask(verb, {"model": scenario.model} | kept)


def _start(setup: Setup, query: Query) -> None:
    """Simulate immediately, or start a job if it takes long."""
    if _pieces(query) > _AT_ONCE:
        work = (setup, query.question, query.objects)
        start(JOB, run_setup, work, "Simulating", SIMULATING)
    with st.spinner("Simulating …"):
        resolved = caches.resolved(replace(setup, scenario=query.question))
        st.session_state[RESULT] = (setup, run(resolved, query.objects))


def _pieces(query: Query) -> float:
    """Requests of a load, and the chunks of their prompts."""
    trace, q = query.objects.get("trace"), query.question
    if isinstance(trace, trace_file.Trace):
        requests = trace.requests
        return len(requests) + float(requests.input_tokens.sum()) / _PIECE_TOKENS
    return offered_load.sent(q) * (1.0 + (q.shared_tokens + q.isl * q.turns) / _PIECE_TOKENS)


def _show(setup: Setup, answer: Run) -> None:
    named = rows.figures(answer)
    q = answer.question
    load = plain(answer.drawn.name) if q.kind == "trace" else load_words(q)
    hits = page_text("hits of prompts", **named) if named["cached_share"] else ""
    window = "" if answer.simulation.counted.all() else ", start and end left out"
    st.caption(page_text("simulated", load=load, hits=hits, window=window, **named))
    say_each(answer.refusals, st.warning, icon=":material/warning:")
    targets = judged(parse_targets(", ".join(setup.scenario.target)), setup.scenario.osl)
    say_each(verdicts(targets, named))
    _cards(named)
    figures = _charts(answer)
    st.subheader("Latencies", anchor=False)
    latencies = rows.latency_rows(answer)
    draw_table(rows_in_words(latencies), "sim_latencies", height="auto")
    say_each(answer.notes, st.caption, "Note: {}.")
    _forget_button(answer)
    _downloads(answer, figures, pd.DataFrame(latencies), setup)


def _cards(named: Mapping[str, Any]) -> None:
    with st.grid(5, min_column_width=150):
        for name in ("ttft", "tpot", "e2e"):
            half, tail = (quantities.seconds(named[f"{name}_{of}_s"]) for of in ("p50", "p99"))
            card(f"{rows.LATENCIES[name]}, median", half, f"p99: {tail}")
        rate = quantities.tokens_rate(named["output_tokens_per_s_per_device"])
        served = quantities.request_rate(named["requests_per_s"], 3)
        card("Throughput per device", rate, f"{served} in all")
        if "good_share" in named:
            good = f"{quantities.request_rate(named['good_requests_per_s'], 3)} in target"
            card("Goodput", quantities.percent(named["good_share"]), good)


def _charts(answer: Run) -> dict[str, Any]:
    """Draw every chart; returns them by name."""
    look, simulation, targets = export.look(), answer.simulation, answer.targets
    figures = {"course": charts.course(simulation.series, look)}
    export.chart(figures["course"], "sim-course")
    over_time = {
        f"{COLUMNS[name].head} over time": charts.over_time(
            rows.over_time(simulation, name), COLUMNS[name].head, targets.get(name, 0.0), look
        )
        for name in ("ttft_s", "tpot_s")
    }
    export.beside("sim", over_time)
    groups = {"TTFT": ("ttft_s",), "TPOT and ITL": ("tpot_s", "itl_s"), "E2E": ("e2e_s",)}
    latencies = simulation.latencies()
    distributions = {}
    for title, names in groups.items():
        curves = {rows.LATENCIES[name[:-2]]: rows.distribution(*latencies[name]) for name in names}
        lines = [targets[name] for name in names if name in targets]
        of = "requests or tokens" if "itl_s" in names else "requests"  # a gap follows each token
        figure = charts.cumulative(curves, lines, f"Distribution of {title}", look, of)
        distributions[f"distribution of {title}"] = figure
    export.grid("sim", distributions, 3, 300)
    return figures | over_time | distributions


def _forget_button(answer: Run) -> None:
    if answer.kept_scale is None:
        return
    if st.button("Forget the calibration", key="sim_forget", icon=":material/delete:"):
        resolved = answer.resolved
        key = recipe_key(resolved.engine, resolved.model, resolved.system)
        recipes.forget_step_scale(key)
        caches.clear_stale_caches()
        st.info("Forgotten: simulate again.", icon=":material/info:")


def _downloads(answer: Run, figures: Mapping[str, Any], table: pd.DataFrame, setup: Setup) -> None:

    def requests() -> pd.DataFrame:
        return export.names_first(pd.DataFrame(rows.request_columns(answer)), setup)

    with st.container(horizontal=True):
        export.save_button("Requests (CSV)", lambda: requests().to_csv(index=False),
                           "requests.csv", key="sim_csv")  # fmt: skip
        export.save_button("Requests (Parquet)", lambda: requests().to_parquet(index=False),
                           "requests.parquet", key="sim_parquet")  # fmt: skip
        export.downloads("simulation", figures, table, setup)
