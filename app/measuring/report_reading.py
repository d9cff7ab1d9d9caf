"""Reading uploaded reports from their bytes, here or in a separate process."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import profilers
from genz_core.common.progress import Cancel, Progress, never, silent
from genz_core.errors import ReportError
from profilers import PhasePattern, Report
from profilers.readers.compressed import decompressed_head

#: Largest unpacked size that is read in a fraction of a second.
QUICK_BYTES = 5_000_000


@dataclass(frozen=True, slots=True)
class SentReport:
    """An uploaded report.  name: of its file.  patterns: phases by range name."""

    name: str
    content: bytes
    patterns: tuple[PhasePattern, ...]


def read_sent(sent: SentReport, progress: Progress = silent, cancelled: Cancel = never) -> Report:
    """Spool a report to a file and read it.

    Raises:
        ReportError: it cannot be read, or the disk is full.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
            path = Path(folder) / "report"
            path.write_bytes(sent.content)
            progress(0.1, "reading")
            return profilers.read_report(path, label=sent.name, phases=sent.patterns)
    except OSError as error:
        raise ReportError(
            f"{sent.name}: cannot be written to a temporary file ({error.strerror})"
        ) from None


def reads_quickly(content: bytes) -> bool:
    """Whether a report, unpacked, is small enough to be read without slowing other visitors."""
    if len(content) > QUICK_BYTES:
        return False
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
        path = Path(folder) / "report"
        path.write_bytes(content)
        try:
            return len(decompressed_head(path, QUICK_BYTES + 1)) <= QUICK_BYTES
        except ReportError:  # reading it will give the error
            return True


def size_of(report: Report) -> int:
    """Memory that the tables of a report take, in bytes."""
    tables = (report.kernels, report.copies, report.ranges, report.host, report.metrics)
    return int(sum(table.memory_usage(deep=True).sum() for table in tables))
