"""How far off the predictions are, in public: errors by what the points were to the fit."""

from collections.abc import Sequence

import pandas as pd
import plotly.graph_objects as go
import streamlit as st

from app import accuracy, exports, inputs, pricing, suspicions, validated, validation, worked
from app.charts import accuracy as charts
from app.panels import Points, pair, table

AREAS = ("Operators", "Batch points", "Serving", "How a number is made")
GROUPS = {
    "Batch points": ("phase", "system", "engine", "model", "weights", "source"),
    "Serving": ("system", "engine", "model", "weights", "concurrency", "origin"),
}
NAMES = {"fmt": "format", "tpot_s": "TPOT", "ttft_s": "TTFT"}
look = exports.look()


def choice(label: str, options: Sequence[str], key: str) -> str:
    """One of some columns or figures, said as a reader knows them; kept in the address."""
    return st.segmented_control(
        label, options, default=options[0], required=True, key=key, bind="query-params",
        format_func=lambda name: NAMES.get(name, name),
    )  # fmt: skip


def operators() -> None:
    series = accuracy.operator_series()
    if not series:
        st.info("No operator was validated yet.")
        st.stop()
    matrix = accuracy.operator_matrix(series)
    st.markdown(accuracy.operator_sentence(matrix))
    figure = charts.by_split(matrix, accuracy.OPERATOR_SPLITS, look)
    exports.chart(figure, "accuracy-operators", "Error of each operator by split")
    figures = {"operators": figure} | operator_parity(accuracy.operator_points())
    meaning = "; ".join(f"**{name}**: {words}" for name, words in accuracy.OPERATOR_SPLITS.items())
    table("Mean absolute error by split [%]", matrix, "operator_matrix", meaning)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        by = choice("By", ["system", "fmt", "family"], "accuracy_operators_by")
        split = st.selectbox(
            "Split", list(accuracy.OPERATOR_SPLITS), index=2,
            key="accuracy_split", bind="query-params",
        )  # fmt: skip
    chosen = [row for row in series if row["split"] == split]
    grouped = accuracy.operator_summary(chosen, ("operator", by))
    table(f"Every operator, {split} [%]", grouped, "operator_groups")
    table("80 % intervals of one operator", accuracy.operator_intervals(), "operator_intervals",
          "Measured over predicted on points that fitted nothing, by what the device's constants "
          "are fitted on.")  # fmt: skip
    worst = sorted(chosen, key=lambda row: -row["mape %"])[:20]
    table(f"Worst twenty series, {split}", suspicions.of_series(worst), "operator_worst")
    table("Peers", accuracy.peers("operators"), "operator_peers")
    exports.downloads("accuracy-operators", figures, pd.DataFrame(series), setup)


def operator_parity(points: Points) -> dict[str, go.Figure]:
    """Predicted over measured on held-out shapes, where the draw of points is there."""
    if not points:
        return {}
    by = choice("Colour", ["operator", "system", "fmt"], "accuracy_colour")
    figures = pair(points, by, "Held-out shapes", "operators")
    st.caption(
        f"{len(points):,} points, up to twelve of every operator, device and format, spread over "
        f"the range of its latencies ({points[0]['data']}, {points[0]['date']})."
    )
    return figures


def measured(area: str) -> None:
    rows = validated.rows(area.casefold())
    serving = area == "Serving"
    metric = choice("Figure", ["tpot_s", "ttft_s"], "accuracy_metric") if serving else None
    by = choice("By", GROUPS[area], f"accuracy_by_{'serving' if serving else 'batch'}")
    shown = [row for row in rows if metric in (None, row["metric"])]
    metrics = (metric,) if metric else accuracy.BATCH_METRICS
    splits = accuracy.fit_errors(metrics)
    st.markdown(accuracy.split_sentence(splits, metrics[-1]))
    st.caption(f"Charts and the tables by {by} show the constants as they ship: in sample.")
    figures = pair(shown, by, "Predicted over measured", area)
    table("Errors by split [%]", splits, "splits",
          "; ".join(accuracy.split_words(splits)))  # fmt: skip
    table("All rows, in sample [%]", validation.summary(shown, ("metric",)), "all_rows",
          accuracy.AS_SHIPPED)  # fmt: skip
    table(f"By {by}, in sample [%]", validation.summary(shown, (by,)), "by_column")
    if serving:
        table("After runs of your own [%]", accuracy.own_runs(metrics), "own_runs",
              accuracy.OWN_RUNS)  # fmt: skip
    table("80 % intervals, do they hold?", accuracy.coverage(metrics), "coverage",
          "On points that fitted neither the prediction nor the interval. By what was known: "
          + accuracy.KNOWN)  # fmt: skip
    table("Peers", accuracy.peers("serving" if serving else "published", metric or ""), "peers",
          "As their sources state them; their rows are not always ours.")  # fmt: skip
    worst = suspicions.of_worst(rows, validation.worst(shown))
    table("Worst twenty", suspicions.brief(worst), "worst",
          "Suspected by rules that look at the run; not a finding.")  # fmt: skip
    exports.downloads(f"accuracy-{area}", figures, pd.DataFrame(shown), setup)


def one_number() -> None:
    _, asked, estimate = inputs.answer()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        phase = st.segmented_control(
            "Phase", pricing.PHASES, default="prefill", required=True,
            key="made_phase", bind="query-params",
        )  # fmt: skip
        step = pricing.step_of(estimate, phase)
        names = accuracy.by_time(step)
        row = st.selectbox("Operator", list(names), format_func=names.get, key=f"made_{phase}")
    work = worked.worked(step, row)
    st.caption(inputs.describe(setup) + f" · engine {asked.engine.name} · the sidebar's scenario")
    st.markdown(worked.markdown(work, phase))
    table("Its constants", worked.constants(work), "constants")
    st.markdown(worked.step_words(estimate, phase))


setup = inputs.asked()
st.title("Accuracy", anchor=False)
area = st.segmented_control(
    "What", AREAS, default=AREAS[0], required=True, key="accuracy_area",
    bind="query-params", label_visibility="collapsed",
)  # fmt: skip
if area == "Operators":
    operators()
elif area == "How a number is made":
    one_number()
else:
    measured(area)
