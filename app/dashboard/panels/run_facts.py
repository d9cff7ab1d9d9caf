"""What a measurement says of itself: what ran, its checks, where its time goes, its sweep."""

from collections.abc import Callable, Sequence

import pandas as pd
import streamlit as st

from app.charts import measured_classes
from app.dashboard import export
from app.dashboard.page_texts import page_text
from app.dashboard.question_form import set_controls
from app.dashboard.widgets import card, draw_table, say_each
from app.measuring.comparison import folded
from app.measuring.identity import Known, rows
from app.measuring.outcome import Swept
from app.measuring.time_report import TimeReport
from app.question.parameters import PARAMETERS
from app.wording import quantities
from app.wording.markdown import capital, plain
from profilers.comparison import account
from profilers.comparison.account import Check

#: Most candidates of a fact that are drawn.
_MOST = 6


def show_time_report(report: TimeReport) -> None:
    """Draw a report: the parts with the largest possible gain first, then the changes."""
    total = quantities.seconds(report.total_s)
    st.markdown(f"**Where the time of {plain(report.of)} goes** ({plain(total)})")
    st.markdown("\n".join(f"- {plain(one.sentence)}" for one in report.spent))
    if report.changes:
        advice = report.advice.removesuffix(":")
        st.markdown(f"**{plain(capital(advice))}**")
        st.markdown("\n".join(f"- {plain(one.sentence)}" for one in report.changes))


def show_sums(checks: Sequence[Check], *, in_words: bool = True) -> None:
    """Draw the checks of a measurement.

    in_words: state the failed ones; False if findings, or differences between what ran and the
    scenario, state them.
    """
    if not checks:
        return
    failing = account.failed(tuple(checks))
    if failing and in_words:
        listed = "\n".join(f"- {plain(one.sentence)}" for one in failing)
        st.warning(f"{page_text('failed checks')}\n{listed}", icon=":material/report:")
    counts = {name: sum(one.outcome == name for one in checks) for name in ("passed", "not made")}
    said = f"{counts['passed']} pass, {len(failing)} fail, {counts['not made']} cannot be made"
    with st.expander(f"Consistency checks: {said}", icon=":material/functions:"):
        st.table([{k: plain(v) for k, v in row.items()} for row in account.rows(checks)])


def to_sidebar(name: str, value: str) -> None:
    """Put a candidate into the sidebar's control of its parameter."""
    set_controls({name: value})


def show_identity(facts: Sequence[Known], key: str, choose: Callable[[str, str], None]) -> None:
    """Draw the facts about what ran.

    key: of its buttons.  choose: called with the name of a parameter and the clicked candidate
    before the page is redrawn.
    """
    unsure = [one for one in facts if one.certainty != "certain"]
    counts = ", ".join(
        f"{sum(one.certainty == name for one in facts)} {name}"
        for name in ("certain", "likely", "unknown")
    )
    with st.expander(f"What ran: {counts}", icon=":material/fingerprint:"):
        st.table([{name: plain(text) for name, text in row.items()} for row in rows(facts)])
        for one in unsure:
            if one.field not in PARAMETERS or not one.candidates:
                continue
            words = one.field.replace("_", " ")
            st.caption(f"{words.upper() if len(words) == 2 else words.capitalize()} may also be")
            with st.container(horizontal=True):
                for candidate in one.candidates[:_MOST]:
                    st.button(
                        plain(candidate), on_click=choose, args=(one.field, candidate),
                        key=f"{key}_{one.field}_{candidate}",
                    )  # fmt: skip


def show_sweep(swept: Swept) -> None:
    """Draw the agreement by phase, the chart of the steps and their table."""
    fits = {name: fit for name, fit in swept.agreement.items() if fit.points}
    if fits:
        with st.grid(3, min_column_width=220):
            for name, fit in fits.items():
                words = f"R² {fit.r2:.3f} over {fit.points} points"
                card(f"{name.capitalize()}: MAPE", quantities.percent(fit.mape), words)
        figure = measured_classes.sweep_parity(swept.rows, swept.agreement, export.look())
        export.chart(figure, "sweep")
    say_each(swept.notes, st.caption, "Note: {}")
    table = pd.DataFrame(swept.rows)
    shown = pd.DataFrame(map(folded, swept.rows)).drop(columns="bound_s")
    draw_table(shown, "sweep_rows", height="auto")
    export.save_button("CSV", export.table_csv(export.names_first(table)), "sweep.csv")
