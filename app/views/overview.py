"""What you get, what limits it, and what would change it."""

import streamlit as st

from app import explain, exports, frames, inputs, intervals, pins, pricing, text
from app.charts import breakdown
from app.intervals import Latency
from app.panels import card
from genz_core import economics

setup, asked, estimate = inputs.answer()
s = setup.scenario

st.title(f"{asked.model.name} on {asked.system.name}", anchor=False)
st.caption(explain.configuration(setup, asked, estimate))
if estimate.status[0] != "ok":
    st.warning(f"Does not fit: {estimate.message()}.", icon=":material/memory:")

memory = estimate.memory
rate = float(estimate.output_tokens_per_s[0])
cost = economics.usd_per_million_tokens(asked.system, estimate.devices, rate)
with st.grid(5, min_column_width=150):
    card(
        "TTFT",
        text.seconds(float(estimate.ttft_s[0])),
        f"bound {text.seconds(float(estimate.bound_ttft_s[0]))}",
        "Time to first token: one prefill of the whole batch.",
    )
    card(
        "TPOT",
        text.seconds(float(estimate.tpot_s[0])),
        f"bound {text.seconds(float(estimate.bound_tpot_s[0]))}",
        "Time per output token after the first: the mean decode step.",
    )
    card(
        "Output throughput",
        text.tokens_rate(rate),
        f"{text.tokens_rate(rate / float(estimate.devices))} per device",
        "Output tokens of the whole deployment per second, prefill included.",
    )
    card(
        "Memory per device",
        text.size(float(memory.total_bytes[0])),
        f"{'fits in' if memory.fits[0] else 'exceeds'} {text.size(memory.usable_bytes)}",
        "Weights, KV cache, activations and runtime reserve of the fullest device.",
        alarming=not memory.fits[0],
    )
    card(
        "Cost per 1M tokens",
        text.dollars(float(cost)) if cost is not None else "no price",
        explain.price(asked.system),
        "Rent of all devices over the output tokens they produce in that time.",
    )

st.caption(explain.trust(estimate))

levers = pricing.levers(setup)
for phase, metric in (("prefill", "TTFT"), ("decode", "TPOT")):
    step = pricing.step_of(estimate, phase)
    limit = text.limits(phase.capitalize(), pricing.parts_of(step))
    st.markdown(f"{limit}; {text.advice(metric, levers[phase])}.")

look = exports.look()
steps = {f"{phase.capitalize()} step": phase for phase in pricing.PHASES}
parts = {name: pricing.parts_of(pricing.step_of(estimate, p)) for name, p in steps.items()}
totals = {name: intervals.step_latency(estimate, p) for name, p in steps.items()}
latencies = {
    name.upper(): {
        "bound": Latency(float(getattr(estimate, f"bound_{name}_s")[0])),
        "predicted": intervals.latency(estimate, f"{name}_s"),
    }
    for name in ("ttft", "tpot")
}
bars = breakdown.bound_and_predicted(latencies, look)
causes = breakdown.by_part(parts, totals, look)
left, right = st.columns([2, 3], gap="medium")
with left:
    exports.chart(bars, "bound-predicted", "Bound and predicted time of TTFT and TPOT")
with right:
    exports.chart(causes, "causes", "Share of prefill and decode by cause")

with st.container(horizontal=True):
    with st.popover("How these numbers come about", icon=":material/function:"):
        st.markdown(explain.formulas(setup, asked, estimate))
        if not (setup.model_config or setup.system_yaml or setup.changed() != s.changed()):
            st.caption("The same numbers on the command line:")
            st.code(explain.command(setup), language="bash", wrap_lines=True)
    summary = frames.summary(estimate)
    exports.downloads("overview", {"bound and predicted": bars, "causes": causes}, summary, setup)
    st.button("Pin to compare", icon=":material/keep:", on_click=pins.pin, disabled=pins.full())
explain.assumptions(asked)
