"""Reports that a visitor uploads to any page, and the samples that ship."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow
import streamlit as st

import profilers
from app.dashboard import uploads
from app.dashboard.uploads import Upload
from app.measuring.report_reading import SentReport, read_sent, size_of
from app.wording.markdown import plain
from genz_core.errors import RidgelineError
from profilers import PhasePattern, Report

#: Samples by title: files in `app/samples`.
SAMPLES: Mapping[str, str] = {
    "Qwen1.5-0.5B on an H100 (PyTorch)": "h100_qwen1.5-0.5b.json.gz",
    "Qwen3-8B decode, SGLang on an MI300X (PyTorch)": "mi300x_qwen3-8b_decode_sglang.json.gz",
    "DeepSeek-OCR decode on an RTX 5090 (nsys stats)": "rtx5090_deepseek-ocr_decode.csv",
    "One kernel of it (ncu)": "rtx5090_gemv_ncu.csv",
    "The roofline of that kernel (ncu)": "rtx5090_gemv_ncu_roofline.csv",
}
#: Arrow's own pool keeps the 100 MB that drawing a large report takes; the system's gives it back.
pyarrow.set_memory_pool(pyarrow.system_memory_pool())
#: Tables of the reports that sessions look at; what falls out is read again when it is drawn.
_REPORTS = uploads.Reader(read_sent, size_of, most_bytes=512 << 20)


def picker(key: str) -> dict[str, Report]:
    """Draw the upload box and the samples; returns the reports that can be read, by name.

    key: prefix of the widgets' keys.
    """
    own, sampled = uploads.box(
        "Profiler reports", key, SAMPLES, on_change=_taken_out, args=(key,),
        help=f"{profilers.ACCEPTED}. What a file holds decides how it is read, not its name.",
    )  # fmt: skip
    patterns = st.session_state.get("phase_patterns", profilers.DEFAULT_PHASES)
    files = [*_shared(key, own, bool(sampled)), *sampled]
    found = _REPORTS.read_all((at, SentReport(name, text, patterns)) for at, name, text in files)
    return {name: report for name, (_, report) in found.items()}


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
