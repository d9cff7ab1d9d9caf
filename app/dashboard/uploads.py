"""Files uploaded to any page, and the shipped samples: one list, each read once."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow
import streamlit as st

import profilers
from app.benchmarks.sent_files import Found, Kind, SentFile, Unread, read_sent, size_of
from app.benchmarks.upload_parsing import SentResult
from app.dashboard.caches import ByteCache
from app.dashboard.job_progress import show_progress, submitted
from app.dashboard.page_texts import page_text
from app.dashboard.widgets import saying_errors
from app.jobs import READING
from app.measuring.report_reading import reads_quickly
from app.wording.markdown import plain
from genz_core.errors import ReportError
from hardware_db import yaml_document
from profilers import PhasePattern, Report
from profilers.serving_results import ServingMeasurement, server_log
from profilers.serving_results.server_log import ServerLog

MAX_UPLOAD_MB = 200
#: Bytes of parsed files cached for all sessions; a larger file is read again at every redraw.
_MOST_BYTES = 512 << 20
_FOLDER = Path(__file__).parents[1] / "samples"
_SHIPPED = yaml_document.read(_FOLDER / "samples.yaml")
#: Files of the samples by title: of reports, and of results.
REPORT_SAMPLES, RESULT_SAMPLES = (
    {title: str(one["file"]) for title, one in _SHIPPED.items() if one["holds"] == kind}
    for kind in ("report", "result")
)
_SAMPLES: Mapping[str, str] = {**REPORT_SAMPLES, **RESULT_SAMPLES}
#: Id, name and content of a file.
_Upload = tuple[str, str, bytes]
#: Result files as uploaded, by name.
Results = dict[str, tuple[SentResult, list[ServingMeasurement]]]
_BROUGHT = "brought_files"
#: Arrow's own pool keeps the 100 MB that drawing a large report takes; the system allocator frees
#: it.
pyarrow.set_memory_pool(pyarrow.system_memory_pool())
KEPT = ByteCache[Found](_MOST_BYTES, ttl_s=3600.0)


@dataclass(slots=True)
class Uploaded:
    """The readable files of a visitor, by name and kind.

    results: with the original file, and the content of server logs.  others: kinds that are read
    where they are used, with the id of the browser's upload.  ran: what ran, by the names of
    parameters, if the one result is a sample that does not tell.
    """

    reports: dict[str, Report] = field(default_factory=dict)
    results: Results = field(default_factory=dict)
    logs: list[ServerLog] = field(default_factory=list)
    others: list[tuple[str, Unread, SentFile]] = field(default_factory=list)
    ran: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.reports or self.results or self.logs or self.others)

    def first(self, kind: Kind, part: str) -> SentFile | None:
        """The first file of a kind, for a part that uses one; draws a note on the others."""
        sent = [one for _, _, one in self.of_kind(kind)]
        if len(sent) > 1:
            names = ", ".join(plain(one.name) for one in sent[1:])
            st.caption(f"{part} reads only one file, {plain(sent[0].name)}; ignored: {names}.")
        return sent[0] if sent else None

    def of_kind(self, *kinds: str) -> list[tuple[str, Unread, SentFile]]:
        """The other files of the given kinds."""
        return [one for one in self.others if one[1].kind in kinds]


def picker(key: str, samples: Collection[str] = tuple(_SAMPLES)) -> Uploaded:
    """Draw the upload box and the samples; returns the readable files.

    For an unreadable file its error is drawn, for a large one the progress of reading.

    key: prefix of the widgets' keys.  samples: titles of the offered samples.
    """
    files = st.file_uploader(
        "Files of any kind", accept_multiple_files=True, max_upload_size=MAX_UPLOAD_MB,
        key=f"{key}_files", on_change=_taken_out, args=(key,),
        help=page_text("files", accepted=profilers.ACCEPTED),
    )  # fmt: skip
    chosen = samples and st.pills(
        "Or try a sample", list(samples), selection_mode="multi", key=f"{key}_samples",
        bind="query-params",
    )  # fmt: skip
    own = [(file.file_id, file.name, file.getvalue()) for file in files]
    sampled = [(n, _SAMPLES[n], (_FOLDER / _SAMPLES[n]).read_bytes()) for n in chosen]
    patterns = st.session_state.get("phase_patterns", profilers.DEFAULT_PHASES)
    found = Uploaded()
    for at, name, content in [*_shared(key, own, bool(sampled)), *sampled]:
        _put(found, at, SentFile(name, content, tuple(patterns)))
    for log in found.logs:
        st.caption(f"A log of {log.engine}: {plain('; '.join(log.sentences))}.")
    found.results = {
        name: (sent, server_log.with_logs(runs, found.logs))
        for name, (sent, runs) in found.results.items()
    }
    if len(found.results) == 1 and not own:
        ran = {one["file"]: one.get("ran", {}) for one in _SHIPPED.values()}
        found.ran = ran.get(next(iter(found.results)), {})
    return found


def _put(found: Uploaded, file_id: str, sent: SentFile) -> None:
    """Read a file and add it in place to those of its kind; draws its error or progress."""
    with saying_errors():
        read = _read(_digest(file_id, sent.content), sent)
        if isinstance(read, Report):
            found.reports[_unlike(sent.name, found.reports)] = read
        elif isinstance(read, list):
            name = _unlike(sent.name, found.results)
            found.results[name] = SentResult(sent.name, sent.content), read
        elif isinstance(read, ServerLog):
            found.logs.append(read)
        elif read is not None:
            found.others.append((file_id, read, sent))


def _read(digest: str, sent: SentFile) -> Found | None:
    """The content of a file; None while it is read in a separate process."""
    key = (digest, replace(sent, content=b""))
    read = KEPT.get(key)
    if read is None:
        quick = reads_quickly(sent.content)
        read = read_sent(sent) if quick else _by_job(f"read {hash(key):x}", sent)
        if read is not None:
            KEPT.put(key, read, size_of(read))
    return read


def _by_job(key: str, sent: SentFile) -> Found | None:
    """The content read by the job in the session state `key`, None while it reads."""
    lane = replace(READING, result_bytes=_MOST_BYTES // 2)
    job = submitted(key, read_sent, sent, f"Reading {sent.name}", lane)
    if not job.over:
        show_progress(key)
        return None
    if job.error:
        raise ReportError(job.error)
    del st.session_state[key]
    found: Found = job.result
    return found


def _unlike(name: str, taken: Collection[str]) -> str:
    """The name, with a number if another upload has the same name."""
    numbered = (name if number == 1 else f"{name} ({number})" for number in count(1))
    return next(one for one in numbered if one not in taken)


@st.cache_data(max_entries=64, show_spinner=False)
def _digest(file_id: str, _content: bytes) -> str:
    """Hash of a file's content, cached by the id of the browser's upload."""
    return hashlib.sha256(_content).hexdigest()


# ------------------------------------------------------------------------------- brought before


def _shared(key: str, brought: list[_Upload], sampled: bool) -> list[_Upload]:
    """The files of this box, or else those that the visitor uploaded to any page before.

    A box becomes empty when its page is left.
    key: of the box.  sampled: whether a sample is chosen, which replaces shared files.
    """
    if brought:
        st.session_state[_BROUGHT] = brought
        return brought
    before: list[_Upload] = st.session_state.get(_BROUGHT, [])
    if not before or sampled:
        return []
    names = ", ".join(plain(name) for _, name, _ in before)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"Uploaded before: {names}")
        st.button("Forget", on_click=st.session_state.pop, args=(_BROUGHT, None),
                  key=f"{key}_forget", type="tertiary")  # fmt: skip
    return before


def _taken_out(key: str) -> None:
    """Forget the shared files once the visitor removes the last one from the box; a callback."""
    if not st.session_state.get(f"{key}_files"):
        st.session_state.pop(_BROUGHT, None)


def pattern_box() -> None:
    """Draw the box of the user's phase patterns and put them before the default ones."""
    with st.popover("Phase patterns", icon=":material/rule:"):
        st.caption("Regular expressions on range names; the first match wins.")
        own = [
            PhasePattern(phase, typed)
            for phase in ("prefill", "decode")
            if (typed := st.text_input(phase.capitalize(), key=f"pattern_{phase}", max_chars=200))
        ]
        st.session_state["phase_patterns"] = profilers.DEFAULT_PHASES
        with saying_errors():
            for pattern in own:
                pattern.compiled()
            st.session_state["phase_patterns"] = (*own, *profilers.DEFAULT_PHASES)
