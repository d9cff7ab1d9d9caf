"""Page Accuracy: errors of operators, batch points and serving by split, and a worked example."""

from collections.abc import Sequence

import streamlit as st

from app.accuracy import likely_causes, measured_points, shipped_errors, worked_example
from app.accuracy.tables import rows_of
from app.charts import parity
from app.dashboard import explanations, export, job_results, sidebar
from app.dashboard.load_curves import batches_words
from app.dashboard.page_texts import page_text
from app.dashboard.widgets import choose, parity_and_errors, pick, titled_table
from app.scenario.levers import PHASES
from app.scenario.summary import step_of
from app.wording.markdown import plain
from hardware_db.profiles.validation import OPERATOR_SPLITS

AREAS = ("Operators", "Batch points", "Serving", "How a number is made")
GROUPS = {
    "Batch points": ("phase", "system", "engine", "model", "weights", "source"),
    "Serving": ("system", "engine", "model", "weights", "concurrency", "origin"),
}
NAMES = {"fmt": "format", "tpot_s": "TPOT", "ttft_s": "TTFT"}
look = export.look()


def choice(label: str, options: Sequence[str], key: str) -> str:
    """Draw a choice among columns or figures, bound to the address; returns its name."""
    return pick(label, options, key, format_func=lambda name: NAMES.get(name, name), width=160)


def operators() -> None:
    """Draw the area Operators: errors by split, held-out shapes, intervals, worst series, peers."""
    series = shipped_errors.operator_series()
    if not series:
        st.info("No operator has been validated yet.")
        st.stop()
    matrix = shipped_errors.operator_matrix(series)
    st.markdown(shipped_errors.operator_sentence(matrix))
    figure = parity.errors_by_split(matrix, OPERATOR_SPLITS, look)
    export.chart(figure, "accuracy-operators")
    figures = {"operators": figure}
    if points := shipped_errors.operator_points():
        by = choice("Colour", ["operator", "system", "fmt"], "accuracy_colour")
        figures |= parity_and_errors(points, by, "Held-out shapes", "operators")
        first, number = rows_of(points, [0])[0], len(points["label"])
        st.caption(page_text("held-out shapes", points=number, first=first))
    meaning = "; ".join(f"**{name}**: {words}" for name, words in OPERATOR_SPLITS.items())
    titled_table("Mean absolute error by split [%]", matrix, "operator_matrix", meaning)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        by = choice("By", ["system", "fmt", "family"], "accuracy_operators_by")
        split = pick("Split", list(OPERATOR_SPLITS), "accuracy_split", index=2)
    chosen = [row for row in series if row["split"] == split]
    grouped = shipped_errors.operator_summary(chosen, ("operator", by))
    titled_table(f"Every operator, {split} [%]", grouped, "operator_groups")
    titled_table("80 % intervals of one operator", shipped_errors.operator_intervals(),
                 "operator_intervals", shipped_errors.FITTED_ON)  # fmt: skip
    far = sorted(chosen, key=lambda row: -row["mape %"])[:20]
    worst = likely_causes.suspected_series(far)
    titled_table(f"Worst twenty series, {split}", worst, "operator_worst")
    titled_table("Other tools", shipped_errors.peers("operators"), "operator_peers")
    export.downloads("accuracy-operators", figures, series, setup, of_setup=False)


def measured_points_area(area: str) -> None:
    """Draw the area "Batch points" or "Serving": errors by split and column, worst rows, peers."""
    serving = area == "Serving"
    with st.container(horizontal=True):
        metric = choice("Figure", ["tpot_s", "ttft_s"], "accuracy_metric") if serving else None
        by = choice("By", GROUPS[area], f"accuracy_by_{'serving' if serving else 'batch'}")
    metrics = (metric,) if metric else shipped_errors.BATCH_METRICS
    splits = shipped_errors.fit_errors(metrics)
    st.markdown(shipped_errors.split_sentence(splits, metrics[-1]))
    st.caption(f"Charts and the tables by {by} use the shipped constants, so they are in-sample.")
    with sidebar.stopping():
        records = job_results.measured_records(area.casefold())
    shown = measured_points.of_metric(records, metric) if records and metric else records or {}
    figures = parity_and_errors(shown, by, "Predicted over measured", area) if shown else {}
    meanings = "; ".join(shipped_errors.split_words(splits))
    titled_table("Errors by split [%]", splits, "splits", meanings)
    if shown:
        in_sample = measured_points.error_table(shown, ("metric",))
        titled_table("All rows, in sample [%]", in_sample, "all_rows", shipped_errors.AS_SHIPPED)
        by_column = measured_points.error_table(shown, (by,))
        titled_table(f"By {by}, in sample [%]", by_column, "by_column")
    if serving:
        own = shipped_errors.own_run_errors(metrics)
        titled_table("After your own runs [%]", own, "own_runs", shipped_errors.OWN_RUNS)
    coverage = shipped_errors.interval_coverage(metrics)
    titled_table("80 % intervals, do they hold?", coverage, "coverage", shipped_errors.COVERAGE)
    peers = shipped_errors.peers("serving" if serving else "published", metric or "")
    titled_table("Other tools", peers, "peers", page_text("peers"))
    if not records:
        return
    suspected = likely_causes.suspected_records(records, measured_points.worst(shown))
    worst = likely_causes.brief(suspected)
    titled_table("Worst twenty", worst, "worst", page_text("suspected causes"))
    export.downloads(f"accuracy-{area}", figures, shown, setup, of_setup=False)


def one_number() -> None:
    """Draw the area How a number is made: an operator of the sidebar's scenario worked through."""
    batch, resolved, estimate = sidebar.priced_setup()
    sidebar.say_trace()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        phase = choose("Phase", PHASES, "made_phase", default="prefill")
        step = step_of(estimate, phase)
        names = worked_example.operators_by_time(step)
        row = st.selectbox("Operator", list(names), format_func=names.get, key=f"made_{phase}")
    work = worked_example.work_through(step, row)
    st.caption(f"{sidebar.describe(batch)} · engine {plain(resolved.engine.name)}")
    if setup.scenario.kind != "batch":
        st.caption(batches_words({"": batch}))
    st.markdown(worked_example.markdown(work, phase))
    titled_table("Its constants", worked_example.constant_rows(work), "constants")
    st.markdown(worked_example.step_markdown(estimate, phase))


setup = sidebar.chosen_setup()
st.title("Accuracy", anchor=False)
explanations.for_your_scenario(setup)
of_question = "Batch points" if setup.scenario.kind == "batch" else "Serving"
area = choose("What", AREAS, "accuracy_area", default=of_question, label_visibility="collapsed")
if area == "Operators":
    operators()
elif area == "How a number is made":
    one_number()
else:
    measured_points_area(area)
