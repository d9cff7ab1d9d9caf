"""A question of the verb "watch" answered: of a recording, or of a live page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from app.question.asking import Asked
from app.watching.pages import Look, recorded
from app.watching.watch import Event, Watched, Watcher, watched
from genz_core.errors import InvalidValue
from genz_core.progress import Cancel, never


def of_recordings(
    asked: Asked,
    paths: Sequence[Path],
    window: float = 60.0,
    cancelled: Cancel = never,
) -> Watched:
    """Watch recordings of one server, one after another.

    Raises:
        ReportError: one is no recording.  InvalidValue: no model is named.
    """
    return of_looks(asked, _every(paths), window, cancelled)


def of_looks(
    asked: Asked, looks: Iterable[Look], window: float = 60.0, cancelled: Cancel = never
) -> Watched:
    """Watch looks that were taken before.

    Raises:
        InvalidValue: no model is named.
    """
    refuse_unnamed(asked)
    return followed(Watcher(asked, window), looks, cancelled=cancelled)


def refuse_unnamed(asked: Asked) -> None:
    """Refuse a question that names no model: a page does not say what is served on what.

    Raises:
        InvalidValue: it names none.
    """
    if "model" not in asked.given:
        raise InvalidValue(
            "a metrics page does not say what serves it: name the model, its system and engine"
        )


def followed(
    watcher: Watcher,
    looks: Iterable[Look],
    told: Callable[[Look, list[Event]], None] = lambda look, events: None,
    cancelled: Cancel = never,
) -> Watched:
    """Take looks until there are no more.  told: called after each with what is new to say."""
    for look in looks:
        told(look, watcher.look(look))
        if cancelled():
            break
    return watched(watcher)


def _every(paths: Sequence[Path]) -> Iterator[Look]:
    for path in paths:
        yield from recorded(path)
