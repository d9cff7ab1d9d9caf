"""An encoder model under load: its latency and sequences per second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from app.charts import serving
from app.charts.figure import Figure
from app.charts.style import Look
from app.dashboard import display_tables, export, load_curves, sidebar
from app.dashboard.does_not_fit import figure_card
from app.dashboard.load import Load
from app.scenario.encoder_figures import of_kind
from app.scenario.scenario import Resolved
from app.scenario.setup import Setup
from app.wording import quantities
from app.wording.markdown import plain


def reading_load(setup: Setup, resolved: Resolved, look: Look) -> None:
    """Draw the figures at the question's load, and latency and rate over the load.

    Raises:
        RidgelineError: the scenario cannot be priced.
    """
    setup, load, row = sidebar.gated_load(setup)
    curve = load_curves.curve(setup, load.name)
    table, _ = load_curves.with_load(curve, row, load.name)
    st.markdown(f"At **{load.words}**, each request read in one pass:")
    _cards(setup, row, not setup.if_fitted)
    figures = _charts(table, load, look)
    named = of_kind(resolved.model, {name: table[name] for name in table})
    shown = pd.DataFrame(named)
    display_tables.draw_figures(shown, "serving_table")
    export.downloads("serving", figures, shown, setup)


def _cards(setup: Setup, row: Mapping[str, Any], fits: bool) -> None:
    rate, each = row["output_tokens_per_s"], row["output_tokens_per_s_per_device"]
    with st.grid(4, min_column_width=160, key="cards"):
        figure_card(
            "Latency", quantities.seconds(row["ttft_s"]),
            f"median {quantities.seconds(row['ttft_median_s'])}",
            "From arrival to the answer: mean, queueing included. Not validated by measured runs.",
            fits=fits,
        )  # fmt: skip
        figure_card(
            "Throughput", quantities.rate(rate, "seq/s"),
            f"{quantities.rate(each, 'seq/s')} per device",
            "Sequences of the whole deployment per second.", fits=fits,
        )  # fmt: skip
        figure_card(
            "Tokens read", quantities.tokens_rate(rate * setup.scenario.isl),
            f"{quantities.tokens(setup.scenario.isl)} a sequence",
            "Input tokens of the whole deployment per second.", fits=fits,
        )  # fmt: skip
        figure_card(
            "Running", f"{row['running']:,.3g}", "no cache is kept",
            "Sequences that are read at once.", fits=fits,
        )  # fmt: skip


def _charts(table: pd.DataFrame, load: Load, look: Look) -> dict[str, Figure]:
    """Latency and sequences a second over the load, drawn side by side."""
    for sentence in load_curves.load_warnings(table, load.name):
        st.warning(plain(sentence.replace("TTFT", "latency")), icon=":material/warning:")
    figures = {
        "latency": serving.latencies(
            table, load.name, "Latency over the load", look, {"ttft": "Latency"}
        ),
        "throughput": serving.sequences(table, load.name, "Throughput over the load", look),
    }
    for figure in figures.values():
        serving.mark_load(figure, load.value, load.words, look)
    export.beside(*((figure, f"serving-{name}", f"{name.capitalize()} over the load")
                    for name, figure in figures.items()))  # fmt: skip
    return figures
