"""The errors of Ridgeline.

    RidgelineError
    ├── UnknownName          a model, system, engine or precision nobody knows (near names listed)
    │   ├── UnknownModel
    │   ├── UnknownSystem
    │   ├── UnknownEngine
    │   └── UnknownPrecision
    ├── InvalidValue         a number or a field outside what it may be
    │   └── InvalidParallelism   degrees that do not divide the model
    ├── OutOfMemory          a configuration that does not fit its devices
    ├── MissingSpec          a figure that the datasheet does not state and the question needs
    ├── UnsupportedModel     an architecture, or a key that changes its shape, nobody has described
    ├── ReportError          a profiler report that cannot be read
    └── MeasurementError     a run that could not be measured

Every message is one sentence: what was given, what is near, what to do.  `code` is the short
reason that tables carry in their `status` column.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RidgelineError(Exception):
    """Base of every error that a user can cause; the dashboard shows its text as it is."""

    code = "error"


class UnknownName(RidgelineError, LookupError):
    """A name that is in no registry.

    Args:
        kind: what was looked up ("model", "system").
        name: what was given.
        known: all names, from which the nearest are suggested.
        hint: what to do when none of them is meant.
    """

    code = "unknown_name"

    def __init__(self, kind: str, name: str, known: Iterable[str] = (), hint: str = "") -> None:
        known = sorted({str(entry) for entry in known})
        folded = {entry.casefold(): entry for entry in known}
        matches = difflib.get_close_matches(str(name).casefold(), folded, n=4, cutoff=0.4)
        self.kind, self.name = kind, name
        self.near = [folded[match] for match in matches]
        near = f"; near: {', '.join(self.near)}" if self.near else ""
        super().__init__(f"unknown {kind} {name!r}{near}{'. ' + hint if hint else ''}")


class UnknownModel(UnknownName):
    code = "unknown_model"


class UnknownSystem(UnknownName):
    code = "unknown_system"


class UnknownEngine(UnknownName):
    code = "unknown_engine"


class UnknownPrecision(UnknownName):
    code = "unknown_precision"


class InvalidValue(RidgelineError, ValueError):
    """A value outside what it may be: negative sizes, wrong units, fields that contradict."""

    code = "invalid_value"


class InvalidParallelism(InvalidValue):
    """Degrees that do not divide the model; the message names the nearest that do."""

    code = "invalid_parallelism"


class OutOfMemory(RidgelineError):
    """A configuration that does not fit; the message says what takes the memory and what helps."""

    code = "out_of_memory"


class MissingSpec(RidgelineError):
    """A figure that the question needs and the system's datasheet does not state."""

    code = "missing_spec"


class UnsupportedModel(RidgelineError):
    """An architecture, or a key that changes its shape, that no builder understands."""

    code = "unsupported_model"


class ReportError(RidgelineError):
    """A profiler report that is truncated, foreign, hostile or of an unknown version."""

    code = "unreadable_report"


class MeasurementError(RidgelineError):
    """A live run that could not be measured, and what to do about it."""

    code = "measurement_failed"
