"""Uploaded files: spooled, read as on the command line, and removed."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import profilers
from app.api.bodies import Body
from app.api.verbs import extras_by
from app.benchmarks.upload_parsing import base_name
from app.question.query import Query, ask
from app.watching.answer import of_recordings
from genz_core.errors import ReportError


@dataclass(frozen=True, slots=True)
class Sent:
    """An uploaded file."""

    name: str
    content: bytes


def imported(files: Sequence[Sent], by_shape: bool = False) -> list[dict[str, Any]]:
    """The output of `ridgeline import --json` for files.  by_shape: as its option.

    Raises:
        ReportError: one that cannot be read.
    """
    from app.measuring.summary_document import file_documents

    with _spooled(files) as paths:
        return [one for path in paths for one in file_documents(path, by_shape=by_shape)]


def answered(files: Sequence[Sent], body: Body, baseline: Sequence[Sent] = ()) -> dict[str, Any]:
    """The output of `ridgeline compare --json`, `guard --json` or `watch --json` for files.

    Raises:
        RidgelineError: as the command.
    """
    from app.benchmarks import document, file_comparison

    query = ask(body.verb, body.given)
    earlier: Any = _spooled(baseline) if baseline else nullcontext(())
    with _spooled(files) as paths, earlier as before:
        if body.verb == "watch":
            return of_recordings(query, paths, extras_by(body)["window"]).document()
        if body.verb == "guard":
            judged = file_comparison.judged(paths, query, body.level, body.tolerance, before)
            return document.of_guard(*judged)
        if not file_comparison.are_results(paths):
            return _reports(paths, query, body)
        compared = file_comparison.compared(file_comparison.asked_of(paths, query), body.level)
        file_comparison.refuse_unpredicted(compared)
        return document.of_comparison(compared)


def _reports(paths: Sequence[Path], query: Query, body: Body) -> dict[str, Any]:
    from app.measuring.comparison import compare_asked
    from app.measuring.comparison_document import document
    from genz_core.limits import checked_size

    steps = {name: checked_size("steps", n, f"steps {name}") for name, n in body.steps.items()}
    reports = profilers.read_reports(paths)
    return document(compare_asked(reports, query, phase=body.phase, steps=steps, fill=body.fill))


@contextmanager
def _spooled(files: Sequence[Sent]) -> Iterator[list[Path]]:
    """The files in a temporary folder, each under its base name."""
    if not files:
        raise ReportError("no file was sent: give one or more as `files`")
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
        paths = []
        for at, sent in enumerate(files):
            path = Path(folder) / str(at) / base_name(sent.name)
            try:
                path.parent.mkdir()
                path.write_bytes(sent.content)
            except OSError as error:
                raise ReportError(
                    f"{sent.name}: cannot be written to a temporary file ({error.strerror})"
                ) from None
            paths.append(path)
        yield paths
