"""Fit a system's latency model: what it was before, what it is after, and keep it."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import streamlit as st

import hardware_db
from app import calibrating, exports, jobs, report_calibration, text, this_machine, uploads
from app.charts import parity
from app.reports import system_of
from genz_core.errors import RidgelineError

MACHINE, REPORTS = "This machine", "Profiler reports"
SHARE = st.column_config.NumberColumn(format="percent")
NUMBER = st.column_config.NumberColumn(format="%.4g")


def busy() -> bool:
    job = st.session_state.get("calibration")
    return job is not None and not job.over


@st.fragment(run_every=0.7)
def watch() -> None:
    """How far the calibration is; the page is drawn again when it ends."""
    job: jobs.Job = st.session_state["calibration"]
    job.poll()
    if job.over:
        st.rerun()
    st.progress(min(max(job.share, 0.0), 1.0), job.what)
    with st.container(horizontal=True):
        st.button("Cancel", on_click=job.cancel, key="cancel_fit", icon=":material/stop:")
        if job.stop.is_set():
            st.button("Stop at once", on_click=job.end, key="end_fit")


def form() -> dict:
    with st.form("calibrate_form"), st.container(horizontal=True, vertical_alignment="bottom"):
        device = st.selectbox("Device", ("auto", "cpu", "cuda", "mps"), key="fit_device", width=160)
        threads = st.number_input(
            "CPU threads", 0, 1024, 0, key="fit_threads", width=160,
            help="0: all where the cores are free, else one.",
        )  # fmt: skip
        sent = st.form_submit_button("Calibrate", icon=":material/tune:", disabled=busy())
    return {"device": device, "threads": int(threads)} if sent else {}


def show(found: calibrating.Fitted, fact: tuple[str, str], save: Callable[[], list[Path]]) -> None:
    """Errors of the fit before and after, the points, and the button that keeps it.

    fact: a figure of this kind of calibration, as a card.
    """
    rows = calibrating.errors(found)
    median = [float(pd.Series([row[key] for row in rows]).median()) for key in ("before", "after")]
    with st.grid(4, min_column_width=160):
        st.metric("Mean error, before", text.percent(median[0]), border=True)
        st.metric("Mean error, after", text.percent(median[1]), border=True)
        st.metric("Memory", text.bandwidth(found.system.memory_bytes_per_s), border=True)
        st.metric(*fact, border=True)
    st.dataframe(
        pd.DataFrame(rows), hide_index=True,
        column_config={"before": SHARE, "after": SHARE, "p90": SHARE},
    )  # fmt: skip
    points = calibrating.points(found)
    for state in ("before", "after"):
        here = [point for point in points if point["state"] == state]
        title = f"Operators, predicted {state} the fit"
        exports.chart(parity.parity(here, "operator", title, exports.look()), f"fit-{state}", title)
    with st.expander("Constants, and how well the points tell them"):
        st.dataframe(
            pd.DataFrame(calibrating.constants(found)), hide_index=True, key="fit_constants",
            column_config={"before": NUMBER, "after": NUMBER, "uncertainty": SHARE},
        )  # fmt: skip
    if st.button("Save as a system", key="save_fit", icon=":material/save:"):
        paths = save()
        st.success(
            f"Kept in {len(paths)} files of your data folder; choose {found.system.slug} in the "
            "sidebar.",
            icon=":material/check:",
        )


def from_machine() -> None:
    st.caption(
        "One to two minutes of microbenchmarks on the machine of this server: matrix products, "
        "attention, experts, norms and copies. No time of a whole model enters the fit."
    )
    asked = form()
    if asked and not busy():
        st.session_state["calibration"] = jobs.start(calibrating.fit_this_machine, asked)
        st.rerun()
    if busy():
        watch()
    job = st.session_state.get("calibration")
    if job is None:
        st.info("Nothing is fitted yet in this session.", icon=":material/tune:")
    elif job.over and job.error:
        st.error(job.error, icon=":material/error:")
    elif job.over:
        noise = ("Noise of the points", text.percent(job.result.suite.spread))
        show(job.result, noise, lambda: this_machine.save(job.result))


def from_reports() -> None:
    st.caption(
        "The kernels of PyTorch traces of one device, where the trace tells their shapes: matrix "
        "products, attention and element-wise passes. A CUDA graph tells none; add a trace of the "
        "same model that ran without."
    )
    found = uploads.picker("fit")
    if not found:
        st.info("Upload a trace, or try a sample.", icon=":material/upload_file:")
        return
    reports = list(found.values())
    names, known = hardware_db.names(), system_of(*reports)
    at = names.index(known.slug) if known else None
    with (
        st.form("calibrate_reports"),
        st.container(horizontal=True, vertical_alignment="bottom"),
    ):
        system = st.selectbox("Device of the reports", names, at, key=f"fit_system_{at}")
        name = st.text_input(
            "Keep as", key="fit_name", max_chars=64, placeholder="the device's id-from-report"
        )
        sent = st.form_submit_button("Calibrate", icon=":material/tune:")
    if sent and system is None:
        st.info("The reports do not name their device: choose it.", icon=":material/memory:")
        return
    if sent:
        st.session_state["report_fit"] = report_calibration.fit(reports, system, name)
    fitted = st.session_state.get("report_fit")
    if fitted is None:
        return
    st.subheader(fitted.system.name, anchor=False)
    for sentence in fitted.refused:
        st.warning(sentence, icon=":material/block:")
    covered = ("Kernel time fitted on", text.percent(fitted.share))
    show(fitted, covered, lambda: report_calibration.save(fitted))


st.title("Calibrate", anchor=False)
source = st.segmented_control(
    "Fit to", (MACHINE, REPORTS), default=MACHINE, required=True, key="fit_source"
)
try:
    from_machine() if source == MACHINE else from_reports()
except RidgelineError as error:
    st.error(str(error), icon=":material/error:")
