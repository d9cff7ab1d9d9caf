"""The pinned scenarios side by side, or the sidebar's if none is pinned."""

from collections.abc import Mapping

import pandas as pd
import streamlit as st

from app.charts import changes
from app.charts.figure import Figure
from app.dashboard import (
    caches,
    display_tables,
    export,
    own_definitions,
    pinned_scenarios,
    sidebar,
    strip,
)
from app.dashboard.load_curves import as_batch, batches_words, one_load
from app.dashboard.page_texts import page_text
from app.dashboard.panels.compare_by import by_class
from app.dashboard.widgets import choose, draw_table, each_answered
from app.scenario import operator_intervals, summary
from app.scenario.description import load_words
from app.scenario.encoder_figures import of_kind
from app.scenario.intervals import Ranged
from app.scenario.levers import phases_of
from app.scenario.setup import Setup, setup_from
from app.scenario.summary import parts_of, step_of
from app.wording import quantities
from app.wording.markdown import plain
from genz_core import Estimate

_STATIC = ("batch", "trace")
CAUSE, CLASS = "cause", "operator class"


def show(setup: Setup) -> None:
    """Draw figures, steps by operator class and downloads of the pinned scenarios."""
    pins = [own_definitions.attach(setup_from(pin)) for pin in pinned_scenarios.pinned_scenarios()]
    shown = {chr(ord("A") + at): one for at, one in enumerate(pins or [setup])}
    batches = each_answered(shown, as_batch)
    estimates = each_answered(batches, caches.priced)
    batches = {name: batches[name] for name in estimates}
    if setup.scenario.kind not in _STATIC:
        strip.say(setup.scenario, "serve")
    if not pins:
        st.info(page_text("nothing pinned"), icon=":material/keep:")
    with st.container(horizontal=True):
        pinned_scenarios.pin_button("Pin this scenario", "pin_here")
        st.button("Unpin all", "unpin_all", on_click=pinned_scenarios.clear, disabled=not pins)
    if not estimates:
        return
    for name in estimates:
        _scenario(name, shown[name], removable=bool(pins))
    figures = _figures(shown, estimates)
    st.subheader("Steps", anchor=False)
    st.caption(batches_words(batches))
    changed = what_changed(estimates) if len(estimates) > 1 else {}
    charts = {**changed, **by_class(estimates, "compare")}
    st.subheader("Per operator class", anchor=False)
    times = {name: display_tables.class_times(estimate) for name, estimate in estimates.items()}
    draw_table(display_tables.comparison_words(times), "class_changes")
    st.caption(page_text("intervals of classes"))
    numbers = [figures, display_tables.comparison_numbers(times)]
    export.downloads(
        "compare", charts, pd.concat(numbers, ignore_index=True), setup, of_setup=False
    )


def _scenario(name: str, setup: Setup, *, removable: bool) -> None:
    """Draw a scenario in a line, with the button that unpins it."""
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f"**{name}** {sidebar.describe(setup)}")
        if removable:
            st.button(
                "Unpin", icon=":material/close:", type="tertiary", key=f"unpin_{name}",
                on_click=pinned_scenarios.remove, args=(ord(name) - ord("A"),),
            )  # fmt: skip


def _figures(setups: Mapping[str, Setup], estimates: Mapping[str, Estimate]) -> pd.DataFrame:
    """Draw the figures of each scenario under its load; returns them in SI units."""
    table = {name: _asked(setups[name], one) for name, one in estimates.items()}
    words = display_tables.comparison_words(table)
    st.caption(" ".join(f"{name}: {load_words(setups[name].scenario)}." for name in table))
    with st.container(height=display_tables.height(words), border=False):  # before it is drawn
        draw_table(words, "comparison")
    if len(estimates) > 1:
        st.caption(page_text("side by side", first=next(iter(estimates))))
    else:
        st.caption(page_text("in brackets"))
    return display_tables.comparison_numbers(table)


def _asked(setup: Setup, estimate: Estimate) -> Mapping[str, Ranged]:
    """The figures of a scenario's load; those of the estimate for a static batch or a trace."""
    batch = summary.facts(caches.deployed(as_batch(setup)), estimate).row()
    if setup.scenario.kind in _STATIC:
        return display_tables.row_figures(batch)
    row = one_load(setup)
    if row["message"]:
        name, message = sidebar.describe(setup), plain(str(row["message"]))
        st.warning(f"{name}: {message}.", icon=":material/warning:")
    of_load = of_kind(estimate.model, row)
    return display_tables.row_figures({**of_load, "weights_bytes": batch["weights_bytes"]})


def what_changed(estimates: Mapping[str, Estimate]) -> dict[str, Figure]:
    """Draw the choices and the waterfall of two scenarios' steps; returns the chart by name.

    estimates: two or more, by the names of the scenarios.
    """
    st.subheader("What changed", anchor=False)
    names = list(estimates)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        first = st.selectbox("From", names, 0, key="changed_from", width=90)
        second = st.selectbox("To", names, 1, key="changed_to", width=90)
        common = min((phases_of(estimates[name]) for name in (first, second)), key=len)
        phase = choose("Step", common, "changed_phase", default=common[-1])
        by = choose("By", (CAUSE, CLASS), "changed_by", default=CAUSE)
    steps = [step_of(estimates[name], phase) for name in (first, second)]
    if by == CAUSE:
        before, after = (parts_of(step) for step in steps)
    else:
        before, after = (
            {kind: one.value for kind, one in operator_intervals.by_class(step).items()}
            for step in steps
        )
    totals = [sum(before.values()), sum(after.values())]
    title = f"{phase.capitalize()} step, {first} to {second} by {by}"
    stages = list(zip((first, second), totals, strict=True))
    figure = changes.bridge(stages, [changes.ordered_changes(before, after)], title, export.look())
    export.chart(figure, "what-changed")
    change = quantities.change(*totals)
    st.caption(page_text("bars between", before=totals[0], after=totals[1], change=change))
    return {"what changed": figure}
