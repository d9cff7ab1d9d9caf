"""Files that a visitor uploads, and the samples that ship: read once, large ones by a job."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import streamlit as st

from app.dashboard.byte_cache import ByteCache
from app.dashboard.job_progress import show_progress, submitted
from app.jobs import READING
from app.jobs.order import Work
from app.measuring.report_reading import reads_quickly
from app.wording.markdown import plain
from genz_core.errors import ReportError, RidgelineError

MAX_UPLOAD_MB = 200
#: Id, name and content of a file.
Upload = tuple[str, str, bytes]
_FOLDER = Path(__file__).parents[1] / "samples"


class Sent(Protocol):
    """A file that was uploaded, a frozen dataclass with what else it is read by."""

    @property
    def name(self) -> str: ...
    @property
    def content(self) -> bytes: ...


File = TypeVar("File", bound=Sent)
Read = TypeVar("Read")


@dataclass(eq=False)
class Reader(Generic[File, Read]):
    """Reads one kind of files for all sessions, and keeps what was read last.

    read: a file.  size_of: bytes of what was read.  most_bytes: that are kept; a larger file would
    be read at every redraw.
    """

    read: Callable[[File], Read]
    size_of: Callable[[Read], int]
    most_bytes: int
    kept: ByteCache[Read] = field(init=False)

    def __post_init__(self) -> None:
        self.kept = ByteCache(self.most_bytes, ttl_s=3600.0)

    def read_all(self, files: Iterable[tuple[str, File]]) -> dict[str, tuple[File, Read]]:
        """The files that can be read, by name, with what they hold: shared, not to be changed.

        One that cannot be read is shown as its error, a large one as its progress until it is
        there.  files: with the id that the browser's upload has.
        """
        found: dict[str, tuple[File, Read]] = {}
        for file_id, sent in files:
            try:
                read = self._read(digest(file_id, sent.content), sent)
            except RidgelineError as error:
                st.error(plain(error), icon=":material/error:")
                continue
            if read is not None:
                found[_unlike(sent.name, found)] = sent, read
        return found

    def _read(self, digest: str, sent: File) -> Read | None:
        """What a file holds; None while it is read in a process of its own.

        Raises:
            RidgelineError: it cannot be read.
        """
        told: Any = sent
        key = (digest, replace(told, content=b""))
        read = self.kept.get(key)
        if read is None:
            quick = reads_quickly(sent.content)
            read = self.read(sent) if quick else self._by_job(f"read {hash(key):x}", sent)
            if read is not None:
                self.kept.put(key, read, self.size_of(read))
        return read

    def _by_job(self, key: str, sent: File) -> Any | None:
        """What the job in the session state `key` has read of a file, None while it reads."""
        work: Work = self.read  # type: ignore[assignment]  # takes progress and cancel besides
        lane = replace(READING, result_bytes=self.most_bytes // 2)
        job = submitted(key, work, sent, f"Reading {sent.name}", lane)
        if not job.over:
            show_progress(key, key)
            return None
        if job.error:
            raise ReportError(job.error)
        del st.session_state[key]
        return job.result


def box(
    label: str, key: str, samples: Mapping[str, str], **more: Any
) -> tuple[list[Upload], list[Upload]]:
    """Draw a box for uploads and the samples; returns the files in it, and the chosen samples.

    key: prefix of the widgets' keys.  samples: files in `app/samples` by title.
    more: arguments of `st.file_uploader`.
    """
    files = st.file_uploader(
        label, accept_multiple_files=True, max_upload_size=MAX_UPLOAD_MB, key=f"{key}_files", **more
    )
    chosen = st.pills(
        "Or try a sample", list(samples), selection_mode="multi", key=f"{key}_samples",
        bind="query-params",
    )  # fmt: skip
    own = [(file.file_id, file.name, file.getvalue()) for file in files]
    return own, [(name, samples[name], (_FOLDER / samples[name]).read_bytes()) for name in chosen]


def _unlike(name: str, taken: Mapping[str, object]) -> str:
    """The name, numbered where another upload has the same."""
    numbered = (f"{name} ({number})" for number in range(2, len(taken) + 3))
    return name if name not in taken else next(n for n in numbered if n not in taken)


@st.cache_data(max_entries=64, show_spinner=False)
def digest(file_id: str, _content: bytes) -> str:
    """Hash of a file's content, by the id that the browser's upload has."""
    return hashlib.sha256(_content).hexdigest()
