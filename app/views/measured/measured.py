"""Page Predicted vs measured: times of a phase side by side, and the operators behind the gap."""

import pandas as pd
import streamlit as st

import profilers
from app.charts import measured, parity
from app.dashboard import export, report_uploads, sidebar
from app.dashboard.panels.findings import show_findings
from app.dashboard.panels.sweep import show_sweep
from app.measuring import run_store
from app.measuring.comparison import COLUMN_HELP, clocks_text, compared, verdict, worst
from app.measuring.outcome import priced_sweep
from app.measuring.prediction import RunContext
from app.wording import quantities
from app.wording.markdown import plain
from genz_core.errors import RidgelineError
from profilers import Measurement, Report
from profilers.compare import in_phase, step_count
from profilers.schema import PHASES

REPORTS, RUN = "Reports", "A kept run"


def kept_run() -> Measurement:
    """Draw the choice of a kept run and its workload; returns its measurement.

    Without kept runs the page stops with a sentence.
    """
    kept = [(store, run) for store in run_store.stores() for run in store.runs()]
    runs, home = [run for _, run in kept], {run.id: store for store, run in kept}
    if not runs:
        st.info("No run is kept yet: measure one on the page Run.", icon=":material/timer:")
        st.stop()
    run = st.selectbox(
        "Run", runs, format_func=lambda run: f"{run.label} on {run.system} · {run.id[:8]}",
        key="measured_run",
    )  # fmt: skip
    chosen = home[run.id].load(run.id)
    load, ranks = chosen.workload, chosen.facts.get("world_size")
    sizes = f", batch {load.batch:g}, {load.isl:g} + {load.osl:g} tokens" if load else ""
    over = f", TP {ranks}" if ranks else ""
    ran = f"{run.model or run.label} with the engine {run.engine}{sizes}{over}"
    st.caption(f"It ran {plain(ran)}.")
    return chosen


def show_swept(measurement: Measurement) -> None:
    """Draw a sweep priced with the scenario's model, system and engine, and stop the page."""
    st.caption(
        "Every step at its own batch and length, on one device: the scenario's play no part."
    )
    context = RunContext(resolved.model, resolved.system, resolved.engine)
    show_sweep(priced_sweep(measurement, context))
    st.stop()


setup, resolved, estimate = sidebar.priced_setup()
st.title("Predicted vs measured", anchor=False)
st.caption(
    f"The prediction is the sidebar's: {sidebar.describe(setup)}. Set it to what ran: model, "
    "system, engine, batch and lengths."
)
source = st.segmented_control(
    "Measured in", (REPORTS, RUN), default=REPORTS, required=True, key="measured_source"
)
uploaded: list[Report] = []
if source == REPORTS:
    report_uploads.pattern_box()
    uploaded = list(report_uploads.picker("measured").values())
    if not uploaded:
        st.info(
            "Upload the reports of one run (stages, ranks), or try a sample.",
            icon=":material/upload_file:",
        )
        st.stop()

steps: dict[str, int] = {}
try:
    measurement = profilers.measure_from(uploaded) if uploaded else kept_run()
    if measurement.steps:
        show_swept(measurement)
    phases = [p for p in PHASES if p in measurement.phases]
    if not phases:
        phase = st.segmented_control(
            "These reports name no phase; take them for",
            ["prefill", "decode"], default="prefill", required=True, key="measured_phase",
        )  # fmt: skip
        measurement, phases = in_phase(measurement, str(phase)), [str(phase)]
    run_key = "" if uploaded else f"_{st.session_state['measured_run'].id}"
    with st.container(horizontal=True):
        for phase in phases:
            steps[phase] = int(
                st.number_input(
                    f"Steps of {phase} measured", 1, 1_000_000, step_count(measurement, phase),
                    key=f"steps_{phase}{run_key}", width=220,
                    help="A summary adds up all its steps: one a generated token in decode.",
                )
            )  # fmt: skip
    comparison = compared(estimate, measurement, uploaded, steps)
except RidgelineError as error:
    sidebar.stop(error)

with st.grid(4, min_column_width=230):
    for row in comparison.phases.to_dict("records"):
        st.metric(
            f"{plain(row['phase'].capitalize())}, measured",
            quantities.seconds(row["measured_s"]),
            f"{quantities.change(row['predicted_s'], row['measured_s'])} against "
            f"{quantities.seconds(row['predicted_s'])} predicted",
            delta_color="off", delta_arrow="off", border=True,
            help=f"Bound {quantities.seconds(row['bound_s'])} a step; {plain(row['basis'])} clock.",
        )  # fmt: skip
        if row["wall_s"] > 0 and row["wall_s"] != row["measured_s"]:
            st.metric(
                f"{plain(row['phase'].capitalize())}, wall time",
                quantities.seconds(row["wall_s"]),
                f"busy for {quantities.seconds(row['busy_s'])}, "
                f"{quantities.seconds(row['predicted_wall_s'])} predicted",
                delta_color="off", delta_arrow="off", border=True,
                help="From the first to the last activity of a step on the device; the prediction "
                "has the host's time in it.",
            )  # fmt: skip

for row in comparison.phases.to_dict("records"):
    st.caption(plain(verdict(row, comparison.classes)))
    st.caption(plain(clocks_text(row)))
for note in comparison.notes:
    st.caption(plain(f"{note[:1].upper()}{note[1:]}."))

st.subheader("Findings", anchor=False)
show_findings(comparison)

look, figures = export.look(), {}
for phase in comparison.phases["phase"]:
    rows = comparison.classes[comparison.classes["phase"] == phase]
    title = f"{phase.capitalize()} step by operator class"
    figures[phase] = measured.three_bars(rows, title, look)
    export.chart(figures[phase], f"measured-{phase}", title)
points = measured.operator_points(comparison.operators)
figures["parity"] = parity.parity(points, "class", "Operators, predicted against measured", look)
export.chart(figures["parity"], "measured-parity", "Parity of operators with 10 and 20 % bands")

st.subheader("Worst ten", anchor=False)
shown = worst(comparison.operators)
number, words = st.column_config.NumberColumn, st.column_config.TextColumn
st.dataframe(
    shown, hide_index=True, key="worst_ten",
    column_config={name: number(format="%.4g") for name in shown.columns if "[µs]" in name}
    | {name: words(name.replace("_", " "), help=text) for name, text in COLUMN_HELP.items()}
    | {
        "name": words("operator", width="medium"),
        "ratio": number(format="%.4g", help="Measured over predicted"),
        "share of gap": number(format="percent", help="Of all gaps of the phase, signed"),
    },
)  # fmt: skip
st.caption(
    "An operator meets its launches by the modules around them, the shapes of their operands, "
    "their place in the layers, or their FLOPs; without launches, as the rest of its class. "
    f"Priced for {plain(resolved.system.name)}, engine {plain(resolved.engine.name)}."
)
table = pd.concat([comparison.classes, comparison.operators], ignore_index=True)
export.downloads("measured", figures, table, setup)
