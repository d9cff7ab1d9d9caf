"""Watching a live server: the actions at each sample, and the end."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from app.question.query import Query
from app.watching.answer import followed, refuse_unnamed
from app.watching.exporter import Exporter
from app.watching.follow import RequestLog, follow
from app.watching.pages import Look
from app.watching.watch import Watcher
from app.watching.windows import Event, Watched
from genz_core.common.progress import Cancel, never


@dataclass(frozen=True, slots=True)
class Live:
    """Settings of a live watch.

    window_s: least seconds of a window.  every_s: between two samples.  seconds: in all, 0 until it
    is cancelled.  log: of requests, which grows with the page.  record: file that samples are
    appended to.  port: for Prometheus to read the watch's gauges.  None disables each of these.
    """

    window_s: float = 60.0
    every_s: float = 5.0
    seconds: float = 0.0
    log: Path | None = None
    record: Path | None = None
    port: int | None = None


def of_page(
    query: Query,
    address: str,
    live: Live,
    told: Callable[[Event], None] = lambda event: None,
    cancelled: Cancel = never,
) -> Watched:
    """Watch the page of a server until its time is over.

    told: called with each event when it occurs.

    Raises:
        InvalidValue: no model is named, or the port is taken.  MeasurementError: a package is
        missing.  ReportError: `log` is not a log of requests.
    """
    refuse_unnamed(query)
    watcher = Watcher(query, live.window_s, RequestLog(live.log) if live.log else None)
    with ExitStack() as stack:
        exporter = None
        if live.port is not None:
            exporter = stack.enter_context(closing(Exporter(live.port)))

        def taken(look: Look, events: list[Event]) -> None:
            for event in events:
                told(event)
            if live.record is not None:
                _append(live.record, look)
            if exporter is not None:
                exporter.show(watcher)

        looks = follow(address, live.every_s, live.seconds, cancelled)
        return followed(watcher, looks, taken, cancelled)


def _append(recording: Path, look: Look) -> None:
    """Append a sample to a recording."""
    with recording.open("a", encoding="utf-8") as file:
        file.write(look.line() + "\n")
