"""Reports that a visitor uploads, and the samples that ship: read once, cached for an hour."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from pathlib import Path

import streamlit as st

import profilers
from app.wording.markdown import plain
from genz_core.errors import ReportError, RidgelineError
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
_FOLDER = Path(__file__).parents[1] / "samples"


def picker(key: str) -> dict[str, Report]:
    """Draw the upload box and the samples; returns the reports that can be read, by name.

    One that cannot be read is shown as its error.  key: prefix of the widgets' keys.
    """
    files = st.file_uploader(
        "Profiler reports",
        accept_multiple_files=True,
        max_upload_size=MAX_UPLOAD_MB,
        key=f"{key}_files",
        help=f"{profilers.ACCEPTED}. What a file holds decides how it is read, not its name.",
    )
    chosen = st.pills(
        "Or try a sample", list(SAMPLES), selection_mode="multi", key=f"{key}_samples"
    )
    reports: dict[str, Report] = {}
    patterns = st.session_state.get("phase_patterns", profilers.DEFAULT_PHASES)
    contents = [(file.name, file.getvalue()) for file in files]
    contents += [(SAMPLES[name], (_FOLDER / SAMPLES[name]).read_bytes()) for name in chosen]
    for name, content in contents:
        try:
            report = _report(hashlib.sha256(content).hexdigest(), name, patterns, content)
        except RidgelineError as error:
            st.error(plain(error), icon=":material/error:")
            continue
        reports[_unlike(name, reports)] = report
    return reports


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


def _unlike(name: str, taken: Mapping[str, Report]) -> str:
    """The name, numbered where another upload has the same."""
    numbered = (f"{name} ({number})" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(n for n in numbered if n not in taken)


@st.cache_resource(max_entries=16, ttl=3600, show_spinner="Reading the report")
def _report(digest: str, name: str, patterns: tuple[PhasePattern, ...], _content: bytes) -> Report:
    """Spool an upload to a file and read it; the report is shared and not to be changed.

    digest: of the content, which the cache tells reports apart by.

    Raises:
        ReportError: it cannot be read, or the disk is full.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
            path = Path(folder) / "report"
            path.write_bytes(_content)
            return profilers.read_report(path, label=name, phases=patterns)
    except OSError as error:
        raise ReportError(f"{name}: cannot be spooled ({error.strerror})") from None
