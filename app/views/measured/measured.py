"""Page Predicted vs measured: times of a phase side by side, and the operators behind the gap."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import streamlit as st

import profilers
from app.charts import measured, parity
from app.dashboard import export, report_uploads, sidebar
from app.dashboard.panels.findings import show_findings
from app.dashboard.panels.sweep import show_sweep
from app.dashboard.panels.what_ran import banner, known
from app.measuring import endpoint_run, run_store
from app.measuring.comparison import COLUMN_HELP, clocks_text, compared, verdict, worst
from app.measuring.filling import Difference, estimate_filled, phase_loads
from app.measuring.outcome import priced_sweep
from app.measuring.prediction import RunContext
from app.wording import quantities
from app.wording.markdown import plain
from genz_core import Estimate
from genz_core.errors import RidgelineError
from profilers import Measurement, Report
from profilers.compare import in_phase, step_count
from profilers.schema import PHASES
from profilers.store import Store
from profilers.what_ran import what_was_kept

REPORTS, RUN = "Reports", "A kept run"
NOT_WHAT_RAN = "None is stated: what ran is not what is priced, see above."


@dataclass(frozen=True, slots=True)
class Priced:
    """A measurement and the estimate beside it.  apart: where what ran says otherwise."""

    measurement: Measurement
    estimate: Estimate
    system: str
    engine: str
    apart: tuple[Difference, ...] = ()
    reports: Sequence[Report] = ()


def kept_run() -> tuple[Store, str]:
    """Draw the choice of a kept run; returns its store and its id.

    Without kept runs the page stops with a sentence.
    """
    kept = [
        (store, run) for store in run_store.stores() for run in store.runs()
        if run.source != endpoint_run.SOURCE  # a load on a server has no operators
    ]  # fmt: skip
    runs, home = [run for _, run in kept], {run.id: store for store, run in kept}
    if not runs:
        st.info("No run is kept yet: measure one on the page Run.", icon=":material/timer:")
        st.stop()
    run = st.selectbox(
        "Run", runs, format_func=lambda run: f"{run.label} on {run.system} · {run.id[:8]}",
        key="measured_run",
    )  # fmt: skip
    return home[run.id], run.id


def own_pricing(store: Store, identity: str) -> Priced:
    """Draw what a kept run ran; returns it with its own model, system and engine, or with the
    scenario's and a warning where those are not known here."""
    chosen = store.load(identity)
    load, ranks = chosen.workload, chosen.facts.get("world_size")
    sizes = f", batch {load.batch:g}, {load.isl:g} + {load.osl:g} tokens" if load else ""
    over = f", TP {ranks}" if ranks else ""
    ran = f"{chosen.model or chosen.source} with the engine {chosen.engine}{sizes}{over}"
    if chosen.facts.get("prompts") and load is None:
        words = "prompts of different lengths: the page Run shows each beside its prediction."
        st.info(f"It ran {plain(ran)}, {words}", icon=":material/format_list_bulleted:")
        st.stop()
    own, context = run_store.own_estimate(store, identity)
    if chosen.steps and context.model is not None and context.system is not None:
        st.caption(f"It ran {plain(ran)}, and is priced for {plain(context.system.name)}.")
        show_swept(chosen, context)
    if own is not None and context.system is not None:
        st.caption(
            f"It ran {plain(ran)}. Its own model, system and engine are priced "
            f"({plain(context.system.name)}, {plain(context.engine.name)}), not the sidebar's."
        )
        return Priced(chosen, own, context.system.name, context.engine.name)
    st.caption(f"It ran {plain(ran)}.")
    for note in context.notes:
        st.warning(f"{plain(note)}. The sidebar's is priced.", icon=":material/warning:")
    _, resolved, estimate = sidebar.priced_setup()
    if chosen.steps:
        show_swept(chosen, RunContext(resolved.model, resolved.system, resolved.engine))
    apart = banner(resolved, what_was_kept(chosen), {})
    return Priced(chosen, estimate, resolved.system.name, resolved.engine.name, apart)


def show_swept(measurement: Measurement, context: RunContext) -> None:
    """Draw a sweep beside its predictions, and stop the page."""
    st.caption(
        "Every step at its own batch and length, on one device: the scenario's play no part."
    )
    show_sweep(priced_sweep(measurement, context))
    st.stop()


def report_pricing() -> Priced:
    """Draw the upload box; returns the reports with the scenario's estimate.

    Without reports the page stops with a sentence.
    """
    report_uploads.pattern_box()
    uploaded = list(report_uploads.picker("measured").values())
    if not uploaded:
        st.info(
            "Upload the reports of one run (stages, ranks), or try a sample.",
            icon=":material/upload_file:",
        )
        st.stop()
    setup, resolved, estimate = sidebar.priced_setup()
    st.caption(f"The prediction is the sidebar's: {sidebar.describe(setup)}.")
    patterns = st.session_state.get("phase_patterns", profilers.DEFAULT_PHASES)
    reports, ran = known(uploaded, patterns)
    loads = phase_loads(resolved, ran)
    apart = banner(resolved, ran, loads)
    if loads:
        estimate = estimate_filled(resolved, loads)
    measurement = profilers.measure_from(reports, patterns)
    names = resolved.system.name, resolved.engine.name
    return Priced(measurement, estimate, *names, apart, reports)


st.title("Predicted vs measured", anchor=False)
setup = sidebar.chosen_setup()
source = st.segmented_control(
    "Measured in", (REPORTS, RUN), default=REPORTS, required=True, key="measured_source"
)
steps: dict[str, int] = {}
try:
    priced = report_pricing() if source == REPORTS else own_pricing(*kept_run())
    measurement = priced.measurement
    phases = [p for p in PHASES if p in measurement.phases]
    if not phases:
        phase = st.segmented_control(
            "These reports name no phase; take them for",
            ["prefill", "decode"], default="prefill", required=True, key="measured_phase",
        )  # fmt: skip
        measurement, phases = in_phase(measurement, str(phase)), [str(phase)]
    run_key = "" if priced.reports else f"_{st.session_state['measured_run'].id}"
    with st.container(horizontal=True):
        for phase in phases:
            steps[phase] = int(
                st.number_input(
                    f"Steps of {phase} measured", 1, 1_000_000, step_count(measurement, phase),
                    key=f"steps_{phase}{run_key}", width=220,
                    help="A summary adds up all its steps: one a generated token in decode.",
                )
            )  # fmt: skip
    comparison = compared(priced.estimate, measurement, priced.reports, steps)
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
if priced.apart:
    st.caption(NOT_WHAT_RAN)
else:
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
    f"Priced for {plain(priced.system)}, engine {plain(priced.engine)}."
)
table = pd.concat([comparison.classes, comparison.operators], ignore_index=True)
export.downloads("measured", figures, table, setup)
