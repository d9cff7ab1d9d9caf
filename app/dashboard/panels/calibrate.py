"""Fit this machine, a reported device or an engine; shows errors and stores the fit."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pandas as pd
import streamlit as st

from app.accuracy.tables import columns_of
from app.calibration import fit_tables, from_runs, machine
from app.calibration import from_reports as report_calibration
from app.charts import measured_classes, parity
from app.dashboard import export, name_options, sidebar, uploads, visitor
from app.dashboard.job_progress import is_running, result_of, start
from app.dashboard.page_texts import page_text
from app.dashboard.widgets import choose, draw_table, say_each, saying_errors
from app.jobs import MEASURING
from app.measuring.device_by_size import system_of
from app.wording import quantities
from app.wording.markdown import plain
from hardware_db import recipes

MACHINE, REPORTS, RUNS = "This machine", "Profiler reports", "Runs of an engine"
JOB = "calibration"
SHARE = st.column_config.NumberColumn(format="percent")
NUMBER = st.column_config.NumberColumn(format="%.4g")
#: Columns of constants.
_CONSTANTS = {"before": NUMBER, "after": NUMBER, "factor": NUMBER, "uncertainty": SHARE}


def from_machine() -> None:
    """Draw the calibration of this machine: form, progress, fit."""
    st.caption(page_text("this machine"))
    if not visitor.may_measure("ridgeline calibrate machine"):
        return
    with st.form("calibrate_form"), st.container(horizontal=True, vertical_alignment="bottom"):
        device = st.selectbox("Device", ("auto", "cpu", "cuda", "mps"), key="fit_device", width=160)
        threads = st.number_input("CPU threads", 0, 1024, 0, key="fit_threads", width=160,
                                  help=page_text("CPU threads"))  # fmt: skip
        sent = st.form_submit_button("Calibrate", icon=":material/tune:", disabled=is_running(JOB))
    if sent and not is_running(JOB):
        settings = {"device": device, "threads": int(threads)}
        start(JOB, machine.calibrate_with, settings, "Calibration of this machine", MEASURING)
    if fitted := result_of(JOB):
        noise = ("Noise of the points", quantities.percent(fitted.suite.spread))
        fit_panel(fitted, noise, lambda: machine.save(fitted))
        st.caption(f"Predictions for it use the engine {plain(fitted.engine.name)}.")
    elif JOB not in st.session_state:
        st.info("Nothing has been fitted in this session yet.", icon=":material/tune:")


def from_reports() -> None:
    """Draw the calibration of a system with uploaded reports: form, refused points, fit."""
    st.caption(page_text("reports of a device"))
    uploaded = uploads.picker("fit", list(uploads.REPORT_SAMPLES)).reports
    if not uploaded:
        st.info("Upload a trace, or try a sample.", icon=":material/upload_file:")
        return
    reports = list(uploaded.values())
    names, named = name_options.library_systems(), system_of(*reports)
    at = names.index(named.slug) if named else None
    with st.form("calibrate_reports"), st.container(horizontal=True, vertical_alignment="bottom"):
        system = st.selectbox("Device of the reports", names, at, key=f"fit_system_{at}",
                              filter_mode=name_options.FILTER)  # fmt: skip
        name = st.text_input(
            "Keep as", key="fit_name", max_chars=64, placeholder="(device)-from-report"
        )
        sent = st.form_submit_button("Calibrate", icon=":material/tune:")
    if sent and system is None:
        st.info("The reports do not name their device; choose it here.", icon=":material/memory:")
        return
    if sent:
        st.session_state.pop("report_fit", None)
        st.session_state["report_fit"] = reports, report_calibration.fit(reports, system, name)
    fitted_on, fitted = st.session_state.get("report_fit", ([], None))
    if list(map(id, fitted_on)) != list(map(id, reports)):  # another report may have the same name
        return
    st.subheader(plain(fitted.system.name), anchor=False)
    say_each(fitted.refused, st.warning, icon=":material/block:")
    covered = ("Share of kernel time in the fit", quantities.percent(fitted.share))
    fit_panel(fitted, covered, lambda: report_calibration.save(fitted))


def calibrate_panel() -> None:
    """Draw the choice of what to fit, its form and its fit."""
    source = choose("Fit to", (MACHINE, REPORTS, RUNS), "fit_source")
    with saying_errors():
        {MACHINE: from_machine, REPORTS: from_reports, RUNS: own_runs_panel}[source]()


def fit_panel(
    fitted: fit_tables.CalibratedSystem, fact: tuple[str, str], save: Callable[[], object]
) -> None:
    """Draw the errors before and after, the points, the constants, and the button to store them.

    fact: label and value of an additional card.  save: writes the files.
    """
    rows = fit_tables.error_rows(fitted.calibration)
    median = [
        float(pd.Series([row[key] for row in rows]).median())
        for key in ("mape_before", "mape_after")
    ]
    memory = ("Memory", quantities.bandwidth(fitted.system.memory_bytes_per_s))
    _cards((median[0], median[1]), memory, fact)
    shares = ("mape_before", "mape_after", "p90_after")
    draw_table(rows, "fit_errors", column_config=dict.fromkeys(shares, SHARE))
    points = fit_tables.point_rows(fitted)
    for state in ("before", "after"):
        of_state = columns_of([point for point in points if point["state"] == state])
        title = f"Operators, predicted {state} the fit"
        export.chart(parity.parity(of_state, "operator", title, export.look()), f"fit-{state}")
    _constants(fit_tables.constant_rows(fitted), "points", "fit_constants")
    if st.button("Save as a system", key="save_fit", icon=":material/save:"):
        save()
        st.success(
            f"Kept {visitor.keeping()}; choose {plain(fitted.system.slug)} in the sidebar.",
            icon=":material/check:",
        )


def _cards(errors: tuple[float, float], *others: tuple[str, str]) -> None:
    """Draw cards of the mean error before and after a fit, and others by label and value."""
    before, after = map(quantities.percent, errors)
    told = (("Mean error, before", before), ("Mean error, after", after), *others)
    with st.grid(len(told), min_column_width=160):
        for label, value in told:
            st.metric(label, value, border=True)


def _constants(rows: Sequence[Mapping[str, object]], of: str, key: str) -> None:
    """Draw the constants of a fit.  of: what determines them."""
    with st.expander(f"Constants, and how well the {of} determine them"):
        draw_table(rows, key, height="auto", column_config=dict(_CONSTANTS))


def _runs_form(names: Sequence[str], load: str) -> list[dict[str, str]]:
    """The typed runs as rows of a points file, [] before they are submitted; empty rows are
    omitted.

    names: columns of measured seconds.  load: "concurrency" or "batch".
    """
    count = st.slider("Runs", 1, 5, 3, key="own_count", width=320)
    rows = []
    with st.form("own_form"):
        for at in range(count):
            with st.container(horizontal=True):
                users = st.number_input(
                    load.capitalize(), 1, 100_000, 4 ** (at + 1), key=f"own_{load}_{at}", width=140
                )
                row = {"id": f"run {at + 1}", load: str(users)}
                for name in names:
                    value = st.number_input(
                        from_runs.LABELS[name], min_value=0.0, value=None, format="%.4g",
                        key=f"own_{name}_{at}", width=180, placeholder="not measured",
                    )  # fmt: skip
                    row[name] = "" if value is None else str(value / 1e3)
                rows.append(row)
        sent = st.form_submit_button("Calibrate", icon=":material/tune:")
    filled = [row for row in rows if any(row[name] for name in names)]
    return (filled or rows[:1]) if sent else []


def own_runs_panel() -> None:
    """Draw the form for runs of the sidebar's scenario, fit them, and show the fit."""
    setup = sidebar.chosen_setup()
    s = setup.scenario
    st.caption(page_text("own runs"))
    st.caption(sidebar.describe(setup))
    if setup.model_config or setup.system_yaml:
        st.info(page_text("runs by name"), icon=":material/info:")
        return
    kind = choose("Measured", list(from_runs.KINDS), "own_kind")
    rows = _runs_form(from_runs.KINDS[kind], "concurrency" if kind == "Under load" else "batch")
    if rows:
        with st.spinner("Fitting the engine's constants …"):
            bare = replace(s, batch=1, concurrency=None, rate=None, trace=None)  # rows have theirs
            completed = from_runs.with_scenario(bare, rows)
            st.session_state["own_calibrations"] = from_runs.calibrate(completed)
    for calibration in st.session_state.get("own_calibrations", ()):
        _runs_fit(calibration)


def _runs_fit(calibration: from_runs.RecipeCalibration) -> None:
    """Draw the figures before and after, the constants, and the buttons to store or drop them."""
    before, after = calibration.fit.before, calibration.fit.after
    recipe = from_runs.recipe_words(calibration.key)
    st.subheader(plain(f"{calibration.measured.model}, {recipe}"), anchor=False)
    _cards((before.mape, after.mape), ("Figures", str(after.points)))
    rows = from_runs.figure_rows(calibration)
    export.chart(measured_classes.before_after(rows, export.look()), "own-runs")
    shares = {"error_before": SHARE, "error_after": SHARE}
    draw_table(rows, "own_table", height="auto", column_config=shares)
    _constants(from_runs.constant_rows(calibration), "runs", "own_constants")
    with st.container(horizontal=True):
        if st.button("Use in later predictions", key="own_save", icon=":material/save:"):
            from_runs.keep(calibration)
            st.success(f"Kept {visitor.keeping()}.", icon=":material/check:")
        if st.button("Forget them", key="own_forget", icon=":material/delete:"):
            dropped = recipes.forget_recipe(calibration.key)
            st.info("Forgotten." if dropped else "Nothing was kept.", icon=":material/info:")
