"""Page Serving: latencies and throughput over the load, and a load simulated."""

import numpy as np
import streamlit as st

from app.charts import serving
from app.dashboard import export, load_curves, sidebar
from app.dashboard.panels.runs_behind import runs_behind_list
from app.dashboard.panels.simulation import simulation_panel
from app.dashboard.widgets import card
from app.scenario import intervals
from app.wording import quantities
from app.wording.markdown import plain
from genz_core.errors import RidgelineError

LOOPS = {"closed loop (concurrency)": "concurrency", "open loop (arrival rate)": "rate_per_s"}
EXPLANATION = """
**Closed loop**: a fixed number of users; each sends a request when the last one is answered, all
start at once, ten requests a user. **Open loop**: requests arrive at a rate, whoever is still
waiting.

**TPOT** = decode step of the requests that run + what others' prompts add to it:
t(D) + W (D − 1) / OSL.
**TTFT** = request + steps waited for + own prefill + half of the start-up burst in the first of
ten rounds, a queue in the others + waiting for cache once it is full.
**D** is the smallest of the users, what the cache holds and what the engine runs at once. The
cache may hold more here than on page Memory: an engine sets aside a share of the output only.
**Interactivity** = 1 / TPOT: tokens a second that one user sees.

**Measured runs** of this engine and model correct TTFT and TPOT, each by how near its GPU, format,
lengths, load and degrees lie; far from all of them the figures come from the engine's profile.
Page Accuracy says how far off either is.
"""

setup, resolved, _ = sidebar.priced_setup("page Serving")
s = setup.scenario
look = export.look()
st.title("Serving", anchor=False)
devices = s.tp * s.pp * s.dp
st.caption(
    f"{plain(resolved.model.name)} on {devices} × {plain(resolved.system.name)} · "
    f"engine {plain(resolved.engine.name)} · {quantities.tokens(s.isl)} tokens in, "
    f"{quantities.tokens(s.osl)} out · {plain(load_curves.basis(setup))}"
)
_, simulated = st.tabs(["Curves", "Simulate"], key="serving_tab", bind="query-params")
if simulated.open:
    with simulated:
        simulation_panel(setup)
    st.stop()
with st.container(horizontal=True, vertical_alignment="bottom"):
    loop = st.segmented_control(
        "Load", list(LOOPS), default=next(iter(LOOPS)), required=True,
        key="serving_loop", bind="query-params",
    )  # fmt: skip
    ratio = st.slider(
        "Shortest length", 0.1, 1.0, 1.0, 0.05, key="serving_ratio", bind="query-params",
        help="Real lengths are uniform between this share of the nominal ones and all of them; "
        "public benchmarks draw from 0.8.",
    )  # fmt: skip
load = LOOPS[loop]

try:
    table = load_curves.curve(setup, load, ratio)
except RidgelineError as error:
    sidebar.stop(error)
for sentence in load_curves.load_warnings(table, load):
    st.warning(plain(sentence), icon=":material/warning:")
if table["status"].eq("out_of_memory").all():
    st.caption("The curves below are what it would take if the memory were there.")

if load == "concurrency":
    at = int(np.abs(np.log2(table[load] / s.batch)).argmin())
    words = f"{table[load][at]:,.0f} open request{'s' if at else ''}"
else:
    at = int((table["utilisation"] - 0.7).abs().argmin())
    words = (
        f"{table[load][at]:.3g} requests/s, {quantities.percent(table['utilisation'][at])} of most"
    )
row = table.iloc[at]
LATENCIES = {"TTFT": "Mean, queueing included.", "TPOT": "Mean gap between tokens."}
st.markdown(f"At **{words}**:")
with st.grid(4, min_column_width=160):
    for name, meaning in LATENCIES.items():
        figure = f"{name.lower()}_s"
        trust = quantities.span(*(row[end] for end in intervals.ends(figure)))
        card(name, quantities.seconds(row[figure]), f"80 %: {trust}", meaning)
    card(
        "Tokens a user sees",
        quantities.tokens_rate(row["interactivity"]),
        f"{quantities.seconds(row['tpot_s'])} between two",
        "One over TPOT.",
    )
    card(
        "Throughput per device",
        quantities.tokens_rate(row["output_tokens_per_s_per_device"]),
        f"{row['running']:,.0f} running, {row['capacity']:,.0f} fit",
    )

figures = {
    "latency": serving.latencies(table, load, "Latency over the load", look),
    "throughput": serving.throughput(table, load, "Throughput over the load", look),
}
left, right = st.columns(2, gap="medium")
with left:
    export.chart(figures["latency"], "serving-latency", "TTFT and TPOT over the load")
with right:
    export.chart(figures["throughput"], "serving-throughput", "Throughput over the load")

shown = load_curves.without_waiting(table, load)
curves = {f"TP{s.tp} (the scenario)": shown}
others = tuple(sorted({1, 2, 4, 8} - {s.tp}))
for tp, other in load_curves.curves_at(setup, load, ratio, others).items():
    if other["status"].eq("ok").any():
        curves[f"TP{tp}"] = load_curves.without_waiting(other, load)
marked = {f"TP{s.tp} (the scenario)": at} if at < len(shown) else {}
figures["trade"] = serving.throughput_over_interactivity(curves, load, marked, look)
export.chart(figures["trade"], "serving-trade", "Throughput per device against interactivity")
what = "users" if load == "concurrency" else "requests/s"
st.caption(
    f"Numbers beside the scenario's points are its {what}. Up is cheaper, right is faster for each "
    "user; the circle is the load above. Loads at which requests wait are left out."
)
runs_behind_list(setup, load, float(row[load]), ratio)
with st.expander("Table", icon=":material/table:"):
    st.dataframe(
        table, hide_index=True, key="serving_table", placeholder=quantities.NOT_VALIDATED,
        column_config={"not_validated": None},
    )  # fmt: skip
with st.container(horizontal=True):
    with st.popover("How these numbers come about", icon=":material/function:"):
        st.markdown(EXPLANATION)
    export.downloads("serving", figures, table, setup)
