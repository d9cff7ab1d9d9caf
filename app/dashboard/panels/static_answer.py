"""A static batch on page Answer: figures, the limit of each phase, possible improvements."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import pandas as pd
import streamlit as st

from app.answers.columns import COLUMNS
from app.charts import breakdown
from app.charts.figure import Figure
from app.dashboard import caches, explanations, export
from app.dashboard.does_not_fit import figure_card
from app.dashboard.page_texts import page_text
from app.dashboard.widgets import card
from app.scenario import intervals
from app.scenario.description import load_words
from app.scenario.intervals import Ranged
from app.scenario.levers import phases_of
from app.scenario.scenario import Resolved
from app.scenario.setup import Setup
from app.scenario.summary import facts, parts_of, step_of
from app.wording import quantities
from app.wording.markdown import unbroken
from genz_core import Estimate
from genz_core.models.model_kinds import generates

#: The latency of each phase, and its meaning for a batch; a model that reads has only the last.
_LATENCIES: Mapping[str, str] = {
    "ttft_s": "Time to first token: one prefill of the whole batch.",
    "tpot_s": "Time per output token after the first: the mean decode step.",
    "latency_s": "Time of one pass over the input of the whole batch.",
}
#: Below the card of a TPOT that there is not.
ONE_TOKEN = "only one output token"
Answer = tuple[dict[str, Figure], pd.DataFrame]


def static_answer(
    setup: Setup, resolved: Resolved, estimate: Estimate, *, first: bool = True
) -> Answer:
    """Draw the figures, sentences and charts of a static batch; returns charts and table.

    first: whether its cards are the first of the page.
    """
    fits, row = not setup.if_fitted, facts(resolved, estimate).row()
    names = [name for name in _LATENCIES if name in row]
    with st.grid(3 + len(names), min_column_width=150, key="cards" if first else "cards_static"):
        for name in names:
            column, bound = COLUMNS[name], COLUMNS[f"bound_{name}"].words(row[f"bound_{name}"])
            below = f"bound {bound}" if isfinite(row[name]) else ONE_TOKEN
            figure_card(column.head, column.words(row[name]), below, _LATENCIES[name], fits=fits)
        _other_cards(setup, resolved, row, fits)
    st.caption(explanations.trust(estimate))
    if fits:
        levers = caches.levers(setup)
        for phase, name in zip(phases_of(estimate), names, strict=False):
            parts = parts_of(step_of(estimate, phase))
            advice = quantities.advice(COLUMNS[name].head, levers[phase], parts)
            words = phase.capitalize() if generates(estimate.model) else "The forward pass"
            st.markdown(unbroken(f"{quantities.limits(words, parts)}; {advice}."))
    figures = _charts(estimate, row, names)
    export.beside("batch", figures, (2, 3))
    return figures, pd.DataFrame([row])


def steps_of(estimate: Estimate) -> dict[str, str]:
    """The phase of each step by the step's name."""
    if not generates(estimate.model):
        return {"The forward pass": "prefill"}
    return {f"{phase.capitalize()} step": phase for phase in phases_of(estimate)}


def _other_cards(setup: Setup, resolved: Resolved, row: Mapping[str, Any], fits: bool) -> None:
    priced = caches.priced(replace(setup, if_fitted=False))
    memory, moved, held = priced.memory, float(priced.offloaded_bytes[0]), bool(priced.fits[0])
    if reads := "latency_s" in row:
        shown = quantities.rate(row["sequences_per_s"], "seq/s")
        words = f"{quantities.tokens_rate(row['sequences_per_s'] * setup.scenario.isl)} read"
        figure_card("Throughput", shown, words, page_text("sequences a second"), fits=fits)
    else:
        shown = quantities.tokens_rate(row["output_tokens_per_s"])
        words = f"{quantities.tokens_rate(row['output_tokens_per_s_per_device'])} per device"
        meaning = "Output tokens per second of the whole deployment, including prefill time."
        figure_card("Output throughput", shown, words, meaning, fits=fits)
    card(
        "Memory per device",
        quantities.size(float(priced.memory_bytes[0])),
        f"{quantities.size(moved)} offloaded"
        if moved and held
        else f"{'fits in' if held else 'over'} {quantities.size(memory.usable_bytes)} "
        f"of {quantities.size(memory.capacity_bytes)}",
        page_text("memory per device", both=quantities.two_gigabytes(memory.capacity_bytes)),
        alarming=not held,
    )
    if fits:
        cost_card(resolved, row, load_words(resolved.scenario), "input" if reads else "output")


def cost_card(resolved: Resolved, row: Mapping[str, Any], load: str, of: str = "output") -> None:
    """Draw the cost of a million tokens in the row of a load.

    load: its description.  of: "input" or "output", the tokens that are counted.
    """
    cost, rent = row["usd_per_million_tokens"], resolved.system.price_usd_per_hour
    card(
        "Cost per 1M tokens",
        "no price" if cost is None else quantities.dollars(cost),
        f"{quantities.dollars(rent)} a device-hour" if rent else "set Rent of a device",
        f"Rent of all devices over the {of} tokens in that time, for {load}.",
    )


def _charts(estimate: Estimate, row: Mapping[str, Any], names: Sequence[str]) -> dict[str, Figure]:
    """Bound beside prediction, and both steps by cause.  names: of the latencies in the row."""
    look, steps = export.look(), steps_of(estimate)
    parts = {name: parts_of(step_of(estimate, p)) for name, p in steps.items()}
    totals = {name: intervals.step_latency(estimate, p) for name, p in steps.items()}
    latencies = {
        COLUMNS[name].head: {
            "bound": Ranged(row[f"bound_{name}"]),
            "predicted": intervals.latency(estimate, of),
        }
        for _, name, of in zip(steps, names, ("ttft_s", "tpot_s"), strict=False)
    }
    return {
        "bound and predicted": breakdown.bound_and_predicted(latencies, look),
        "causes": breakdown.time_by_cause(parts, totals, look),
    }
