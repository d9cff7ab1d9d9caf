"""Readers of profiler reports, a module per format, chosen by the content of a file.

Whatever a file holds, reading it ends in a `Report` or in a `ReportError`, in bounded time and
memory; nothing of the host, its users, its environment or its processes is kept.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from genz_core.errors import ReportError, file_problem
from profilers.operators.attribution import DEFAULT_PHASES, PhasePattern, attribute
from profilers.readers import (
    ncu_csv,
    ncu_rep,
    nsys_csv,
    nsys_rep,
    nsys_sqlite,
    nsys_staged,
    rocpd,
    rocprof_csv,
    rocprof_json,
    torch_trace,
    unitrace,
    xplane,
)
from profilers.readers.columns import label_of, with_readable_names
from profilers.readers.compressed import (
    GZIP_MAGIC,
    ZIP_MAGIC,
    content_chunks,
    decompressed_head,
)
from profilers.readers.csv_tables import breaks_off, decoded, find_header, read_text
from profilers.schema import Report

Reader = Callable[[Path], Report]

#: Formats that are read, for messages and upload forms.
ACCEPTED = (
    "Nsight Systems exports (.sqlite, .json, Parquet folders) and stats tables (.csv), Nsight "
    "Compute reports (.ncu-rep) and tables (.csv), PyTorch profiler traces (.json, .json.gz, "
    ".zip), rocprofv3's tables (.csv), JSON and databases (.db), text of unitrace, XSpaces "
    "of JAX (.xplane.pb)"
)


def read_report(
    path: str | os.PathLike[str],
    *,
    phases: Sequence[PhasePattern] = DEFAULT_PHASES,
    label: str | None = None,
) -> Report:
    """Read a profiler report and attribute its kernels.

    Args:
        path: the file; its format is recognised by content.
        phases: phases by range name, the first match counts.
        label: name of the file where `path` is a temporary one; a label that names a phase gives
            it to a report whose ranges name none.

    Raises:
        ReportError: the file cannot be read, in one sentence.
    """
    file = Path(path)
    called = label or file.name
    try:
        report = _whole_or_said(file)
    except ReportError as error:
        raise ReportError(sentence(called, str(error))) from None
    except MemoryError:
        raise ReportError(sentence(called, "the report is too large for memory")) from None
    except OSError as error:
        raise ReportError(sentence(called, file_problem(error))) from None
    except _UNFORESEEN as error:
        raise ReportError(sentence(called, f"{UNFORESEEN} ({type(error).__name__})")) from error
    report = dataclasses.replace(report, kernels=with_readable_names(report.kernels))
    if label is not None:
        report = dataclasses.replace(report, label=label_of(Path(label)))
    return attribute(report, phases)


def read_reports(
    paths: Iterable[str | os.PathLike[str]], *, phases: Sequence[PhasePattern] = DEFAULT_PHASES
) -> list[Report]:
    """Read the reports of a run: its ranks or its stages.  Errors as `read_report`."""
    return [read_report(path, phases=phases) for path in paths]


#: Errors of damaged files that no reader anticipates: an upload must never end a server.
_UNFORESEEN = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)
UNFORESEEN = "the report is damaged in a way that no reader foresaw"
_MAX_MESSAGE_CHARS = 500


def sentence(called: str, problem: str) -> str:
    """A message as a single line of printable text, bounded in length."""
    text = " ".join(f"{called}: {problem}".split())
    return "".join(c if c.isprintable() else "?" for c in text)[:_MAX_MESSAGE_CHARS]


def _whole_or_said(file: Path) -> Report:
    """The report of a file; if it is truncated, with a note in front that says so.

    Raises:
        ReportError: as its reader, or the file holds no kernel before it breaks off.
    """
    if _is_packed_binary(file):
        with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
            plain = Path(folder) / "report"
            with plain.open("wb") as target:
                for chunk in content_chunks(file):
                    target.write(chunk)
            return dataclasses.replace(_whole_or_said(plain), label=label_of(file))
    reader = _reader(file)
    if not any(reader is module.read for module in _TABLES):
        return reader(file)
    cut = breaks_off(read_text(file))
    if not cut:
        return reader(file)
    try:
        report = reader(file)
    except ReportError as error:
        raise ReportError(f"{cut} ({error})") from None
    if report.kernels.empty:
        raise ReportError(f"{cut}, before its first kernel")
    return dataclasses.replace(report, notes=(cut, *report.notes), truncated=cut)


def _is_packed_binary(file: Path) -> bool:
    """Whether a file is a database or an Nsight report inside gzip or zip, which cannot be
    streamed.
    """
    if not file.is_file():
        return False
    with file.open("rb") as opened:
        magic = opened.read(4)
    if not magic.startswith((GZIP_MAGIC, ZIP_MAGIC)):
        return False
    head = decompressed_head(file, 64)
    return any(module.sniff(head) for module in (nsys_sqlite, ncu_rep, nsys_rep))


_TABLES = (ncu_csv, nsys_csv, rocprof_csv)
_ROCPROF_JSON = b'"rocprofiler-sdk-tool"'
#: Bytes of a text file in which the header of a table must occur.
_SEARCHED_BYTES = 4 << 20


def _reader(file: Path) -> Reader:
    """The reader for the content of a file.

    Raises:
        ReportError: no reader knows it.
    """
    if file.is_dir() and nsys_staged.is_parquet_folder(file):
        return nsys_staged.read_parquet_folder
    if file.exists() and not file.is_file():
        raise ReportError("not a file")
    with file.open("rb") as opened:
        magic = opened.read(64)
    if not magic:
        raise ReportError(
            "the file is empty; nsys stats leaves an empty file where a capture holds nothing "
            "of the report asked for"
        )
    if nsys_sqlite.sniff(magic):
        return rocpd.read if rocpd.knows(file) else nsys_sqlite.read
    for module in (ncu_rep, nsys_rep):
        if module.sniff(magic):
            return module.read
    head = decompressed_head(file, _SEARCHED_BYTES)
    if xplane.sniff(head):
        return xplane.read
    if nsys_staged.sniff_lines(head):
        return nsys_staged.read_lines
    if torch_trace.sniff(head):
        if _ROCPROF_JSON in head[:4096]:
            return rocprof_json.read
        return torch_trace.read
    return _table_reader(head)


def _table_reader(head: bytes) -> Reader:
    """The reader for the first table in a text; errors as `_reader`."""
    text = decoded(head)
    for module in _TABLES:
        if find_header(text.splitlines(), 0, module.knows) is not None:
            return module.read
    if unitrace.sniff(text):
        return unitrace.read
    raise ReportError(f"this is not a report that can be read; readable are: {ACCEPTED}")
