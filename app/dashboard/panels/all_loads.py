"""Throughput over the load and interactivity, for several degrees, and the measured runs used."""

import streamlit as st

from app.answers.columns import COLUMNS
from app.charts import serving
from app.dashboard import caches, display_tables, export, load_curves
from app.dashboard.load_curves import load_of, under
from app.dashboard.page_texts import page_text
from app.dashboard.widgets import draw_table, say_each
from app.scenario import runs_behind as behind
from app.scenario.setup import Setup
from app.wording.markdown import plain
from genz_core.measured_runs import SIZES

_HEADS = {
    f"{what}_{name}": words.format(COLUMNS[name].head)
    for name in ("tpot_s", "ttft_s")
    for what, words in (
        ("measured", "{} measured [s]"),
        ("of_physics", "{}, measured / uncorrected"),
    )
} | {
    f"{what}_{latent}": words.format(head)
    for latent, head in (("steps", "steps"), ("wait", "first token"))
    for what, words in (("learned", "factor on {}"), ("weight", "weight in {}"))
}
#: Columns that say what ran, which stand first.
_RAN = ("run", "model", "system", "weights", *SIZES)


def all_loads(setup: Setup) -> None:
    """Draw throughput over the load and the trade against interactivity, with their table.

    setup: one that can run.
    """
    asked = load_of(setup)
    setup = under(setup, asked)
    row = load_curves.one_load(setup)
    load, tp, look = asked.name, setup.scenario.tp, export.look()
    table, at = load_curves.with_load(load_curves.curve(setup, load), row, load)
    warnings = () if setup.if_fitted else load_curves.load_warnings(table, load)
    say_each(warnings, st.warning, icon=":material/warning:")
    shown = load_curves.without_waiting(table, load)
    mine = f"TP{tp} (this scenario)"
    curves = {mine: shown}
    others = tuple(sorted({1, 2, 4, 8} - {tp}))
    for degree, other in load_curves.curves_at(setup, load, others).items():
        if other["status"].eq("ok").any():
            curves[f"TP{degree}"] = load_curves.without_waiting(other, load)
    marked = {mine: at} if at < len(shown) else {}
    figures = {
        "throughput": serving.throughput(table, load, look),
        "trade": serving.throughput_over_interactivity(curves, load, marked, look),
    }
    serving.mark_load(figures["throughput"], asked.value, asked.words, look)
    export.beside("serving", figures)
    loads = "users" if load == "concurrency" else "requests/s"
    st.caption(page_text("throughput and speed", loads=loads))
    if not setup.if_fitted:
        _runs_behind(setup)
    display_tables.draw_figures(table, "serving_table")
    export.downloads("serving", figures, table, setup)


def _runs_behind(setup: Setup) -> None:
    resolved = caches.deployed(setup)
    rows = behind.runs_behind(resolved)
    title = "Measured runs behind this prediction"
    with st.expander(title, icon=":material/format_list_numbered:"):
        if not rows:
            st.caption(page_text("no runs behind", engine=plain(resolved.engine.name)))
            return
        st.caption(page_text("runs behind"))
        draw_table(
            rows, "serving_runs",
            height="auto", column_config=dict(_HEADS),
            column_order=list(dict.fromkeys((*_RAN, *_HEADS, *rows[0]))),
        )  # fmt: skip
