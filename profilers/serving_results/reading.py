"""Results of serving benchmarks, chosen by their content: `read_results`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genz_core.errors import ReportError
from profilers.readers import sentence
from profilers.serving_results import sglang_serving, vllm_serve
from profilers.serving_results.documents import Content
from profilers.serving_results.measurement import ServingMeasurement

Read = Callable[[Content], list[ServingMeasurement]]


@dataclass(frozen=True, slots=True)
class Format:
    """A format of JSON.  knows: whether a file's first document is of it."""

    name: str
    knows: Callable[[Any], bool]
    read: Read


JSON_FORMATS = (
    Format(sglang_serving.NAME, sglang_serving.knows, sglang_serving.read),
    Format(vllm_serve.NAME, vllm_serve.knows, vllm_serve.read),
)
#: What is read, for messages and upload forms.
ACCEPTED = ", ".join(sorted(entry.name for entry in JSON_FORMATS))
#: Errors of damage that no reader foresees: an upload must never end a server.
_UNFORESEEN = (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError)


def is_result(path: str | os.PathLike[str]) -> bool:
    """Whether a file looks like a benchmark's result, damaged or not, rather than a report of a
    profiler."""
    try:
        return _reader(Content(Path(path))) is not None
    except (ReportError, OSError, *_UNFORESEEN):
        return False


def read_results(
    path: str | os.PathLike[str], *, label: str | None = None
) -> list[ServingMeasurement]:
    """Read the result of a serving benchmark: one measurement, or those of a sweep.

    Args:
        path: the file; its ending plays no part in how it is read.
        label: name of the file where `path` is a temporary one.

    Raises:
        ReportError: the file cannot be read, in one sentence.
    """
    file = Path(path)
    called = label or file.name
    try:
        found = _read(file)
    except ReportError as error:
        raise ReportError(sentence(called, str(error))) from None
    except MemoryError:
        raise ReportError(sentence(called, "the result is too large for memory")) from None
    except OSError as error:
        raise ReportError(sentence(called, f"cannot be opened ({error.strerror})")) from None
    except _UNFORESEEN as error:
        problem = f"the result is damaged in a way that no reader foresaw ({type(error).__name__})"
        raise ReportError(sentence(called, problem)) from error
    return [dataclasses.replace(measurement, file=called) for measurement in found]


def read_many(paths: Iterable[str | os.PathLike[str]]) -> list[ServingMeasurement]:
    """The measurements of several files, in the order of the files.  Errors as `read_results`."""
    return [measurement for path in paths for measurement in read_results(path)]


def _read(file: Path) -> list[ServingMeasurement]:
    if not file.is_file():
        raise ReportError("no such file" if not file.exists() else "not a file")
    content = Content(file)
    if not content.head.strip():
        raise ReportError("the file is empty")
    chosen = _reader(content)
    if chosen is None:
        raise ReportError(f"this is no benchmark's result that can be read; what can: {ACCEPTED}")
    found = chosen.read(content)
    if not any(map(_has_figures, found)):
        raise ReportError(f"this {chosen.name} file holds no measured figure")
    return found


def _has_figures(measurement: ServingMeasurement) -> bool:
    rates = measurement.throughput
    return bool(measurement.latencies()) or any(
        rate is not None
        for rate in (rates.requests_per_s, rates.input_tokens_per_s, rates.output_tokens_per_s)
    )


def _reader(content: Content) -> Format | None:
    """The format of a file, None where no reader knows it; errors as `Content`."""
    if content.is_json:
        return next((entry for entry in JSON_FORMATS if entry.knows(content.first)), None)
    return None
