"""Fit this machine, a reported device or an engine; shows errors and stores the fit."""

from __future__ import annotations

import streamlit as st

from app.calibration import from_reports as report_calibration
from app.calibration import machine
from app.dashboard import name_options, uploads, visitor
from app.dashboard.job_progress import is_running, result_of, start
from app.dashboard.panels.fit import fit_panel
from app.dashboard.panels.own_runs import own_runs_panel
from app.jobs import MEASURING
from app.measuring.comparison import system_of
from app.wording import quantities
from app.wording.markdown import plain
from genz_core.errors import RidgelineError

MACHINE, REPORTS, RUNS = "This machine", "Profiler reports", "Runs of an engine"
JOB = "calibration"


def form() -> dict:
    """Draw the form; returns device and threads, {} before it is submitted."""
    with st.form("calibrate_form"), st.container(horizontal=True, vertical_alignment="bottom"):
        device = st.selectbox("Device", ("auto", "cpu", "cuda", "mps"), key="fit_device", width=160)
        threads = st.number_input(
            "CPU threads", 0, 1024, 0, key="fit_threads", width=160,
            help="0: all if the cores are free, otherwise one.",
        )  # fmt: skip
        sent = st.form_submit_button("Calibrate", icon=":material/tune:", disabled=is_running(JOB))
    return {"device": device, "threads": int(threads)} if sent else {}


def from_machine() -> None:
    """Draw the calibration of this machine: form, progress, fit."""
    st.caption(
        "Ten seconds to two minutes of microbenchmarks on the machine of this server: matrix "
        "products, attention, experts, norms and copies. No time of a whole model enters the fit."
    )
    if not visitor.may_measure("ridgeline calibrate machine"):
        return
    settings = form()
    if settings and not is_running(JOB):
        start(JOB, machine.calibrate_with, settings, "Calibration of this machine", MEASURING)
    if fitted := result_of(JOB, "fit"):
        noise = ("Noise of the points", quantities.percent(fitted.suite.spread))
        fit_panel(fitted, noise, lambda: machine.save(fitted))
        st.caption(f"Predictions of it take the engine {plain(fitted.engine.name)}.")
    elif JOB not in st.session_state:
        st.info("Nothing is fitted yet in this session.", icon=":material/tune:")


def from_reports() -> None:
    """Draw the calibration of a system with uploaded reports: form, refused points, fit."""
    st.caption(
        "The kernels of PyTorch traces of one device, if the trace has their shapes: matrix "
        "products, attention and element-wise passes. A CUDA graph has none; add a trace of the "
        "same model without it."
    )
    uploaded = uploads.picker("fit", list(uploads.REPORT_SAMPLES)).reports
    if not uploaded:
        st.info("Upload a trace, or try a sample.", icon=":material/upload_file:")
        return
    reports = list(uploaded.values())
    names, named = name_options.library_systems(), system_of(*reports)
    at = names.index(named.slug) if named else None
    with (
        st.form("calibrate_reports"),
        st.container(horizontal=True, vertical_alignment="bottom"),
    ):
        system = st.selectbox("Device of the reports", names, at, key=f"fit_system_{at}",
                              filter_mode=name_options.FILTER)  # fmt: skip
        name = st.text_input(
            "Keep as", key="fit_name", max_chars=64, placeholder="(device)-from-report"
        )
        sent = st.form_submit_button("Calibrate", icon=":material/tune:")
    if sent and system is None:
        st.info("The reports do not name their device: choose it.", icon=":material/memory:")
        return
    if sent:
        st.session_state.pop("report_fit", None)
        st.session_state["report_fit"] = reports, report_calibration.fit(reports, system, name)
    fitted_on, fitted = st.session_state.get("report_fit", ([], None))
    if list(map(id, fitted_on)) != list(map(id, reports)):  # another report may have the same name
        return
    st.subheader(plain(fitted.system.name), anchor=False)
    for sentence in fitted.refused:
        st.warning(plain(sentence), icon=":material/block:")
    covered = ("Kernel time fitted on", quantities.percent(fitted.share))
    fit_panel(fitted, covered, lambda: report_calibration.save(fitted))


def calibrate_panel() -> None:
    """Draw the choice of what to fit, its form and its fit."""
    source = st.segmented_control(
        "Fit to", (MACHINE, REPORTS, RUNS), default=MACHINE, required=True, key="fit_source"
    )
    try:
        {MACHINE: from_machine, REPORTS: from_reports, RUNS: own_runs_panel}[source]()
    except RidgelineError as error:
        st.error(plain(error), icon=":material/error:")
