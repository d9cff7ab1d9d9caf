"""Page Overview: figures of the scenario, what limits each phase, and what would help."""

import streamlit as st

from app.charts import breakdown
from app.dashboard import cached, display_tables, explanations, export, pinned, sidebar
from app.dashboard.widgets import card
from app.scenario import intervals
from app.scenario.intervals import Latency
from app.scenario.reading import phases_of
from app.scenario.summary import parts_of, step_of
from app.wording import quantities
from app.wording.markdown import plain
from genz_core import economics
from genz_core.model_kinds import generates

setup, resolved, estimate = sidebar.priced_setup()
s = setup.scenario

st.title(f"{plain(resolved.model.name)} on {plain(resolved.system.name)}", anchor=False)
st.caption(explanations.configuration(setup, resolved, estimate))
if estimate.status[0] != "ok":
    st.warning(f"Does not fit: {plain(estimate.message())}.", icon=":material/memory:")

memory, reads = estimate.memory, not generates(estimate.model)
phases = phases_of(estimate.model)
METRICS = {"prefill": "Latency" if reads else "TTFT", "decode": "TPOT"}
sequences = float(estimate.sequences_per_s[0])
rate = sequences * s.isl if reads else float(estimate.output_tokens_per_s[0])
cost = economics.usd_per_million_tokens(resolved.system, estimate.devices, rate)
with st.grid(4 if reads else 5, min_column_width=150):
    card(
        METRICS["prefill"],
        quantities.seconds(float(estimate.ttft_s[0])),
        f"bound {quantities.seconds(float(estimate.bound_ttft_s[0]))}",
        "Time of the whole batch: one pass over its input."
        if reads
        else "Time to first token: one prefill of the whole batch.",
    )
    if reads:
        card(
            "Throughput",
            quantities.rate(sequences, "sequences/s"),
            f"{quantities.tokens_rate(rate)} read",
            "Sequences of the whole deployment per second.",
        )
    else:
        card(
            "TPOT",
            quantities.seconds(float(estimate.tpot_s[0])),
            f"bound {quantities.seconds(float(estimate.bound_tpot_s[0]))}",
            "Time per output token after the first: the mean decode step.",
        )
        card(
            "Output throughput",
            quantities.tokens_rate(rate),
            f"{quantities.tokens_rate(rate / float(estimate.devices))} per device",
            "Output tokens of the whole deployment per second, prefill included.",
        )
    card(
        "Memory per device",
        quantities.size(float(memory.total_bytes[0])),
        f"{'fits in' if memory.fits[0] else 'exceeds'} {quantities.size(memory.usable_bytes)}",
        "Weights, KV cache, activations and runtime reserve of the fullest device.",
        alarming=not memory.fits[0],
    )
    card(
        "Cost per 1M tokens",
        quantities.dollars(float(cost)) if cost is not None else "no price",
        explanations.rent_words(resolved.system),
        f"Rent of all devices over the {'input' if reads else 'output'} tokens in that time.",
    )

st.caption(explanations.trust(estimate))

levers = cached.levers(setup)
NAMES = {phase: "The pass" if reads else f"{phase.capitalize()} step" for phase in phases}
for phase in phases:
    step = step_of(estimate, phase)
    limit = quantities.limits("The pass" if reads else phase.capitalize(), parts_of(step))
    st.markdown(f"{limit}; {quantities.advice(METRICS[phase], levers[phase])}.")

look = export.look()
steps = {NAMES[phase]: phase for phase in phases}
parts = {name: parts_of(step_of(estimate, p)) for name, p in steps.items()}
totals = {name: intervals.step_latency(estimate, p) for name, p in steps.items()}
latencies = {
    METRICS[phase]: {
        "bound": Latency(float(getattr(estimate, f"bound_{name}_s")[0])),
        "predicted": intervals.latency(estimate, f"{name}_s"),
    }
    for phase, name in zip(phases, ("ttft", "tpot"), strict=False)
}
bars = breakdown.bound_and_predicted(latencies, look)
causes = breakdown.time_by_cause(parts, totals, look)
left, right = st.columns([2, 3], gap="medium")
with left:
    export.chart(bars, "bound-predicted", f"Bound and predicted time of {' and '.join(latencies)}")
with right:
    export.chart(causes, "causes", f"Share of {' and '.join(steps)} by cause")

with st.container(horizontal=True):
    with st.popover("How these numbers come about", icon=":material/function:"):
        st.markdown(explanations.formulas(setup, resolved, estimate))
        if not (setup.model_config or setup.system_yaml or setup.changed() != s.changed()):
            st.caption("The same numbers on the command line:")
            st.code(explanations.command(setup), language="bash", wrap_lines=True)
    summary = display_tables.figure_table(estimate)
    export.downloads("overview", {"bound and predicted": bars, "causes": causes}, summary, setup)
    st.button("Pin to compare", icon=":material/keep:", on_click=pinned.pin, disabled=pinned.full())
explanations.show_assumptions(resolved)
