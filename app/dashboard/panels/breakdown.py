"""The time of prefill and decode by operator class, cause and layer group."""

import streamlit as st

from app.charts import breakdown
from app.dashboard import display_tables, export, sidebar
from app.dashboard.widgets import draw_table
from app.scenario import intervals
from app.scenario.reading import phases_of
from app.scenario.summary import parts_of, step_of
from app.wording import quantities


def draw() -> None:
    """Draw the part."""
    setup, resolved, estimate = sidebar.runnable_setup()
    look = export.look()
    PHASES = phases_of(estimate.model)
    NAMES = {"prefill": "Prefill step", "decode": "Decode step"}
    if len(PHASES) == 1:
        NAMES = {"prefill": "The pass"}
    EXPLANATION = """
The resource that binds an operator gets its **bound**: FLOPs / dense peak, bytes / memory
bandwidth, or message / link bandwidth. What the prediction adds is **launch and inefficiency**:
launches, tiles that do not fill, bandwidth that is not reached. Arithmetic and memory traffic of a
kernel overlap in part: what the one that does not bind adds is in what the other does not reach, so
that twice a resource may save more than is called its own. **Host** is the scheduler's time a
step, **pipeline wait** the time a micro-batch waits for the others. All parts sum to the step.

**80 %**: four of five measurements that fitted nothing lie inside. An operator's interval comes
from kernels of its class, a class adds those of its operators as if all erred the same way, the
whole step's comes from measured runs and is wider. Causes and host time were measured by nobody:
not validated.
"""

    st.caption(sidebar.describe(setup))

    steps = {phase: step_of(estimate, phase) for phase in PHASES}
    parts = {phase: parts_of(step) for phase, step in steps.items()}
    totals = {NAMES[p]: intervals.step_latency(estimate, p) for p in steps}
    by_class = {NAMES[p]: intervals.by_class(step) for p, step in steps.items()}
    classes = breakdown.time_by_class(by_class, totals, look)
    export.chart(classes, "classes", f"Share of {' and '.join(totals)} by operator class")
    st.caption(
        "TTFT is the prefill step; TPOT is the mean decode step over the output. A class's interval is "
        "under the pointer."
        if len(PHASES) > 1
        else "Latency is one pass. A class's interval is under the pointer."
    )

    @st.fragment
    def one_phase() -> None:
        """Draw the choice of a phase, its causes, its layer groups and its operators."""
        phase = st.segmented_control(
            "Phase", PHASES, default=PHASES[-1], required=True,
            key="phase" if len(PHASES) > 1 else "pass", label_visibility="collapsed",
            bind="query-params" if len(PHASES) > 1 else None,
        )  # fmt: skip
        table = intervals.operator_table(steps[phase])
        whole = totals[NAMES[phase]]
        fall = breakdown.waterfall(parts[phase], whole, f"{NAMES[phase]} by cause", look)
        tree = breakdown.icicle(table, resolved.model.name.rpartition("/")[2], look)
        left, right = st.columns(2, gap="medium")
        with left:
            export.chart(fall, "waterfall", f"{NAMES[phase]} from compute to the whole")
        with right:
            export.chart(tree, "icicle", f"{NAMES[phase]} by layer group and operator")

        st.subheader("Operators", anchor=False)
        shown = display_tables.operator_rows(table, phase)
        draw_table(
            display_tables.rounded(shown), "operators",
            height="auto", column_config=display_tables.operator_columns(),
            placeholder=quantities.NOT_VALIDATED,
        )  # fmt: skip
        factor = steps[phase].learned_factor()
        learned = (
            f" In this sum the time beyond the bounds is multiplied by {factor:.3g}, a factor fitted "
            "to measured runs of similar loads."
        )
        st.caption(
            f"Operators, host and pipeline wait sum to {quantities.seconds(whole.seconds)} (80 %: "
            f"{whole.trust}).{learned if factor != 1.0 else ''} The table gives the time of all runs "
            "of an operator in one step."
        )
        figures = {"classes": classes, "waterfall": fall, "layer groups": tree}
        with st.container(horizontal=True):
            with st.popover("How to read this", icon=":material/function:"):
                st.markdown(EXPLANATION)
            export.downloads(f"breakdown-{phase}", figures, shown.drop(columns="id"), setup)

    one_phase()
