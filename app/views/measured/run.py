"""Page Run: measure a model on this machine, see and manage the kept runs."""

import pandas as pd
import streamlit as st

from app.dashboard.job_progress import is_running, show_progress, submitted
from app.dashboard.panels.sweep import show_sweep, sweep_fields
from app.jobs import MEASURING, server_queue
from app.measuring import run_store
from app.measuring.sweep import sweep_points
from app.wording import quantities
from genz_core.errors import RidgelineError
from profilers.run_config import RunConfig, compose, presets
from profilers.store import KeptRun

MODEL_HELP = (
    "A preset, a registry name, or hf:owner/name. Files of the server: `ridgeline runs start`."
)
ONE, SWEEP = "One run", "Sweep"
JOB, STOPPING = "job", "Stopping after the present step; complete repeats are kept."
DTYPES, DEVICES = ("bfloat16", "float16", "float32"), ("auto", "cpu", "cuda", "mps")


def form(mode: str) -> RunConfig | None:
    """Draw the form; returns its run configuration, None before it is sent.

    mode: `ONE` or `SWEEP`.

    Raises:
        RidgelineError: as `compose`, or a file of the server as the model.
    """
    with st.form(f"run_form_{mode}"):
        typed = st.text_input("Model", "qwen2.5-0.5b", key="run_model", help=MODEL_HELP)
        grid = sweep_fields() if mode == SWEEP else {}
        overrides = [] if grid else workload()
        with st.grid(4, min_column_width=150):
            layers = st.number_input(
                "Layers", 0, 500, 0, 2, key="run_layers",
                help="Cut to so many; a single run (an even number) is scaled back; 0: all.",
            )  # fmt: skip
            device = st.selectbox("Device", DEVICES, key="run_device")
            dtype = st.selectbox("Type", DTYPES, key="run_dtype")
        more = st.text_input("Further fields", key="run_more", placeholder="threads=1 warmup=3")
        sent = st.form_submit_button(
            "Measure", icon=":material/play_arrow:", disabled=is_running(JOB)
        )
    if not sent:
        return None
    overrides += [f"model={typed}", f"layers={layers}", f"device={device}", f"dtype={dtype}"]
    config = compose([*overrides, *more.split()])
    run_store.refuse_path(config.model.name)
    if grid:
        sweep_points(grid["batches"], grid["lengths"], grid["phases"])
        config = config.with_fields(sweep=grid)
    return config


def workload() -> list[str]:
    """Draw the inputs of a single run; returns overrides of the run file."""
    profile = st.segmented_control(
        "Profile", presets("profile"), default="quick", required=True, key="run_profile",
        help="nsys and ncu run the model inside Nsight, where it is installed.",
    )  # fmt: skip
    with st.grid(4, min_column_width=150):
        batch = st.number_input("Batch", 1, 1024, 1, key="run_batch")
        isl = st.number_input("Prompt tokens", 1, 131_072, 128, key="run_isl")
        osl = st.number_input("Output tokens", 1, 4096, 4, key="run_osl")
        repeats = st.number_input("Repeats", 1, 100, 2, key="run_repeats")
    return [
        f"profile={profile}", f"batch={batch}", f"isl={isl}", f"osl={osl}", f"repeats={repeats}",
    ]  # fmt: skip


def run_table(runs: list[KeptRun]) -> pd.DataFrame:
    """A row a kept run: id, time, label, device, tags and the times of its phases."""
    return pd.DataFrame(
        [
            {
                "run": run.id[:8],
                "when": pd.Timestamp(run.created, unit="s"),
                "label": run.label,
                "device": run.system,
                "tags": ", ".join(run.tags),
                **{name: quantities.seconds(value) for name, value in run.phases.items()},
            }
            for run in runs
        ]
    )


def kept_runs() -> None:
    """Draw the list of kept runs, and the report or comparison of the chosen ones."""
    store = run_store.store()
    runs = store.runs()
    st.subheader("Kept runs", anchor=False)
    for sentence in store.left_out():
        st.warning(sentence, icon=":material/warning:")
    if not runs:
        st.caption("None yet.")
        return
    event = st.dataframe(
        run_table(runs),
        hide_index=True,
        key="runs_table",
        on_select="rerun",
        selection_mode="multi-row",
    )
    chosen = [runs[at] for at in event["selection"]["rows"]] or runs[:1]
    if len(chosen) > 1:
        st.dataframe(store.compare(*(run.id for run in chosen)), hide_index=True)
        return
    run = chosen[0]
    folder = store.path(run.id)
    report = folder / "report.md"
    if report.is_file():
        with st.expander(f"Report of {run.id[:8]}", expanded=True):
            st.markdown(report.read_text(encoding="utf-8"))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        tag = st.text_input("Tag", key="run_tag", max_chars=40, width=200)
        st.button("Add tag", on_click=store.tag, args=(run.id, tag), disabled=not tag.strip())
        st.button("Delete", on_click=store.delete, args=(run.id,), icon=":material/delete:")


def show_interrupted() -> None:
    """Say which measurements ended with the server before this one, until that is read."""
    interrupted = [job for job in server_queue().interrupted if job.lane == MEASURING.name]
    for job in interrupted:
        when = pd.Timestamp(job.asked, unit="s").strftime("%Y-%m-%d %H:%M UTC")
        st.warning(
            f"{job.title}, asked for at {when}, ended with the server at "
            f"{quantities.percent(job.share)} ({job.what}); nothing of it was kept.",
            icon=":material/power_off:",
        )
    if interrupted and st.button("Dismiss", key="dismiss_interrupted"):
        server_queue().interrupted.clear()
        st.rerun()


st.title("Run", anchor=False)
st.caption(
    "A model with random weights of its true shapes, timed on the machine of this server. The form "
    "says what runs; the sidebar's scenario plays no part here."
)
mode = st.segmented_control("Measure", (ONE, SWEEP), default=ONE, required=True, key="run_mode")
try:
    show_interrupted()
    config = form(mode)
    if config is not None and not is_running(JOB):
        work = run_store.execute_sweep if mode == SWEEP else run_store.execute
        st.session_state.pop(JOB, None)
        submitted(JOB, work, config, config.model.name, MEASURING)
        st.rerun()
    if is_running(JOB):
        show_progress(JOB, "run", STOPPING)
    job = st.session_state.get(JOB)
    if job is not None and job.over:
        if job.error:
            st.error(job.error, icon=":material/error:")
        else:
            run, swept = job.result if isinstance(job.result, tuple) else (job.result, None)
            st.success(f"Kept as {run[:8]}.", icon=":material/check:")
            if swept is not None:
                show_sweep(swept)
    kept_runs()
except RidgelineError as error:
    st.error(str(error), icon=":material/error:")
