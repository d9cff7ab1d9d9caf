"""Layers to fold and unfold; an operator's formula, tensors and roofline."""

import pandas as pd
import streamlit as st

from app.accuracy import worked_example
from app.charts import layers, roofline
from app.charts.figure import Figure
from app.dashboard import cached, export, sidebar, tracing
from app.dashboard.widgets import choose, draw_table
from app.model_inside import builder_and_trace, layer_tree, operator_detail
from app.scenario import intervals
from app.scenario.levers import PHASES
from app.wording import quantities
from app.wording.markdown import plain
from genz_core.errors import RidgelineError
from genz_core.step import StepEstimate
from model_registry.graph.model import DescribedModel


def draw() -> None:
    """Draw the part."""
    setup = sidebar.priced_setup()[0]
    deployment = cached.resolved(setup)
    look = export.look()
    BUILT, TRACED = "builder", "trace"
    figures: dict[str, Figure] = {}

    context = quantities.count(builder_and_trace.halfway_context(setup.scenario))
    st.caption(
        sidebar.describe(setup)
        + f" · one device, decode halfway the output: {context} tokens in cache"
    )
    with st.container(horizontal=True, vertical_alignment="bottom"):
        phase = choose(
            "Phase", PHASES, "inside_phase", default="decode", label_visibility="collapsed"
        )
        described = isinstance(deployment.model, DescribedModel)
        with_trace = described and st.toggle(
            "Trace beside it", key="with_trace",
            help="Run transformers' own code of this model on the meta device, from its config alone: "
            "no weights, no GPU, nothing fetched.",
        )  # fmt: skip

    def steps_by_side() -> dict[str, StepEstimate]:
        """The priced step of the builder, the trace or both; shows why a trace cannot be made."""
        own = BUILT if described else TRACED
        steps = {own: builder_and_trace.priced_step(deployment, deployment.model, phase)}
        try:
            if with_trace and (trace := tracing.trace_beside(setup)):
                steps[TRACED] = builder_and_trace.priced_step(deployment, trace, phase)
        except RidgelineError as error:
            st.error(plain(error), icon=":material/error:")
        return steps

    def unfolded_ids(side: str, step: StepEstimate) -> set[str]:
        """Ids of the lines unfolded on a side, to change in place: at first the costliest layers."""
        key = f"unfolded {side} {setup.scenario.model}"
        if key not in st.session_state:
            st.session_state[key] = layer_tree.costliest_group(step)
        return st.session_state[key]

    def graph(side: str, step: StepEstimate, operator: str) -> None:
        """Draw the layer graph of one side; a click folds, unfolds or chooses an operator.

        operator: the key of the chosen operator.
        """
        unfolded, clicks = unfolded_ids(side, step), st.session_state.setdefault("inside_clicks", 0)
        chosen_id = operator.partition(" ")[2] if operator.startswith(f"{side} ") else ""
        figure = layers.layer_graph(layer_tree.graph_lines(step, unfolded), chosen_id, look)
        with st.container(horizontal=True, vertical_alignment="center"):
            words = builder_and_trace.latency_words(builder_and_trace.operators_latency(step))
            st.markdown(f"**{side.capitalize()}:** operators take {words}")
            everything = set(layer_tree.foldable(step))
            for label, names in (("Unfold all", everything), ("Fold all", set())):
                if st.button(label, key=f"{label} {side}", type="tertiary"):
                    unfolded.clear()
                    unfolded.update(names)
                    st.rerun()
        figures[f"layers {side}"] = figure
        points = export.chart(figure, f"layers-{side}-{clicks}", f"Layers, {side}", select=True)
        for point in points[:1]:
            name = point["customdata"][0]
            st.session_state["inside_clicks"] = clicks + 1
            if name.startswith("op:"):
                st.session_state["inside_operator"] = f"{side} {name}"
            else:
                unfolded.symmetric_difference_update({name})
            st.rerun()

    def detail(operators: dict[str, tuple[StepEstimate, int]]) -> None:
        """Draw the chosen operator: formula, tensors, its place on the roofline, terms of its time.

        operators: of `builder_and_trace.operators_by_key`.
        """
        chosen = st.selectbox(
            "Operator", list(operators), key="inside_operator",
            format_func=lambda key: builder_and_trace.operator_label(
                key, *operators[key], with_side=bool(with_trace)
            ),
        )  # fmt: skip
        step, row = operators[chosen]
        op = step.graph.ops[row]
        st.caption(
            f"{op.kind} · {builder_and_trace.operator_place(op)} · {op.count:,.0f} × a step · "
            f"`{op.module or 'model'}`"
        )
        flops = operator_detail.flops_formula(op)
        if flops:
            value = quantities.flops(operator_detail.scalar(op.flops))
            st.markdown(f"**FLOPs** of a run = {flops.symbols}  \n= {flops.numbers} = **{value}**")
            st.caption(flops.meanings)
        draw_table(operator_detail.tensor_rows(op), "inside_tensors")
        rows = roofline.operator_points(intervals.operator_table(step, 0), phase)
        limits = roofline.frame(rows, deployment.system)
        figure = roofline.highlighted(
            roofline.roofline(rows, deployment.system, limits, look), f"{phase}:{row}"
        )
        export.chart(figure, "inside_roofline", f"{op.name} on the roofline")
        figures["roofline"] = figure
        with st.expander("How its time is predicted", icon=":material/function:"):
            st.markdown(worked_example.markdown(worked_example.work_through(step, row), phase))

    steps = steps_by_side()
    operators = builder_and_trace.operators_by_key(steps)
    if st.session_state.get("inside_operator") not in operators:
        st.session_state["inside_operator"] = next(iter(operators))
    left, right = st.columns(2, gap="medium")
    places = dict(zip(steps, (left, right), strict=False))
    for side, step in steps.items():
        with places[side]:
            graph(side, step, st.session_state["inside_operator"])
    with right if len(steps) == 1 else st.container():
        detail(operators)
    if len(steps) == 2:
        st.subheader("Builder and trace", anchor=False)
        models = deployment.model, cached.traced(setup)
        beside = builder_and_trace.compared_figures(models, (steps[BUILT], steps[TRACED]))
        draw_table(beside, "inside_beside")
    notes = [note for step in steps.values() for note in step.graph.notes]
    if notes:
        with st.expander("How the graph was made", icon=":material/info:"):
            st.markdown("\n".join(f"- {plain(note)}" for note in notes))
    tables = [
        pd.DataFrame(intervals.operator_table(s)).assign(side=name) for name, s in steps.items()
    ]
    export.downloads(f"inside-{phase}", figures, pd.concat(tables), setup)
