"""The answer to a question with the verb "watch": from a recording, or from a live page."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from app.question.query import Query
from app.watching.pages import Look, recorded
from app.watching.watch import Watcher, watched
from app.watching.windows import Event, Watched
from genz_core.common.progress import Cancel, never
from genz_core.errors import InvalidValue


def of_recordings(
    query: Query,
    paths: Sequence[Path],
    window: float = 60.0,
    cancelled: Cancel = never,
) -> Watched:
    """Watch recordings of one server, one after another.

    Raises:
        ReportError: one is not a recording.  InvalidValue: no model is named.
    """
    return of_looks(query, _every(paths), window, cancelled)


def of_looks(
    query: Query, looks: Iterable[Look], window: float = 60.0, cancelled: Cancel = never
) -> Watched:
    """Watch samples that were taken before.

    Raises:
        InvalidValue: no model is named.
    """
    refuse_unnamed(query)
    return followed(Watcher(query, window), looks, cancelled=cancelled)


def refuse_unnamed(query: Query) -> None:
    """Refuse a question without a model, because a page does not state what runs on which hardware.

    Raises:
        InvalidValue: it names none.
    """
    if "model" not in query.given:
        raise InvalidValue(
            "a metrics page does not identify the deployment: name the model, system and engine"
        )


def followed(
    watcher: Watcher,
    looks: Iterable[Look],
    told: Callable[[Look, list[Event]], None] = lambda look, events: None,
    cancelled: Cancel = never,
) -> Watched:
    """Process samples until there are no more.  told: called after each with the new events."""
    for look in looks:
        told(look, watcher.look(look))
        if cancelled():
            break
    return watched(watcher)


def _every(paths: Sequence[Path]) -> Iterator[Look]:
    for path in paths:
        yield from recorded(path)
