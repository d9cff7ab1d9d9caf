"""Progress and cancellation of long runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: Called with the finished share, from 0 to 1, and the current piece of work.
Progress = Callable[[float, str], None]
#: Polled between pieces of work; True ends the run.
Cancel = Callable[[], bool]


@dataclass(slots=True)
class Cancelled(Exception):
    """A run was cancelled before anything was complete.  at: the piece of work."""

    at: str = ""


def silent(_share: float, _what: str) -> None:
    """Report no progress."""


def never() -> bool:
    """Never cancel."""
    return False


def part(progress: Progress, start: float, end: float, name: str = "") -> Progress:
    """Progress of a piece of work that covers the share [start, end] of the whole.

    name: of the piece, said before what it does.
    """
    lead = f"{name}: " if name else ""
    return lambda share, what: progress(
        start + (end - start) * min(max(share, 0.0), 1.0), f"{lead}{what}"
    )
