"""Reading uploaded results from their bytes, here or in a separate process."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from genz_core.common.progress import Cancel, Progress, never, silent
from genz_core.errors import ReportError
from profilers.serving_results import ServingMeasurement, read_results


@dataclass(frozen=True, slots=True)
class SentResult:
    """An uploaded result file.  name: of the file."""

    name: str
    content: bytes


def read_sent(
    sent: SentResult, progress: Progress = silent, cancelled: Cancel = never
) -> list[ServingMeasurement]:
    """Spool a result to a file and read it.

    Raises:
        ReportError: it cannot be read, or the disk is full.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
            path = Path(folder) / base_name(sent.name)
            path.write_bytes(sent.content)
            progress(0.1, "reading")
            return read_results(path, label=sent.name)
    except OSError as error:
        raise ReportError(
            f"{sent.name}: cannot be written to a temporary file ({error.strerror})"
        ) from None


def base_name(name: str) -> str:
    """The last part of a file's name, which may state facts that the record leaves out."""
    plain = "".join(c if c.isalnum() or c in "._-" else "_" for c in name.rpartition("/")[2])
    return plain.lstrip(".")[:120] or "result"


def size_of(measurements: list[ServingMeasurement]) -> int:
    """Approximate memory of measurements, in bytes."""
    rows = (one.requests for one in measurements if one.requests is not None)
    return 20_000 * len(measurements) + sum(int(t.memory_usage(deep=True).sum()) for t in rows)
