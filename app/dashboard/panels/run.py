"""Measure a model on this machine, see and manage the kept runs."""

from importlib.util import find_spec
from shutil import which
from typing import Any

import streamlit as st

from app.calibration.before_run import calibrate_and_run, is_calibrated
from app.dashboard import display_tables, visitor
from app.dashboard.job_progress import is_running, result_of, show_interrupted, start
from app.dashboard.page_texts import page_text
from app.dashboard.panels.beside_prediction import TITLE
from app.dashboard.panels.run_facts import show_sweep
from app.dashboard.widgets import choose, draw_table, say_each, saying_errors
from app.jobs import MEASURING
from app.jobs.job_files import Work
from app.measuring import endpoint_run, run_store
from app.measuring.run_form import run_of_form
from app.rights import rights_here
from app.scenario.intervals import step_latency
from app.scenario.levers import phases_of
from app.wording import quantities
from app.wording.markdown import without_links
from genz_core.limits import LIMITS
from profilers.runs.run_config import RunConfig, presets
from profilers.runs.store import Store

ONE, SWEEP = "One run", "Sweep"
JOB, STOPPING = "job", "Stopping after the current step; completed repeats are kept."
DTYPES, DEVICES = ("bfloat16", "float16", "float32"), ("auto", "cpu", "cuda", "mps")
#: Sizes of a single run: label and initial value.
_SIZES = {
    "batch": ("Batch", 1), "isl": ("Prompt tokens", 128), "osl": ("Output tokens", 4),
    "repeats": ("Repeats", 5),
}  # fmt: skip


def form(mode: str) -> tuple[RunConfig, Work] | None:
    """Draw the form; returns its run configuration and the work to do, None before it is submitted.

    mode: `ONE` or `SWEEP`.

    Raises:
        RidgelineError: as `run_of_form`.
    """
    bare = mode == ONE and not is_calibrated()  # so that its runs cannot be predicted
    with st.form(f"run_form_{mode}"):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            typed = st.text_input(
                "Model", "qwen2.5-0.5b", key="run_model", help=page_text("measured model")
            )
            busy = is_running(JOB)
            sent = st.form_submit_button("Measure", icon=":material/play_arrow:", disabled=busy)
            first = bare and st.form_submit_button(
                "Calibrate and measure", icon=":material/tune:", disabled=busy
            )
        if bare:
            st.caption(page_text("not calibrated"))
        grid = sweep_fields() if mode == SWEEP else {}
        with st.expander("Sizes, layers, device, profile", icon=":material/tune:"):
            overrides = [] if grid else workload()
            with st.grid(4, min_column_width=150):
                layers = st.number_input(
                    "Layers", 0, 500, 0, 2, key="run_layers", help=page_text("measured layers")
                )
                device = st.selectbox("Device", DEVICES, key="run_device")
                dtype = st.selectbox("Type", DTYPES, key="run_dtype")
            more = st.text_input("Further fields", key="run_more", placeholder="threads=1 warmup=3")
    if not (sent or first):
        return None
    overrides += [f"model={typed}", f"layers={layers}", f"device={device}", f"dtype={dtype}"]
    work: Work = run_store.execute_sweep if mode == SWEEP else run_store.execute
    return run_of_form([*overrides, *more.split()], grid), calibrate_and_run if first else work


def sweep_fields() -> dict[str, Any]:
    """Draw the inputs of a grid; returns the fields of `RunConfig.sweep`."""
    with st.grid(4, min_column_width=150):
        batches = st.text_input("Batches", "1:4:x2", key="sweep_batches", help="1:8:x2 or 1,2,4")
        lengths = st.text_input("Lengths", "64:256:x2", key="sweep_lengths", help="In tokens.")
        phases = st.multiselect(
            "Phases", ["prefill", "decode"], ["prefill", "decode"], key="sweep_phases"
        )
        rounds = st.number_input("Rounds", 1, 20, 3, key="sweep_rounds")
    return {
        "batches": batches, "lengths": lengths, "phases": ",".join(phases), "rounds": int(rounds),
    }  # fmt: skip


def abilities() -> str:
    """A sentence on the measurements that this machine supports with its installed tools."""
    tools = {
        "step times and operators (PyTorch)": find_spec("torch") is not None,
        "timelines (nsys)": which("nsys") is not None,
        "counters of kernels (ncu)": which("ncu") is not None,
    }
    here = ", ".join(name for name, found in tools.items() if found)
    missing = ", ".join(name for name, found in tools.items() if not found)
    lacking = f" Not installed: {missing}." if missing else ""
    return f"This machine can measure {here or 'nothing yet'}.{lacking}"


def workload() -> list[str]:
    """Draw the inputs of a single run; returns overrides of the run file."""
    profile = st.segmented_control(
        "Profile", presets("profile"), default="quick", required=True, key="run_profile",
        help="nsys and ncu run the model inside Nsight, where it is installed.",
    )  # fmt: skip
    with st.grid(4, min_column_width=150):
        sizes = {
            name: st.number_input(label, limit.least, limit.most, usual, key=f"run_{name}")
            for name, (label, usual) in _SIZES.items()
            for limit in [LIMITS[name]]
        }
    return [f"profile={profile}", *(f"{name}={int(size)}" for name, size in sizes.items())]


def predicted_beside_measured(run: str) -> None:
    """Draw a sentence per phase: the prediction and the measurement of a finished run."""
    store = next((s for s in run_store.stores() if any(r.id == run for r in s.runs())), None)
    estimate = run_store.own_estimate(store, run)[0] if store else None
    if store is None or estimate is None:
        return
    for phase, timing in store.load(run).phases.items():
        if phase in phases_of(estimate):
            predicted, measured = step_latency(estimate, phase).value, timing.median_s
            told = {"predicted": predicted, "measured": measured, "phase": phase.capitalize()}
            change = quantities.change(predicted, measured)
            st.markdown(page_text("predicted and measured", **told, change=change))


def run_panel() -> None:
    """Draw the form of a run, its progress and result, and the kept runs."""
    st.caption(page_text("a run", abilities=abilities()))
    with saying_errors():
        if visitor.may_measure("ridgeline runs start"):
            show_interrupted(MEASURING)
            mode = choose("Measure", (ONE, SWEEP), "run_mode")
            if (asked := form(mode)) is not None and not is_running(JOB):
                config, work = asked
                start(JOB, work, config, config.model.name, MEASURING)
        if result := result_of(JOB, STOPPING):
            run, swept = result if isinstance(result, tuple) else (result, None)
            st.success(f"Kept as {run[:8]} {visitor.keeping()}.", icon=":material/check:")
            if swept is not None:
                show_sweep(swept)
            else:
                predicted_beside_measured(run)
                st.button(
                    "Why they differ, operator by operator", key="run_why",
                    on_click=look_at, args=(run,), icon=":material/balance:",
                )  # fmt: skip
        own, *servers = run_store.stores()
        if not servers or rights_here().may_measure:
            _kept_runs(own, "Your runs" if servers else "Kept runs", "", may_change=True)
        for store in servers:
            _kept_runs(store, "Runs of this server", "_server", may_change=False)


def look_at(run: str) -> None:
    """Open the part that draws a stored run beside its prediction; a callback.  run: its id."""
    st.session_state.update(part=TITLE, measured_run=run)


def _kept_runs(store: Store, title: str, key: str, *, may_change: bool) -> None:
    """Draw the list of a store's runs, and the report or comparison of the selected ones.

    key: ends the keys of its widgets.  may_change: whether the visitor may tag and delete them.
    """
    runs = store.runs()
    st.subheader(title, anchor=False)
    say_each(store.left_out(), st.warning, icon=":material/warning:")
    if not runs:
        st.caption("None yet.")
        return
    event = draw_table(
        display_tables.run_rows(runs), f"runs_table{key}",
        height="auto", on_select="rerun", selection_mode="multi-row",
    )  # fmt: skip
    chosen = [runs[at] for at in event["selection"]["rows"]] or runs[:1]
    if len(chosen) > 1:
        st.dataframe(store.compare(*(run.id for run in chosen)), hide_index=True)
        return
    run = chosen[0]
    report = store.path(run.id) / "report.md"
    if report.is_file():
        with st.expander(f"Report of {run.id[:8]}", expanded=True):
            st.markdown(without_links(report.read_text(encoding="utf-8")))
    if run.source != endpoint_run.SOURCE:
        st.button("Compare with its prediction", on_click=look_at, args=(run.id,),
                  key=f"compare_run{key}", icon=":material/balance:")  # fmt: skip
    if not may_change:
        st.caption("Only the operator of this server can tag and delete these runs.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        tag = st.text_input("Tag", key="run_tag", max_chars=40, width=200)
        st.button("Add tag", on_click=store.tag, args=(run.id, tag), disabled=not tag.strip())
        st.button("Delete", on_click=store.delete, args=(run.id,), icon=":material/delete:")
