"""Times of a phase side by side, and the operators behind the gap."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import streamlit as st

from app.charts import measured, parity
from app.dashboard import export, sidebar
from app.dashboard.panels.compared_run import Priced, show_phases
from app.dashboard.panels.findings import show_findings
from app.dashboard.panels.identity import show_identity, to_sidebar
from app.dashboard.panels.sums import show_sums
from app.dashboard.panels.time_report import show_time_report
from app.dashboard.panels.two_gaps import two_gaps
from app.dashboard.widgets import draw_table
from app.measuring.comparison import COLUMN_HELP, compared, steps_measured, worst
from app.scenario.summary import beyond_bound
from app.wording.markdown import plain
from profilers.compare import in_phase
from profilers.schema import PHASES

NOT_WHAT_RAN = "None is stated: what ran is not what is priced, see above."


def beside_prediction_panel(pricing: Callable[[], Priced]) -> None:
    """Draw what was measured beside its prediction.

    pricing: draws what it is and what it is priced as; it may stop the page.
    """
    setup = sidebar.chosen_setup()
    steps: dict[str, int] = {}
    with sidebar.stopping():
        priced = pricing()
        measurement = priced.measurement
        phases = [p for p in PHASES if p in measurement.phases]
        if not phases:
            phase = st.segmented_control(
                "These reports name no phase; take them for",
                ["prefill", "decode"], default="prefill", required=True, key="measured_phase",
            )  # fmt: skip
            measurement, phases = in_phase(measurement, str(phase)), [str(phase)]
        run_key = "" if priced.reports else f"_{st.session_state['measured_run']}"
        with st.container(horizontal=True):
            for phase in phases:
                steps[phase] = int(
                    st.number_input(
                        f"Steps of {phase} measured", 1, 1_000_000,
                        steps_measured(priced.estimate, measurement, priced.reports, phase),
                        key=f"steps_{phase}{run_key}", width=220,
                        help="A summary adds up all its steps: one a generated token in decode.",
                    )
                )  # fmt: skip
        comparison = compared(priced.estimate, measurement, priced.reports, steps)

    show_phases(comparison)
    if priced.identity:
        show_identity(priced.identity, "measured_identity", to_sidebar)
    show_sums(comparison.checks)

    st.subheader("Findings", anchor=False)
    if priced.apart:
        st.caption(NOT_WHAT_RAN)
    else:
        show_findings(comparison)
        for made in priced.where_time_goes(comparison):
            show_time_report(made)

    look, figures = export.look(), {}
    for row in comparison.phases.to_dict("records"):
        phase = row["phase"]
        rows = comparison.classes[comparison.classes["phase"] == phase]
        causes = beyond_bound(priced.estimate, phase)
        figures[f"gaps {phase}"] = two_gaps(row, rows, causes)
    for phase in comparison.phases["phase"]:
        rows = comparison.classes[comparison.classes["phase"] == phase]
        title = f"{phase.capitalize()} step by operator class"
        figures[phase] = measured.three_bars(rows, title, look)
        export.chart(figures[phase], f"measured-{phase}", title)
    points = measured.operator_points(comparison.operators)
    figures["parity"] = parity.parity(
        points, "class", "Operators, predicted against measured", look
    )
    export.chart(figures["parity"], "measured-parity", "Parity of operators with 10 and 20 % bands")

    st.subheader("Worst ten", anchor=False)
    shown = worst(comparison.operators)
    number, words = st.column_config.NumberColumn, st.column_config.TextColumn
    draw_table(
        shown, "worst_ten", height="auto",
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
