"""A model's layers, folded and unfolded; any operator with its formula, tensors and roofline."""

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app.accuracy import worked_example
from app.charts import layers, roofline
from app.dashboard import cached, export, sidebar
from app.model_inside import builder_and_trace, layer_tree, operator_detail
from app.scenario import intervals
from app.scenario.levers import PHASES
from app.wording import quantities
from genz_core.errors import RidgelineError
from genz_core.step import StepEstimate
from model_registry.graph.model import DecoderModel

setup, resolved, _ = sidebar.priced_setup()
look = export.look()
BUILT, TRACED = "builder", "trace"
figures: dict[str, go.Figure] = {}

st.title("Model inside", anchor=False)
context = quantities.count(builder_and_trace.halfway(setup.scenario))
st.caption(
    sidebar.describe(setup) + f" · one device, decode halfway the output: {context} tokens in cache"
)
with st.container(horizontal=True, vertical_alignment="bottom"):
    phase = st.segmented_control(
        "Phase", PHASES, default="decode", required=True,
        key="inside_phase", bind="query-params", label_visibility="collapsed",
    )  # fmt: skip
    described = isinstance(resolved.model, DecoderModel)
    with_trace = described and st.toggle(
        "Trace beside it", key="with_trace",
        help="Run transformers' own code of this model on the meta device, from its config alone: "
        "no weights, no GPU, nothing fetched.",
    )  # fmt: skip


def priced() -> dict[str, StepEstimate]:
    """The step of each side; a trace that cannot be made is said."""
    own = BUILT if described else TRACED
    steps = {own: builder_and_trace.step(resolved, resolved.model, phase)}
    if with_trace:
        try:
            steps[TRACED] = builder_and_trace.step(resolved, cached.traced(setup), phase)
        except RidgelineError as error:
            st.error(str(error), icon=":material/error:")
    return steps


def opened(side: str, step: StepEstimate) -> set[str]:
    """What is unfolded on a side: at first the layers that take most of the time."""
    key = f"unfolded {side} {setup.scenario.model}"
    if key not in st.session_state:
        closed = [line for line in layer_tree.lines(step, ()) if line.folds]
        longest = max(closed, key=lambda line: line.seconds).id if closed else ""
        inner = {name for name in layer_tree.foldable(step) if name.startswith(f"{longest}.")}
        st.session_state[key] = {longest, *inner}
    return st.session_state[key]


def graph(side: str, step: StepEstimate, chosen: str) -> None:
    """The layer graph of one side; a click folds, unfolds or chooses an operator."""
    unfolded, clicks = opened(side, step), st.session_state.setdefault("inside_clicks", 0)
    here = chosen.partition(" ")[2] if chosen.startswith(f"{side} ") else ""
    figure = layers.layer_graph(layer_tree.lines(step, unfolded), here, look)
    with st.container(horizontal=True, vertical_alignment="center"):
        whole = builder_and_trace.said(builder_and_trace.operators_latency(step))
        st.markdown(f"**{side.capitalize()}:** operators take {whole}")
        everything = set(layer_tree.foldable(step))
        for words, names in (("Unfold all", everything), ("Fold all", set())):
            if st.button(words, key=f"{words} {side}", type="tertiary"):
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


def detail(known: dict[str, tuple[StepEstimate, int]]) -> None:
    """The chosen operator: formula, tensors, its place on the roofline, how its time comes."""
    name = st.selectbox(
        "Operator", list(known), key="inside_operator",
        format_func=lambda one: builder_and_trace.called(
            one, *known[one], with_side=bool(with_trace)
        ),
    )  # fmt: skip
    step, row = known[name]
    op = step.graph.ops[row]
    st.caption(
        f"{op.kind} · {builder_and_trace.place(op)} · {op.count:,.0f} × a step · "
        f"`{op.module or 'model'}`"
    )
    flops = operator_detail.formula(op)
    if flops:
        value = quantities.flops(operator_detail.number(op.flops))
        st.markdown(f"**FLOPs** of a run = {flops.symbols}  \n= {flops.numbers} = **{value}**")
        st.caption(flops.meanings)
    st.dataframe(
        pd.DataFrame(operator_detail.tensor_rows(op)),
        hide_index=True, height="content", key="inside_tensors",
    )  # fmt: skip
    rows = roofline.points(intervals.operator_table(step, 0), phase)
    limits = roofline.frame(rows, resolved.system)
    figure = roofline.only(roofline.roofline(rows, resolved.system, limits, look), f"{phase}:{row}")
    export.chart(figure, "inside_roofline", f"{op.name} on the roofline")
    figures["roofline"] = figure
    with st.expander("How its time is predicted", icon=":material/function:"):
        st.markdown(worked_example.markdown(worked_example.work_through(step, row), phase))


steps = priced()
known = builder_and_trace.operators(steps)
if st.session_state.get("inside_operator") not in known:
    st.session_state["inside_operator"] = next(iter(known))
left, right = st.columns(2, gap="medium")
places = dict(zip(steps, (left, right), strict=False))
for side, step in steps.items():
    with places[side]:
        graph(side, step, st.session_state["inside_operator"])
with right if len(steps) == 1 else st.container():
    detail(known)
if len(steps) == 2:
    st.subheader("Builder and trace", anchor=False)
    models = resolved.model, cached.traced(setup)
    st.dataframe(
        builder_and_trace.beside(*models, steps[BUILT], steps[TRACED]),
        hide_index=True, height="content", key="inside_beside",
    )  # fmt: skip
notes = [note for step in steps.values() for note in step.graph.notes]
if notes:
    with st.expander("How the graph was made", icon=":material/info:"):
        st.markdown("\n".join(f"- {note}" for note in notes))
tables = {side: pd.DataFrame(intervals.operator_table(step)) for side, step in steps.items()}
table = pd.concat([rows.assign(side=side) for side, rows in tables.items()])
export.downloads(f"inside-{phase}", figures, table, setup)
