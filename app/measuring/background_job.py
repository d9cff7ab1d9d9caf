"""A run in a process of its own: the page asks how far it is, and can stop it."""

from __future__ import annotations

import multiprocessing
import queue
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from genz_core.errors import RidgelineError

_GRACE_S = 2.0


@dataclass(slots=True)
class Job:
    """A job under way or over.

    share, what: how far it is.  result: what it returned.  error: why it failed, in a sentence.
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
        """Take in what the process has said; a process that died is a failure."""
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
        """Ask the run to stop after its present step; what was complete is kept."""
        self.stop.set()

    def end(self) -> None:
        """Stop the process now: it may end its own programs and files, and is killed if it lags."""
        for stop in (self.process.terminate, self.process.kill):
            if self.process.is_alive():
                stop()
                self.process.join(_GRACE_S)


def start(work: Callable[..., Any], argument: Mapping[str, Any]) -> Job:
    """Run `work(argument, progress, cancelled)` in a new process; `work` is a module's function."""
    context = multiprocessing.get_context("spawn")
    messages, stop = context.Queue(), context.Event()
    process = context.Process(
        target=_run, args=(work, dict(argument), messages, stop), daemon=True, name="ridgeline-run"
    )
    process.start()
    return Job(process, messages, stop)


def _run(work: Callable[..., Any], argument: dict[str, Any], messages: Any, stop: Any) -> None:
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
