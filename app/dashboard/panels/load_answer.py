"""The answer for a load: its figures, their causes, and latency over loads with targets."""

from collections.abc import Iterator, Mapping, Sequence
from math import inf, isfinite, nan
from typing import Any

import pandas as pd
import streamlit as st

from app.answers.column import THROUGHPUT_ENDS, ends
from app.answers.columns import COLUMNS
from app.charts import serving
from app.dashboard import caches, display_tables, export, load_curves, sidebar
from app.dashboard.does_not_fit import figure_card
from app.dashboard.load_curves import Load, alone, as_batch
from app.dashboard.measured_loads import measured_beside
from app.dashboard.page_texts import page_text
from app.dashboard.panels.static_answer import ONE_TOKEN, Answer, cost_card
from app.dashboard.widgets import say_each
from app.planning.targets import Target, judged, parse_targets, verdicts
from app.scenario.encoder_figures import of_kind
from app.scenario.scenario import Resolved
from app.scenario.setup import Setup
from app.scenario.summary import parts_of, step_of
from app.wording import quantities
from app.wording.markdown import capital, plain, unbroken

_SEQUENCES = COLUMNS["sequences_per_s_per_device"]
#: A latency in a queue that grows without end.
UNBOUNDED = "unbounded"
#: Share of TPOT from which what prompts of other requests add to it is said.
_WORTH_A_WORD = 0.05


def load_answer(setup: Setup, resolved: Resolved) -> tuple[Setup, Load, Answer]:
    """Draw the figures of a load and latency over loads; returns setup, load, charts and table.

    The setup is as `does_not_fit.runnable` gives it.
    """
    setup, load, row = sidebar.gated_load(setup)
    fits = not setup.if_fitted
    if fits and row["message"]:
        st.warning(f"{plain(capital(row['message']))}.", icon=":material/warning:")
    with st.grid(4, min_column_width=150, key="cards"):
        _cards(resolved, row, load.words, fits)
    if fits:
        say_each(_missed(setup, row), st.warning, icon=":material/target:")
        st.markdown(unbroken(_causes(setup, row)))
    table, _ = load_curves.with_load(load_curves.curve(setup, load.name), row, load.name)
    bounds = latency_bounds(setup)
    most = load_curves.most_within(setup, load.name, _limits(bounds)) if bounds else None
    table = load_curves.until_some_wait(table, load.name, max(load.value, most or 0.0))
    figure = serving.latencies(table, load.name, export.look())
    limits = {
        f"{one.figure.title} target {quantities.seconds(one.value)}": one.value for one in bounds
    }
    largest = Load(load.name, most or 0.0)
    serving.draw_targets(figure, limits, most, largest.words, export.look())
    serving.mark_load(figure, load.value, load.words, export.look())
    measured = measured_beside(setup) if load.name == "concurrency" else {}
    serving.draw_measured(figure, measured, export.look())
    export.chart(figure, "load-latency")
    st.caption(_caption(setup, row, bounds, largest))
    if measured:
        st.caption(page_text("measured beside the load", runs=len(measured["ttft"])))
    return setup, load, ({"latency": figure}, pd.DataFrame([dict(row)]))


def _cards(resolved: Resolved, row: Mapping[str, Any], load: str, fits: bool) -> None:
    """Draw the latencies and the throughput of a load with their intervals, and its cost."""
    for column in (COLUMNS["ttft_s"], COLUMNS["tpot_s"]):
        trust = quantities.span(*(row[end] for end in ends(column.name)))
        if row[column.name] != row[column.name]:
            trust = ONE_TOKEN
        value = column.words(row[column.name])
        if row[column.name] == inf:
            value, trust = UNBOUNDED, "the queue grows"
        bound = row[f"bound_{column.name}"]
        least = f" Bound: {column.words(bound)}." if isfinite(bound) else ""
        meaning = f"{column.help} Below: 80 % interval.{least}"
        figure_card(column.head, value, trust, meaning, fits=fits)
    column = COLUMNS["output_tokens_per_s"]
    low, high = (float(row[end]) for end in THROUGHPUT_ENDS)
    each = column.words(row["output_tokens_per_s_per_device"])
    trust = column.span(low, high) if low < high else f"{each} per device"
    meaning = "Output tokens per second of the whole deployment."
    figure_card(column.head, column.words(row[column.name]), trust, meaning, fits=fits)
    if fits:
        cost_card(resolved, row, load)


def _missed(setup: Setup, row: Mapping[str, Any]) -> Iterator[str]:
    """A sentence on each target that the load's figures miss."""
    targets = judged(parse_targets(", ".join(setup.scenario.target)), setup.scenario.osl)
    figures = {**row, "usd_per_mtok": row["usd_per_million_tokens"]}
    for name in ("ttft", "tpot", "e2e"):
        figures[f"{name}_mean_s"] = row[f"{name}_s"]
        figures[f"{name}_p50_s"] = row.get(f"{name}_median_s")
    return verdicts(targets, figures, missed=True)


def _causes(setup: Setup, row: Mapping[str, Any]) -> str:
    """Draw the causes of a load's latencies, and what would shorten them."""
    share = float(row["wait_s"]) / float(row["ttft_s"])
    said = (page_text("causes of TTFT", row=row, share=share) if share
            else page_text("no waiting", row=row))  # fmt: skip
    said = said if isfinite(share) else ""  # of a queue that grows without end
    if setup.scenario.osl == 1:  # nothing decodes
        prompt = alone(setup)
        parts, levers = parts_of(step_of(caches.priced(prompt), "prefill")), caches.levers(prompt)
        limits = quantities.limits("The prefill of a prompt", parts)
        return f"{said} {limits}; {quantities.advice('it', levers['prefill'], parts)}."
    batch = as_batch(setup)
    size, step = batch.scenario.batch, step_of(caches.priced(batch), "decode")
    parts = parts_of(step)
    others = float(row["tpot_s"]) - float(step.total_s[0])
    if isfinite(share := float(row.get("prompt_share", nan))):  # in a closed loop
        others = min(others, share * row["tpot_s"])
    if others > _WORTH_A_WORD * row["tpot_s"] and not setup.scenario.speculation:
        said += f" Other users' prefills add {quantities.seconds(others)} to TPOT."
    limits = quantities.limits(f"A decode step of {size:,}", parts)
    return f"{said} {limits}; {quantities.advice('it', caches.levers(batch)['decode'], parts)}."


def _limits(bounds: Sequence[Target]) -> tuple[tuple[str, float], ...]:
    """The columns of a load's row that targets limit, and the most that each may be [s].

    A load whose median exceeds a target misses it at every percentile above.
    """
    return tuple(
        (f"{one.figure.latency}{'_median' if one.figure.percentile else ''}_s", one.value)
        for one in bounds
    )


def _first_missed(setup: Setup, bounds: Sequence[Target], load: str) -> str:
    """The latency that misses its target first as a load grows: "the mean TTFT"."""

    def most(one: Target) -> float:
        return load_curves.most_within(setup, load, _limits([one]))

    figure = min(bounds, key=most).figure
    which = "even the median" if figure.percentile > 50 else "the median"
    return f"{which if figure.percentile else 'the mean'} {COLUMNS[f'{figure.latency}_s'].head}"


def _caption(setup: Setup, row: Mapping[str, Any], bounds: Sequence[Target], most: Load) -> str:
    said = []
    if bounds:
        beyond = any(one.figure.percentile > 50 for one in bounds)
        if not most.value:
            what = "users" if most.name == "concurrency" else "requests/s"
            said.append(f"No number of {what} is within the targets.")
        elif beyond:
            missed = _first_missed(setup, bounds, most.name)
            said.append(page_text("most by the median", most=most, missed=missed))
        else:
            said.append(f"**{most.words}** is the highest load that meets the targets.")
        if beyond:
            said.append("For percentiles above the median see part Simulate.")
    ranged = any(isfinite(row[end]) for name in ("ttft_s", "tpot_s") for end in ends(name))
    basis = plain(load_curves.basis(setup))
    said.append(page_text("ranges", basis=basis) if ranged else page_text("no ranges", basis=basis))
    return " ".join(said)


def latency_bounds(setup: Setup) -> list[Target]:
    """The question's upper limits of TTFT and TPOT.

    Raises:
        InvalidValue: an invalid target.
    """
    targets = parse_targets(", ".join(setup.scenario.target))
    return [
        one for one in judged(targets, setup.scenario.osl)
        if one.figure.latency in ("ttft", "tpot") and one.below
    ]  # fmt: skip


def reading_load(setup: Setup, resolved: Resolved) -> None:
    """Draw the figures of a model that generates nothing, and latency and rate over the load."""
    setup, load, row = sidebar.gated_load(setup)
    table, _ = load_curves.with_load(load_curves.curve(setup, load.name), row, load.name)
    st.markdown(f"At **{load.words}**, each request processed in one pass:")
    with st.grid(4, min_column_width=160, key="cards"):
        for label, (value, beside, meaning) in _reading_figures(setup, row).items():
            figure_card(label, value, beside, meaning, fits=not setup.if_fitted)
    warnings = load_curves.load_warnings(table, load.name)
    say_each((one.replace("TTFT", "latency") for one in warnings), st.warning,
             icon=":material/warning:")  # fmt: skip
    look = export.look()
    figures = {
        "latency": serving.latencies(table, load.name, look, {"ttft": "Latency"}),
        "throughput": serving.throughput(table, load.name, look, _SEQUENCES),
    }
    for figure in figures.values():
        serving.mark_load(figure, load.value, load.words, look)
    export.beside("serving", figures)
    shown = pd.DataFrame(of_kind(resolved.model, {name: table[name] for name in table}))
    display_tables.draw_figures(shown, "serving_table")
    export.downloads("serving", figures, shown, setup)


def _reading_figures(setup: Setup, row: Mapping[str, Any]) -> dict[str, tuple[str, str, str]]:
    """Value, a figure beside it and meaning of each card of a model that generates nothing."""
    rate, isl = row["output_tokens_per_s"], setup.scenario.isl
    mean, half = (quantities.seconds(row[name]) if row[name] < inf else UNBOUNDED
                  for name in ("ttft_s", "ttft_median_s"))  # fmt: skip
    all_s, each = (quantities.rate(row[name], "seq/s") for name in
                   ("output_tokens_per_s", "output_tokens_per_s_per_device"))  # fmt: skip
    return {
        "Latency": (mean, f"median {half}", page_text("latency of a pass")),
        "Throughput": (all_s, f"{each} per device", page_text("sequences a second")),
        "Tokens read": (quantities.tokens_rate(rate * isl), f"{quantities.count(isl)} a sequence",
                        "Input tokens per second of the whole deployment."),
        "Running": (f"{row['running']:,.3g}", "no KV cache",
                    "Sequences that are processed together."),
    }  # fmt: skip
