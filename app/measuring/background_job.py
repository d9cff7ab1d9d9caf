"""A function run in a child process, its progress polled, cancelled or ended by the page."""

from __future__ import annotations

import multiprocessing
import queue
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from genz_core.errors import RidgelineError

_GRACE_S = 2.0


@dataclass(slots=True)
class Job:
    """A child process and what it has reported.

    share, what: progress from 0 to 1, and the present piece of work.  result: what the function
    returned.  error: why it failed, in a sentence.  over: whether it has ended.
    """

    process: Any
    messages: Any
    stop: Any
    share: float = 0.0
    what: str = "starting"
    result: Any = None
    error: str = ""
    over: bool = field(default=False)

    def poll(self) -> None:
        """Read the messages of the process; one that died without a result is a failure."""
        alive = self.process.is_alive()
        while not self.over:
            try:
                kind, *values = self.messages.get(timeout=0.0 if alive else 0.2)
            except queue.Empty:
                break
            self._take(kind, values)
        if not alive and not self.over:
            code = self.process.exitcode
            self.error = f"the run ended with code {code} before it was complete; nothing was kept"
            self.over = True

    def _take(self, kind: str, values: list[Any]) -> None:
        if kind == "progress":
            self.share, self.what = values
        elif kind == "done":
            self.result, self.over = values[0], True
        else:
            self.error, self.over = values[0], True

    def cancel(self) -> None:
        """Ask the function to stop after its present step; what was complete is kept."""
        self.stop.set()

    def end(self) -> None:
        """Terminate the process, which may end its own programs and files; kill it if it lags."""
        for stop in (self.process.terminate, self.process.kill):
            if self.process.is_alive():
                stop()
                self.process.join(_GRACE_S)


def start(work: Callable[..., Any], argument: Any) -> Job:
    """Run `work(argument, progress, cancelled)` in a new process.

    work: a function of a module.  argument: any value that pickles.
    """
    context = multiprocessing.get_context("spawn")
    messages, stop = context.Queue(), context.Event()
    process = context.Process(
        target=_run, args=(work, argument, messages, stop), daemon=True, name="ridgeline-run"
    )
    process.start()
    return Job(process, messages, stop)


def _run(work: Callable[..., Any], argument: Any, messages: Any, stop: Any) -> None:
    """Call the function and send its progress, its result or its error, in the child process."""
    from profilers.collect.progress import Cancelled

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

    def progress(share: float, what: str) -> None:
        messages.put(("progress", share, what))

    try:
        messages.put(("done", work(argument, progress, stop.is_set)))
    except Cancelled as stopped:
        messages.put(("error", f"cancelled at {stopped.at}; nothing was complete"))
    except RidgelineError as error:
        messages.put(("error", str(error)))
    except MemoryError:
        messages.put(("error", "memory ran out"))
