"""Files that are sent: spooled, read as the command line reads its own, and removed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import profilers
from app.api.bodies import Body
from app.benchmarks.reading import base_name
from app.question.asking import Asked, ask
from genz_core.errors import InvalidValue, ReportError
from profilers import serving_results

if TYPE_CHECKING:
    from app.benchmarks.comparison import Comparison


@dataclass(frozen=True, slots=True)
class Sent:
    """A file as it came."""

    name: str
    content: bytes


def imported(files: Sequence[Sent]) -> list[dict[str, Any]]:
    """What `ridgeline import --json` prints of files.

    Raises:
        ReportError: one that cannot be read.
    """
    from app.measuring import result_table
    from app.measuring.summary_document import summary_document

    found: list[dict[str, Any]] = []
    with _spooled(files) as paths:
        for path in paths:
            if serving_results.is_result(path):
                found += result_table.documents(serving_results.read_results(path))
                continue
            summary = profilers.summarise(profilers.read_report(path, label=path.name))
            found.append({"file": path.name, **summary_document(summary)})
    return found


def answered(files: Sequence[Sent], body: Body, baseline: Sequence[Sent] = ()) -> dict[str, Any]:
    """What `ridgeline compare --json` or `ridgeline guard --json` prints of files.

    Raises:
        RidgelineError: as the command.
    """
    from app.benchmarks import document

    asked = ask(body.verb, body.given)
    with _spooled(files) as paths:
        if body.verb == "guard":
            return _judged(paths, asked, body, baseline)
        results = [serving_results.is_result(path) for path in paths]
        if all(results):
            return document.of_comparison(_results(paths, asked, body))
        if any(results):
            raise InvalidValue("some files are results of a benchmark, some are not: compare apart")
        return _reports(paths, asked, body)


def _judged(
    paths: Sequence[Path], asked: Asked, body: Body, baseline: Sequence[Sent]
) -> dict[str, Any]:
    from app.benchmarks import document
    from app.benchmarks.guard import guard

    compared, earlier = _results(paths, asked, body), []
    if baseline:
        with _spooled(baseline) as before:
            earlier = serving_results.read_many(before)
    return document.of_guard(guard(compared, earlier, body.tolerance / 100.0), compared)


def _results(paths: Sequence[Path], asked: Asked, body: Body) -> Comparison:
    from app.benchmarks.comparison import compare
    from app.benchmarks.deployment import deployments
    from app.benchmarks.levels import checked_level

    found = compare(deployments(serving_results.read_many(paths), asked), checked_level(body.level))
    if not found.predicted and body.verb == "compare":
        raise InvalidValue("; ".join(dict.fromkeys(point.refusal for point in found.points)))
    return found


def _reports(paths: Sequence[Path], asked: Asked, body: Body) -> dict[str, Any]:
    from app.measuring.comparison import compare_asked
    from app.measuring.comparison_document import document
    from genz_core.limits import checked_size

    steps = {name: checked_size("steps", n, f"steps {name}") for name, n in body.steps.items()}
    reports = profilers.read_reports(paths)
    return document(compare_asked(reports, asked, phase=body.phase, steps=steps, fill=body.fill))


@contextmanager
def _spooled(files: Sequence[Sent]) -> Iterator[list[Path]]:
    """The files in a folder of their own, each under the last part of its name."""
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
                raise ReportError(f"{sent.name}: cannot be spooled ({error.strerror})") from None
            paths.append(path)
        yield paths
