"""Measure a model on this machine, see and manage the kept runs."""

from importlib.util import find_spec
from shutil import which

import streamlit as st

from app.calibration.before_run import calibrate_and_run, is_calibrated
from app.dashboard import display_tables, visitor
from app.dashboard.job_progress import is_running, result_of, show_interrupted, start
from app.dashboard.panels.sweep import show_sweep, sweep_fields
from app.dashboard.widgets import draw_table, saying_errors
from app.jobs import MEASURING
from app.jobs.job_files import Work
from app.measuring import endpoint_run, run_store
from app.measuring.run_form import run_of_form
from app.rights import rights_here
from app.scenario.encoder_figures import phases_of
from app.scenario.intervals import step_latency
from app.wording import quantities
from app.wording.markdown import plain, without_links
from genz_core.limits import LIMITS
from profilers.runs.run_config import RunConfig, presets
from profilers.runs.store import Store

MODEL_HELP = (
    "A preset, a registry name, or hf:owner/name, which fetches config.json from the hub. For "
    "files on the server use `ridgeline runs start`."
)
ONE, SWEEP = "One run", "Sweep"
JOB, STOPPING = "job", "Stopping after the current step; completed repeats are kept."
DTYPES, DEVICES = ("bfloat16", "float16", "float32"), ("auto", "cpu", "cuda", "mps")
#: Part of page Measure that draws a stored run beside its prediction.
BESIDE = "Beside its prediction"


def form(mode: str) -> tuple[RunConfig, Work] | None:
    """Draw the form; returns its run configuration and the work to do, None before it is submitted.

    mode: `ONE` or `SWEEP`.

    Raises:
        RidgelineError: as `run_of_form`.
    """
    bare = mode == ONE and not is_calibrated()
    with st.form(f"run_form_{mode}"):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            typed = st.text_input("Model", "qwen2.5-0.5b", key="run_model", help=MODEL_HELP)
            sent, first = _send_buttons(bare)
        if bare:
            st.caption(
                "This machine is not calibrated yet. Calibration takes up to two minutes "
                "and is needed once."
            )
        grid = sweep_fields() if mode == SWEEP else {}
        with st.expander("Sizes, layers, device, profile", icon=":material/tune:"):
            overrides = [] if grid else workload()
            with st.grid(4, min_column_width=150):
                layers = st.number_input(
                    "Layers", 0, 500, 0, 2, key="run_layers",
                    help="Run only this many layers; a single run needs an even number and is "
                         "scaled to all layers. 0: all.",
                )  # fmt: skip
                device = st.selectbox("Device", DEVICES, key="run_device")
                dtype = st.selectbox("Type", DTYPES, key="run_dtype")
            more = st.text_input("Further fields", key="run_more", placeholder="threads=1 warmup=3")
    if not (sent or first):
        return None
    overrides += [f"model={typed}", f"layers={layers}", f"device={device}", f"dtype={dtype}"]
    work: Work = run_store.execute_sweep if mode == SWEEP else run_store.execute
    return run_of_form([*overrides, *more.split()], grid), calibrate_and_run if first else work


def _send_buttons(bare: bool) -> tuple[bool, bool]:
    """Draw the submit buttons; returns whether to measure, and whether to calibrate first.

    bare: whether this machine has no calibration, so that its runs cannot be predicted.
    """
    busy = is_running(JOB)
    sent = st.form_submit_button("Measure", icon=":material/play_arrow:", disabled=busy)
    if not bare:
        return sent, False
    both = st.form_submit_button("Calibrate and measure", icon=":material/tune:", disabled=busy)
    return sent, both


def abilities() -> str:
    """A sentence on the measurements that this machine supports with its installed tools."""
    tools = {
        "step times and operators (PyTorch)": find_spec("torch") is not None,
        "timelines (nsys)": which("nsys") is not None,
        "counters of kernels (ncu)": which("ncu") is not None,
    }
    here = ", ".join(name for name, found in tools.items() if found)
    missing = " or ".join(name for name, found in tools.items() if not found)
    lacking = f"; not {missing}" if missing else ""
    return f"This machine can measure {here or 'nothing yet'}{lacking}."


def start_run() -> None:
    """Draw the form; when it is submitted, start the run and redraw the page."""
    mode = st.segmented_control("Measure", (ONE, SWEEP), default=ONE, required=True, key="run_mode")
    asked = form(mode)
    if asked is not None and not is_running(JOB):
        config, work = asked
        start(JOB, work, config, config.model.name, MEASURING)


def workload() -> list[str]:
    """Draw the inputs of a single run; returns overrides of the run file."""
    profile = st.segmented_control(
        "Profile", presets("profile"), default="quick", required=True, key="run_profile",
        help="nsys and ncu run the model inside Nsight, where it is installed.",
    )  # fmt: skip
    with st.grid(4, min_column_width=150):
        batch = size_input("Batch", "batch", 1)
        isl = size_input("Prompt tokens", "isl", 128)
        osl = size_input("Output tokens", "osl", 4)
        repeats = size_input("Repeats", "repeats", 5)
    return [
        f"profile={profile}", f"batch={batch}", f"isl={isl}", f"osl={osl}", f"repeats={repeats}",
    ]  # fmt: skip


def size_input(label: str, name: str, value: int) -> int:
    """Draw the box of a size within its limits.  name: of the field."""
    limit = LIMITS[name]
    return int(st.number_input(label, limit.least, limit.most, value, key=f"run_{name}"))


def predicted_beside_measured(run: str) -> None:
    """Draw a sentence per phase: the prediction and the measurement of a finished run."""
    store = next((s for s in run_store.stores() if any(r.id == run for r in s.runs())), None)
    estimate = run_store.own_estimate(store, run)[0] if store else None
    for phase, timing in store.load(run).phases.items() if store and estimate else ():
        if estimate and phase in phases_of(estimate.model):
            predicted, measured = step_latency(estimate, phase).seconds, timing.median_s
            st.markdown(
                f"**{phase.capitalize()}**: predicted {quantities.seconds(predicted)}, measured "
                f"**{quantities.seconds(measured)}** ({quantities.change(predicted, measured)})."
            )


def run_panel() -> None:
    """Draw the form of a run, its progress and result, and the kept runs."""
    st.caption(
        f"{abilities()} A run times the model on this server, at its true shapes with random "
        "weights."
    )
    with saying_errors():
        if visitor.may_measure("ridgeline runs start"):
            show_interrupted(MEASURING)
            start_run()
        if result := result_of(JOB, "run", STOPPING):
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
        all_kept_runs()


def all_kept_runs() -> None:
    """Draw the runs that the visitor may change and, separately, the server's runs."""
    own, *servers = run_store.stores()
    if not servers or rights_here().may_measure:
        _kept_runs(own, "Your runs" if servers else "Kept runs", "", may_change=True)
    for store in servers:
        _kept_runs(store, "Runs of this server", "_server", may_change=False)


def look_at(run: str) -> None:
    """Open the part that draws a stored run beside its prediction; a callback.  run: its id."""
    st.session_state.update(part=BESIDE, measured_run=run)


def _kept_runs(store: Store, title: str, key: str, *, may_change: bool) -> None:
    """Draw the list of a store's runs, and the report or comparison of the selected ones.

    key: ends the keys of its widgets.  may_change: whether the visitor may tag and delete them.
    """
    runs = store.runs()
    st.subheader(title, anchor=False)
    for sentence in store.left_out():
        st.warning(plain(sentence), icon=":material/warning:")
    if not runs:
        st.caption("None yet.")
        return
    event = draw_table(
        display_tables.run_table(runs), f"runs_table{key}",
        height="auto", on_select="rerun", selection_mode="multi-row",
    )  # fmt: skip
    chosen = [runs[at] for at in event["selection"]["rows"]] or runs[:1]
    if len(chosen) > 1:
        st.dataframe(store.compare(*(run.id for run in chosen)), hide_index=True)
        return
    run = chosen[0]
    folder = store.path(run.id)
    report = folder / "report.md"
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
