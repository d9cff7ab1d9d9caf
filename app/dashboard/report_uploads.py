"""Reports that a visitor uploads, and the samples that ship: read once, large ones by a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow
import streamlit as st

import profilers
from app.dashboard.byte_cache import ByteCache
from app.dashboard.uploads import digest, read_by_job, unlike
from app.jobs import READING
from app.measuring.report_reading import SentReport, read_sent, reads_quickly, size_of
from app.wording.markdown import plain
from genz_core.errors import RidgelineError
from profilers import PhasePattern, Report

MAX_UPLOAD_MB = 200
#: Samples by title: files in `app/samples`.
SAMPLES: Mapping[str, str] = {
    "Qwen1.5-0.5B on an H100 (PyTorch)": "h100_qwen1.5-0.5b.json.gz",
    "Qwen3-8B decode, SGLang on an MI300X (PyTorch)": "mi300x_qwen3-8b_decode_sglang.json.gz",
    "DeepSeek-OCR decode on an RTX 5090 (nsys stats)": "rtx5090_deepseek-ocr_decode.csv",
    "One kernel of it (ncu)": "rtx5090_gemv_ncu.csv",
    "The roofline of that kernel (ncu)": "rtx5090_gemv_ncu_roofline.csv",
}
#: Id, name and content of a file.
Upload = tuple[str, str, bytes]
_FOLDER = Path(__file__).parents[1] / "samples"
#: Arrow's own pool keeps the 100 MB that drawing a large report takes; the system's gives it back.
pyarrow.set_memory_pool(pyarrow.system_memory_pool())
#: Tables of the reports that sessions look at; what falls out is read again when it is drawn.
_REPORTS = ByteCache[Report](most_bytes=512 << 20, ttl_s=3600.0)
#: A report larger than the cache would be read at every redraw.
_LANE = replace(READING, result_bytes=_REPORTS.most_bytes // 2)


def picker(key: str) -> dict[str, Report]:
    """Draw the upload box and the samples; returns the reports that can be read, by name.

    One that cannot be read is shown as its error, a large one as its progress until it is there.
    key: prefix of the widgets' keys.
    """
    files = st.file_uploader(
        "Profiler reports",
        accept_multiple_files=True,
        max_upload_size=MAX_UPLOAD_MB,
        key=f"{key}_files",
        on_change=_taken_out,
        args=(key,),
        help=f"{profilers.ACCEPTED}. What a file holds decides how it is read, not its name.",
    )
    chosen = st.pills(
        "Or try a sample", list(SAMPLES), selection_mode="multi", key=f"{key}_samples",
        bind="query-params",
    )  # fmt: skip
    contents = [(file.file_id, file.name, file.getvalue()) for file in files]
    contents = _shared(key, contents, bool(chosen))
    reports: dict[str, Report] = {}
    patterns = st.session_state.get("phase_patterns", profilers.DEFAULT_PHASES)
    contents += [(name, SAMPLES[name], _sample(name)) for name in chosen]
    for file_id, name, content in contents:
        try:
            report = _report(digest(file_id, content), SentReport(name, content, patterns))
        except RidgelineError as error:
            st.error(plain(error), icon=":material/error:")
            continue
        if report is not None:
            reports[unlike(name, reports)] = report
    return reports


def _shared(key: str, brought: list[Upload], sampled: bool) -> list[Upload]:
    """The files of this box, else those that the same visitor brought before, to any page.

    A box is empty again when its page is left.
    key: of the box.  sampled: whether a sample is chosen, which stands in for shared files.
    """
    if brought:
        st.session_state["shared_reports"] = (key, brought)
        return brought
    before: list[Upload] = st.session_state.get("shared_reports", ("", []))[1]
    if not before or sampled:
        return []
    names = ", ".join(plain(name) for _, name, _ in before)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"As uploaded before: {names}")
        st.button("Forget", on_click=_forget, key=f"{key}_forget", type="tertiary")
    return before


def _taken_out(key: str) -> None:
    """Forget the shared files once the visitor took the last one out of their box; a callback."""
    if not st.session_state.get(f"{key}_files"):
        _forget()


def _forget() -> None:
    st.session_state.pop("shared_reports", None)


def _sample(name: str) -> bytes:
    """The content of a sample."""
    return (_FOLDER / SAMPLES[name]).read_bytes()


def pattern_box() -> None:
    """Draw the box of the user's phase patterns and keep them before the default ones."""
    with st.popover("Phase patterns", icon=":material/rule:"):
        st.caption("Regular expressions on the names of ranges; the first that matches wins.")
        own = [
            PhasePattern(phase, typed)
            for phase in ("prefill", "decode")
            if (typed := st.text_input(phase.capitalize(), key=f"pattern_{phase}", max_chars=200))
        ]
        try:
            for pattern in own:
                pattern.compiled()
        except RidgelineError as error:
            st.error(plain(error))
            own = []
    st.session_state["phase_patterns"] = (*own, *profilers.DEFAULT_PHASES)


def _report(digest: str, sent: SentReport) -> Report | None:
    """The report, shared and not to be changed; None while it is read in a process of its own.

    digest: of its content.

    Raises:
        RidgelineError: it cannot be read.
    """
    key = (digest, sent.name, sent.patterns)
    report = _REPORTS.get(key)
    if report is not None:
        return report
    if reads_quickly(sent.content):
        report = read_sent(sent)
    else:
        report = read_by_job(f"read {hash(key):x}", read_sent, sent, _LANE)
    if report is not None:
        _REPORTS.put(key, report, size_of(report))
    return report
