"""One piece of work in a separate process, as the page that submitted it sees it."""

from __future__ import annotations

import shutil
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.jobs import starter
from app.jobs.job_files import JobFiles
from app.jobs.lanes import Lane

_STARTING = "starting"


@dataclass(eq=False)
class Job:
    """A job: waiting, running, or over; several sessions that ask the same wait for one.

    title: what it does, in words.  module: that of its function.  place: in the queue of its lane,
    1 for the next; 0 once it runs.  share, what: progress from 0 to 1, and the present piece of
    work.  result: return value of the function, and size_bytes: of its pickle.  error: why it
    failed, in a sentence.  over: whether it has ended.  stopping: whether it was asked to stop.
    visitor: who submitted it, "" for the user.
    """

    title: str
    module: str
    lane: Lane
    folder: Path
    leave: Callable[[Job], bool]
    visitor: str = ""
    place: int = 0
    share: float = 0.0
    what: str = _STARTING
    result: Any = None
    size_bytes: int = 0
    error: str = ""
    over: bool = False
    stopping: bool = False
    _process: starter.Started | None = None
    _ending: bool = False
    _ended: threading.Event = field(default_factory=threading.Event)
    _sessions: int = 1
    _guard: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        files = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        files.atexit = False  # the next server shows jobs that this one did not finish

    @property
    def files(self) -> JobFiles:
        return JobFiles(self.folder)

    def poll(self) -> None:
        """Read the worker's progress; the first poll after the end takes the result."""
        with self._guard:
            if not self.over:
                self._poll()

    def _poll(self) -> None:
        if progress := self.files.progress():
            self.share, self.what = progress
        error = self.files.error()
        if error is None and self._ended.is_set():
            error = self.files.error()
            error = "ended before it was complete; there is no result" if error is None else error
        if error is not None:
            self._take(error)

    def _take(self, error: str) -> None:
        """Take the result of a finished job, or the reason for its failure, and remove
        its files.
        """
        try:
            if not error:
                self.result, self.size_bytes = self.files.read_result()
        except (OSError, MemoryError) as refused:
            error = f"its result cannot be read ({refused})"
        self.error, self.over = error, True
        shutil.rmtree(self.folder, ignore_errors=True)

    def join(self) -> bool:
        """Let one more session wait for it; returns whether it is not already given up."""
        with self._guard:
            joined = self._sessions > 0 and not (self.stopping or self.error)
            self._sessions += joined
            return joined

    def let_go(self) -> bool:
        """Let one session less wait for it; returns whether it was the last, which may cancel."""
        with self._guard:
            self._sessions -= 1
            return self._sessions < 1

    def cancel(self) -> None:
        """Ask the function to stop after its current step; a waiting job leaves the queue."""
        self.stopping = True
        if self.leave(self):
            self.error, self.over = "cancelled before it started", True
            self._ended.set()
        elif not self.over:
            self.files.ask_to_stop()

    def abandon(self) -> None:
        """Let the process and every program that it started end, without waiting for that."""
        self.cancel()
        self._ending = True
        if self._process is not None:
            self._process.let_go()

    def end(self) -> None:
        """End the process and every program that it started; returns when they are gone."""
        self.abandon()
        self._ended.wait()
        self.poll()

    def run(self) -> None:
        """Start the process and wait for its end; runs in the queue's thread."""
        try:
            self._process = starter.start(self.folder, self.lane.limit_s, self.module)
            if self._ending:
                self._process.let_go()
            self._process.wait()
            self._process.let_go()
        except OSError as error:
            self.files.write_outcome(f"no process can be started: {error.strerror}")
        finally:
            self._ended.set()
