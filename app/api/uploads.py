"""Files that are sent: spooled, read as the command line reads its own, and removed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import profilers
from app.api.bodies import CompareBody
from app.benchmarks.reading import base_name
from genz_core.errors import InvalidValue, ReportError
from profilers import serving_results


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


def compared(files: Sequence[Sent], asked: CompareBody) -> dict[str, Any]:
    """What `ridgeline compare --json` prints of files.

    Raises:
        RidgelineError: as the command.
    """
    with _spooled(files) as paths:
        results = [serving_results.is_result(path) for path in paths]
        if all(results):
            return _results(paths, asked)
        if any(results):
            raise InvalidValue("some files are results of a benchmark, some are not: compare apart")
        return _reports(paths, asked)


def _results(paths: Sequence[Path], asked: CompareBody) -> dict[str, Any]:
    from app.benchmarks import document
    from app.benchmarks.comparison import compare
    from app.benchmarks.deployment import GIVEN, deployments
    from app.benchmarks.levels import checked_level

    share = checked_level(asked.level)
    given = {name: value for name, value in _given(asked).items() if name in GIVEN}
    found = compare(deployments(serving_results.read_many(paths), given), share)
    if not found.predicted:
        raise InvalidValue("; ".join(dict.fromkeys(point.refusal for point in found.points)))
    return document.of_comparison(found)


def _reports(paths: Sequence[Path], asked: CompareBody) -> dict[str, Any]:
    from app.measuring.comparison import Asked, compare_asked
    from app.measuring.comparison_document import document
    from app.scenario.scenario import Scenario
    from genz_core.limits import checked_size

    if not asked.model:
        raise InvalidValue("name the model that the reports are of")
    given = _given(asked)
    sizes = {name: given[name] for name in ("tp", "batch", "isl", "osl") if name in given}
    formats = {name: given.get(name, "") for name in ("weights", "kv")}
    steps = {name: checked_size("steps", n, f"steps {name}") for name, n in asked.steps.items()}
    question = Asked(
        asked.model, asked.system, asked.engine or "generic", Scenario(**sizes), formats,
        frozenset(given), asked.fill, asked.phase, steps,
    )  # fmt: skip
    return document(compare_asked(profilers.read_reports(paths), question))


def _given(asked: CompareBody) -> dict[str, Any]:
    """What was asked for, without what is left to the files."""
    return {
        name: value
        for name in asked.model_fields_set
        if (value := getattr(asked, name)) not in (None, "")
    }


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
