"""The errors of Ridgeline.

    RidgelineError
    ├── UnknownName          a model, system, engine or precision in no registry (near names listed)
    │   ├── UnknownModel
    │   ├── UnknownSystem
    │   ├── UnknownEngine
    │   └── UnknownPrecision
    ├── InvalidValue         a number or a field outside what it may be
    │   └── InvalidParallelism   degrees that do not divide the model
    ├── OutOfMemory          a configuration that does not fit its devices
    ├── ContextTooLong       sequences beyond the positions of the model
    ├── MissingSpec          a figure that the datasheet does not state and the estimate needs
    ├── UnsupportedModel     an architecture, or a key that changes its shape, without a builder
    │   ├── NotADecoder      a front end, a draft, an encoder that nobody has described
    │   └── NoOutput         a figure of generation, requested for an encoder
    ├── ReportError          a profiler report that cannot be read
    └── MeasurementError     a run that could not be measured

Every message is one sentence: the value, what is near, what to do.  `code` is the short reason
that tables carry in their `status` column.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from types import MappingProxyType

#: Most names that an error lists where several fit.
_MOST_FITTING = 8
#: Most letters that a name has; a longer text is not compared with names.
LONGEST_NAME = 200


#: What an interface takes instead of an unknown name, by kind; of this machine's user by default.
_INSTEAD: ContextVar[Mapping[str, str]] = ContextVar("instead", default=MappingProxyType({}))


@contextmanager
def taking(instead: Mapping[str, str]) -> Iterator[None]:
    """Within the block, errors on unknown names give an interface's own advice, by kind."""
    token = _INSTEAD.set(instead)
    try:
        yield
    finally:
        _INSTEAD.reset(token)


def file_problem(error: Exception) -> str:
    """Why a file cannot be read, after its name in a sentence: "x.yaml: no such file"."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    return getattr(error, "strerror", None) or str(error)


class RidgelineError(Exception):
    """Base of every error that a user can cause; the dashboard shows its text unchanged.

    where: what the error is about, if its text does not name it; the text begins with it.
    """

    code = "error"
    where = ""

    def __str__(self) -> str:
        said = self._said()
        return f"{self.where}: {said}" if self.where else said

    def _said(self) -> str:
        return super().__str__()


class UnknownName(RidgelineError, LookupError):
    """A name that is in no registry.

    Args:
        kind: of the registry ("model", "system").
        name: as it was typed.
        names: all names of the registry; the nearest are suggested.
        hint: advice for a name that is not in the registry.
        fits: names that contain what was typed; they are always listed.
        instead: where the names are listed, and what may be given instead of one, on this machine;
            another interface has sentences of its own (`taking`).
    """

    code = "unknown_name"

    def __init__(
        self,
        kind: str,
        name: str,
        names: Iterable[str] = (),
        hint: str = "",
        fits: Sequence[str] = (),
        instead: str = "",
    ) -> None:
        name = str(name)
        if len(name) > LONGEST_NAME:
            name = f"{name[:LONGEST_NAME]}…"
        super().__init__(kind, name)
        self.kind, self.name, self.fits, self.hint = kind, name, tuple(fits), hint
        self.instead = _INSTEAD.get().get(kind, instead) if instead else ""
        self._names = frozenset(map(str, names))

    @cached_property
    def near(self) -> list[str]:
        """At most four names that contain or resemble what was typed, or eight that it fits.

        Searched for when asked: most errors are caught where a name may be something else.
        """
        if len(self.fits) > 1:
            return list(self.fits[:_MOST_FITTING])
        folded = {entry.casefold(): entry for entry in sorted(self._names)}
        matches = difflib.get_close_matches(self.name.casefold(), folded, n=4, cutoff=0.4)
        return list(dict.fromkeys((*self.fits, *(folded[match] for match in matches))))[:4]

    def _said(self) -> str:
        near = ""
        if len(self.fits) > 1:
            left = len(self.fits) - len(self.near)
            more = f" and {left} more" if left else ""
            near = f"; it fits {', '.join(self.near)}{more}: say which"
        elif self.near:
            near = f"; near: {', '.join(self.near)}"
        said = (f"unknown {self.kind} {self.name!r}{near}", self.hint, self.instead)
        return ". ".join(filter(None, said))


class UnknownModel(UnknownName):
    """Raised for a model that is neither shipped nor found at the place that its name gives."""

    code = "unknown_model"


class UnknownSystem(UnknownName):
    """Raised for a system that is neither shipped nor among the user's own systems."""

    code = "unknown_system"


class UnknownEngine(UnknownName):
    """A serving engine without a profile, or an unreadable version of one."""

    code = "unknown_engine"


class UnknownPrecision(UnknownName):
    """A number format without an entry in `genz_core.precision.FORMATS`."""

    code = "unknown_precision"


class InvalidValue(RidgelineError, ValueError):
    """A value outside its range: negative sizes, wrong units, contradictory fields."""

    code = "invalid_value"


class InvalidParallelism(InvalidValue):
    """Raised for degrees that do not divide the model; the message names valid ones nearby."""

    code = "invalid_parallelism"


class OutOfMemory(RidgelineError):
    """A configuration that exceeds its memory; the message lists the parts and a remedy."""

    code = "out_of_memory"


class ContextTooLong(RidgelineError):
    """A sequence with more tokens than the model has positions for."""

    code = "context_too_long"


class MissingSpec(RidgelineError):
    """Raised where the estimate needs a figure that the system's datasheet does not state."""

    code = "missing_spec"


class UnsupportedEngine(RidgelineError):
    """Raised for an engine on a system that it does not support."""

    code = "unsupported_engine"


class UnsupportedModel(RidgelineError):
    """An architecture, or a key that changes its shape, that no builder understands."""

    code = "unsupported_model"


class NoOutput(UnsupportedModel):
    """A figure of generation was requested for a model that generates nothing."""

    code = "no_output"


class NotADecoder(UnsupportedModel):
    """A checkpoint of an unsupported kind: an estimate would describe a different model.

    kind: of the checkpoint ("encoder-only", "encoder-decoder").
    """

    code = "not_a_decoder"

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


class ReportError(RidgelineError):
    """A profiler report that is truncated, from another tool, hostile or of an unknown version."""

    code = "unreadable_report"


class MeasurementError(RidgelineError):
    """A live run that could not be measured; the message says what to do about it."""

    code = "measurement_failed"
