"""A load on page Overview: the figures of page Serving at the users or the rate that are asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st

from app.answers.columns import COLUMNS, ends
from app.charts import serving
from app.charts.figure import Figure
from app.charts.style import Look
from app.dashboard import export, load_curves, strip
from app.dashboard.does_not_fit import figure_card, runnable
from app.dashboard.load import Load, asked_load
from app.dashboard.panels.static_answer import Answer, cost_card
from app.dashboard.sidebar import say_unread
from app.scenario.scenario import Resolved
from app.scenario.setup import Setup
from app.wording import quantities
from app.wording.markdown import plain


def load_answer(setup: Setup, resolved: Resolved) -> tuple[Setup, Load, Answer]:
    """Draw the figures of a load and latency over loads; returns setup, load, charts and table.

    The setup is as `does_not_fit.runnable` gives it.

    Raises:
        RidgelineError: the scenario cannot be priced.
    """
    setup, load, row = gated_load(setup, resolved)
    fits = not setup.if_fitted
    if fits and row["message"]:
        message = str(row["message"])
        st.warning(f"{plain(message[0].upper() + message[1:])}.", icon=":material/warning:")
    with st.grid(5, min_column_width=150, key="cards"):
        latency_cards(row, fits=fits)
        _other_cards(resolved, row, load.words, fits)
    basis = plain(load_curves.basis(setup))
    st.caption(f"80 % intervals under the figures; {basis}.")
    table, _ = load_curves.with_load(load_curves.curve(setup, load.name), row, load.name)
    figures = load_charts("load", table, load, export.look())
    return setup, load, (figures, pd.DataFrame([dict(row)]))


def gated_load(setup: Setup, resolved: Resolved) -> tuple[Setup, Load, Mapping[str, Any]]:
    """Draw the load that is asked; returns the setup that is drawn under it, and its figures.

    Where not even one request can run, the page stops with the reason, see
    `does_not_fit.runnable`.

    Raises:
        RidgelineError: the scenario cannot be priced.
    """
    load = asked_load(setup)
    asked: dict[str, Any] = {load.name: load.value}
    question = replace(setup.scenario, batch=1, **asked)
    strip.say(question, "serve")
    say_unread(replace(resolved, scenario=question))
    row = load_curves.one_load(setup, load.name, load.value)
    shown = runnable(setup, str(row["status"]), str(row["message"]), 1)
    if shown is not setup:
        row = load_curves.one_load(shown, load.name, load.value)
    return shown, load, row


def latency_cards(row: Mapping[str, Any], *, fits: bool) -> None:
    """Draw TTFT and TPOT of a load with their intervals."""
    for column in (COLUMNS["ttft_s"], COLUMNS["tpot_s"]):
        trust = quantities.span(*(row[end] for end in ends(column.name)))
        value = column.words(row[column.name])
        figure_card(column.head, value, f"80 %: {trust}", column.help, fits=fits)


def _other_cards(resolved: Resolved, row: Mapping[str, Any], load: str, fits: bool) -> None:
    rate, each = row["output_tokens_per_s"], row["output_tokens_per_s_per_device"]
    figure_card(
        "Output throughput",
        quantities.tokens_rate(rate),
        f"{quantities.tokens_rate(each)} per device",
        "Output tokens of the whole deployment per second.",
        fits=fits,
    )
    figure_card(
        "Requests running",
        quantities.digits(row["running"]),
        f"{row['capacity']:,.0f} fit",
        "Mean number that runs at once; the others wait.",
        fits=fits,
    )
    if fits:
        cost_card(resolved, rate / each if each else 1.0, rate, load)


def load_charts(key: str, table: pd.DataFrame, load: Load, look: Look) -> dict[str, Figure]:
    """Draw latencies and throughput over the load, the load that is asked marked."""
    figures = {
        "latency": serving.latencies(table, load.name, "Latency over the load", look),
        "throughput": serving.throughput(table, load.name, "Throughput over the load", look),
    }
    draw_both(key, figures, load, look)
    return figures


def draw_both(key: str, figures: Mapping[str, Figure], load: Load, look: Look) -> None:
    """Draw two charts over the load side by side, with the load that is asked marked in them."""
    for place, (name, figure) in zip(st.columns(2, gap="medium"), figures.items(), strict=True):
        serving.mark_load(figure, load.value, load.words, look)
        with place:
            export.chart(figure, f"{key}-{name}", f"{name.capitalize()} over the load")
