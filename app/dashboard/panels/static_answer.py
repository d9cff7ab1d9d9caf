"""A static batch on page Answer: figures, the limit of each phase, possible improvements."""

from dataclasses import replace

import pandas as pd
import streamlit as st

from app.charts import breakdown
from app.charts.figure import Figure
from app.dashboard import caches, explanations, export
from app.dashboard.does_not_fit import figure_card
from app.dashboard.page_texts import page_text
from app.dashboard.widgets import card
from app.decide.loads import load_words
from app.scenario import intervals
from app.scenario.encoder_figures import phases_of
from app.scenario.intervals import Ranged
from app.scenario.scenario import Resolved
from app.scenario.setup import Setup
from app.scenario.summary import facts, parts_of, step_of
from app.wording import quantities
from app.wording.markdown import unbroken
from genz_core import Estimate, economics
from genz_core.models.model_kinds import generates

_LATENCIES = (
    ("ttft", "Time to first token: one prefill of the whole batch."),
    ("tpot", "Time per output token after the first: the mean decode step."),
)
Answer = tuple[dict[str, Figure], pd.DataFrame]


def static_answer(
    setup: Setup, resolved: Resolved, estimate: Estimate, *, first: bool = True
) -> Answer:
    """Draw the figures, sentences and charts of a static batch; returns charts and table.

    first: whether its cards are the first of the page.
    """
    fits = not setup.if_fitted
    with st.grid(
        5 if generates(estimate.model) else 4,
        min_column_width=150,
        key="cards" if first else "cards_static",
    ):
        _cards(setup, resolved, estimate, fits)
    st.caption(explanations.trust(estimate))
    if fits:
        levers = caches.levers(setup)
        for phase, metric in _metrics(estimate).items():
            name = phase.capitalize() if generates(estimate.model) else "The pass"
            parts = parts_of(step_of(estimate, phase))
            advice = quantities.advice(metric, levers[phase], parts)
            st.markdown(unbroken(f"{quantities.limits(name, parts)}; {advice}."))
    figures = _charts(estimate)
    export.beside("batch", figures, (2, 3))
    return figures, pd.DataFrame(facts(resolved, estimate).rows())


def _metrics(estimate: Estimate) -> dict[str, str]:
    """The name of each phase's time: {"prefill": "TTFT", ...}."""
    names = ("TTFT", "TPOT") if generates(estimate.model) else ("Latency",)
    return dict(zip(phases_of(estimate.model), names, strict=True))


def steps_of(estimate: Estimate) -> dict[str, str]:
    """The phase of each step by the step's name."""
    if not generates(estimate.model):
        return {"The pass": "prefill"}
    return {f"{phase.capitalize()} step": phase for phase in phases_of(estimate.model)}


def _cards(setup: Setup, resolved: Resolved, estimate: Estimate, fits: bool) -> None:
    devices = float(estimate.devices)
    memory = caches.priced(replace(setup, if_fitted=False)).memory
    reads, sequences = not generates(estimate.model), float(estimate.sequences_per_s[0])
    for name, meaning in _LATENCIES[: len(_metrics(estimate))]:
        label = "Latency" if reads else name.upper()
        value = quantities.seconds(float(getattr(estimate, f"{name}_s")[0]))
        bound = quantities.seconds(float(getattr(estimate, f"bound_{name}_s")[0]))
        meaning = "Time of one pass over the input of the whole batch." if reads else meaning
        figure_card(label, value, f"bound {bound}", meaning, fits=fits)
    rate = sequences * setup.scenario.isl if reads else float(estimate.output_tokens_per_s[0])
    each = quantities.tokens_rate(rate / devices)
    if reads:
        shown = quantities.rate(sequences, "seq/s")
        words = f"{quantities.tokens_rate(rate)} read"
        meaning = "Sequences per second of the whole deployment."
        figure_card("Throughput", shown, words, meaning, fits=fits)
    else:
        meaning = "Output tokens per second of the whole deployment, including prefill time."
        shown = quantities.tokens_rate(rate)
        figure_card("Output throughput", shown, f"{each} per device", meaning, fits=fits)
    card(
        "Memory per device",
        quantities.size(float(memory.total_bytes[0])),
        f"{'fits in' if memory.fits[0] else 'exceeds'} {quantities.size(memory.usable_bytes)} "
        f"of {quantities.size(memory.capacity_bytes)}",
        page_text("memory per device", both=quantities.two_gigabytes(memory.capacity_bytes)),
        alarming=not memory.fits[0],
    )
    if fits:
        of, load = "input" if reads else "output", load_words(resolved.scenario)
        cost_card(resolved, devices, rate, load, of=of)


def cost_card(
    resolved: Resolved, devices: float, rate: float, load: str, *, of: str = "output"
) -> None:
    """Draw the cost of a million tokens at a throughput [tok/s] of all devices.

    load: description of the load.  of: "input" or "output", the tokens that are counted.
    """
    cost = economics.usd_per_million_tokens(resolved.system, devices, rate)
    rent = resolved.system.price_usd_per_hour
    card(
        "Cost per 1M tokens",
        quantities.dollars(float(cost)) if cost is not None and rate > 0 else "no price",
        f"{quantities.dollars(rent)} a device-hour" if rent else "set a rent under What if",
        f"Rent of all devices over the {of} tokens in that time, for {load}.",
    )


def _charts(estimate: Estimate) -> dict[str, Figure]:
    """Bound beside prediction, and both steps by cause."""
    look = export.look()
    steps = steps_of(estimate)
    parts = {name: parts_of(step_of(estimate, p)) for name, p in steps.items()}
    totals = {name: intervals.step_latency(estimate, p) for name, p in steps.items()}
    latencies = {
        label: {
            "bound": Ranged(float(getattr(estimate, f"bound_{name}_s")[0])),
            "predicted": intervals.latency(estimate, f"{name}_s"),
        }
        for label, name in zip(_metrics(estimate).values(), ("ttft", "tpot"), strict=False)
    }
    return {
        "bound and predicted": breakdown.bound_and_predicted(latencies, look),
        "causes": breakdown.time_by_cause(parts, totals, look),
    }
