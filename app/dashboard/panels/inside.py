"""The graph of a step with layers to expand; builder and trace side by side."""

import streamlit as st

from app.charts import layers
from app.charts.figure import Figure
from app.dashboard import caches, export, tracing
from app.dashboard.page_texts import page_text
from app.dashboard.panels.operators import Step, choose
from app.dashboard.widgets import draw_table, saying_errors
from app.model_inside import builder_and_trace, layer_tree
from app.wording.markdown import plain
from genz_core.steps.step_estimate import StepEstimate
from model_registry.graph.model import DescribedModel

BUILT, TRACED = "builder", "trace"


def draw(step: Step) -> dict[str, Figure]:
    """Draw the graph of the step, with the trace below it where asked; returns the charts."""
    described = isinstance(caches.resolved(step.setup).model, DescribedModel)
    steps = _sides(step, described)
    own = next(iter(steps))
    figures = {
        f"layers {side}": _graph(side, one, step, own=side == own) for side, one in steps.items()
    }
    if len(steps) == 2:
        models = caches.resolved(step.setup).model, caches.traced(step.setup)
        beside = builder_and_trace.compared_figures(models, (steps[BUILT], steps[TRACED]))
        draw_table(beside, "inside_beside")
    if notes := [note for one in steps.values() for note in one.graph.notes]:
        with st.expander("Source of the graph", icon=":material/info:"):
            st.markdown("\n".join(f"- {plain(note)}" for note in notes))
    return figures


def _sides(step: Step, described: bool) -> dict[str, StepEstimate]:
    """The priced step of the builder, the trace or both; shows why a trace cannot be made."""
    deployment = caches.resolved(step.setup)
    with_trace = described and st.toggle(
        "Compare with a trace", key="with_trace", help=page_text("trace")
    )
    own = BUILT if described else TRACED
    steps = {own: builder_and_trace.priced_step(deployment, deployment.model, step.phase)}
    with saying_errors():
        if with_trace and tracing.is_trace_ready(step.setup, described=True):
            trace = caches.traced(step.setup)
            steps[TRACED] = builder_and_trace.priced_step(deployment, trace, step.phase)
    return steps


def _graph(side: str, one: StepEstimate, step: Step, *, own: bool) -> Figure:
    """Draw the layer graph of one side; a click expands, collapses or selects an operator.

    own: whether its operators are those of the table.
    """
    key = f"unfolded {side} {step.setup.scenario.model}"  # lines that are expanded, by their ids
    unfolded = st.session_state.setdefault(key, layer_tree.costliest_group(one))
    clicks = st.session_state.setdefault("inside_clicks", 0)
    chosen = f"op:{step.chosen}" if own and step.chosen is not None else ""
    figure = layers.layer_graph(layer_tree.graph_lines(one, unfolded), chosen, step.look)
    with st.container(horizontal=True, vertical_alignment="center"):
        words = builder_and_trace.latency_words(builder_and_trace.operators_latency(one))
        st.markdown(f"**{side.capitalize()}:** operators take {words}")
        everything = set(layer_tree.foldable(one))
        for label, names in (("Unfold all", everything), ("Fold all", set())):
            if st.button(label, key=f"{label} {side}", type="tertiary"):
                st.session_state[key] = names
                st.rerun()
    points = export.chart(figure, f"layers-{side}-{clicks}", f"Layers, {side}", select=True)
    for point in points[:1]:
        name = point["customdata"][0]
        st.session_state["inside_clicks"] = clicks + 1
        if name.startswith("op:") and own:
            choose([f"{step.phase}:{name[3:]}"], f"layers-{side}-{clicks}")
        if not name.startswith("op:"):
            unfolded.symmetric_difference_update({name})
        st.rerun()
    return figure
