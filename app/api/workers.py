"""Processes for long questions: a fixed number, with limits of time and memory.

They start with the server (`begin`), and one that exceeds its time is ended and replaced at once,
so that a request seldom waits for a start.
"""

import importlib
import multiprocessing
import queue
import signal
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Future, ProcessPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from app.api import errors
from app.api.errors import Busy, Exhausted, Refused, Stopping, TooLong, Unavailable
from genz_core.errors import RidgelineError, UnknownName

_GIB = 1 << 30


@dataclass(eq=False)
class Workers:
    """Processes that each answer one question at a time.

    at_once: number of processes.  waiting_s: longest wait for a free one.  limit_s: of an answer.
    memory_bytes: of a process (Linux).  starting_s: longest wait of a request for one that starts,
    which goes on starting.
    """

    at_once: int = 2
    waiting_s: float = 10.0
    limit_s: float = 60.0
    memory_bytes: int = 4 * _GIB
    starting_s: float = 20.0
    _free: queue.Queue[ProcessPoolExecutor | None] = field(default_factory=queue.Queue)
    _busy: dict[ProcessPoolExecutor, tuple[str, float]] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)
    _starts: weakref.WeakKeyDictionary[ProcessPoolExecutor, Future[str]] = field(
        default_factory=weakref.WeakKeyDictionary
    )
    _begun: bool = False
    _stopping: bool = False

    def __post_init__(self) -> None:
        for _ in range(self.at_once):
            self._free.put(None)

    def call(self, work: Callable[[Any], Any], argument: Any, title: str = "a question") -> Any:
        """The return value of `work(argument)`; work must be a module's function, and all values
        must pickle.

        title: description for messages about cancellation.

        Raises:
            Busy: no process was free in time.
            TooLong: the answer took too long.
            Exhausted: it took too much memory, or its process ended.
            Stopping: `stop` was called.
            Unavailable: no process can start, or none has started in time.
            Refused: `work` raised a RidgelineError.
        """
        try:
            process = self._free.get(timeout=self.waiting_s)
        except queue.Empty:
            raise Busy(
                f"{self.at_once} long requests are already running; try again later",
                self.waiting_s,
            ) from None
        keep = False
        try:
            process = self._taken(process, title)
            keep = not self._is_ready(process, title)
            if keep:
                raise Unavailable(
                    f"a process for long questions is still starting, after {self.starting_s:g} s: "
                    "try again later"
                )
            answer = process.submit(_outcome, work, argument).result(self.limit_s)
            keep = True
        except Refused:
            keep = True
            raise
        except TimeoutError:
            raise TooLong(
                f"the answer takes longer than {self.limit_s:g} s: request less at once"
            ) from None
        except MemoryError:
            raise Exhausted(
                f"the answer takes more memory than {self.memory_bytes / _GIB:g} GiB: request less "
                "at once"
            ) from None
        except BrokenExecutor:
            self._check_going(title)
            raise Exhausted(
                "the process of the answer ended before it was complete, perhaps because memory "
                "ran out: request less at once; the server's log may say more"
            ) from None
        except (RuntimeError, CancelledError):  # `stop` shut the executor down before it had begun
            self._check_going(title)
            raise
        finally:
            if process and not keep:
                _end(process)
            with self._guard:
                if process:
                    self._busy.pop(process, None)
                self._free.put(process if keep else self._ahead())
        return answer

    def begin(self) -> None:
        """Start the processes ahead of requests, and from now on each that replaces another."""
        self._begun = True
        for _ in range(self.at_once):
            self._free.put(self._free.get_nowait() or self._ahead())

    def stop(self) -> list[str]:
        """Cancel all work and start nothing more; returns what was cancelled, in words."""
        with self._guard:
            self._stopping = True
            ended = list(self._busy.items())
        for process, _ in ended:
            _end(process)
        self.close()
        now = time.monotonic()
        return [f"{title}, after {now - began:.1f} s" for _, (title, began) in ended]

    def close(self) -> None:
        """End the free processes."""
        for _ in range(self.at_once):
            try:
                process = self._free.get_nowait()
            except queue.Empty:
                return
            if process is not None:
                _end(process)
            self._free.put(None)

    def _taken(self, process: ProcessPoolExecutor | None, title: str) -> ProcessPoolExecutor:
        """A process, which now works on `title`."""
        with self._guard:
            self._check_going(title)
            if process is None:
                try:
                    process = self._started()
                except OSError as error:
                    raise _unavailable(str(error)) from None
            self._busy[process] = title, time.monotonic()
        return process

    def _started(self) -> ProcessPoolExecutor:
        """A new process, which imports what answers need."""
        context = multiprocessing.get_context("spawn")
        process = ProcessPoolExecutor(1, context, _begin, (self.memory_bytes,))
        self._starts[process] = process.submit(_why_not_ready)
        return process

    def _ahead(self) -> ProcessPoolExecutor | None:
        """A new process before a request needs it, None unless the server has begun."""
        if not self._begun or self._stopping:
            return None
        with suppress(OSError):  # the request that needs it is told why
            return self._started()
        return None

    def _check_going(self, title: str) -> None:
        if self._stopping:
            raise Stopping(
                f"the server is shutting down; {title} is cancelled: ask again when it is back"
            )

    def _is_ready(self, process: ProcessPoolExecutor, title: str) -> bool:
        """Whether a process has started, after a wait.  Raises Unavailable if it cannot start."""
        try:
            why = self._starts[process].result(self.starting_s)
        except TimeoutError:
            return False
        except (BrokenExecutor, CancelledError, OSError) as error:
            why = str(error) or type(error).__name__
        if why:
            self._check_going(title)
            raise _unavailable(why)
        return True


def _unavailable(why: str) -> Unavailable:
    return Unavailable(f"no process for long questions can start: {why}")


def _outcome(work: Callable[[Any], Any], argument: Any) -> Any:
    try:
        with errors.in_a_request():
            return work(argument)
    except RidgelineError as error:
        near = error.near if isinstance(error, UnknownName) else ()
        raise Refused(error.code, str(error), near) from None


def _why_not_ready() -> str:
    """Import what answers need; returns why that fails, "" if it succeeds."""
    try:
        importlib.import_module(f"{__package__}.answers")
    except MemoryError:
        return "importing its modules alone exceeds its memory limit"
    except Exception as error:  # noqa: BLE001  it is handed back as a sentence
        return f"{type(error).__name__}: {error}"
    return ""


def _begin(memory_bytes: int) -> None:
    """Set up a process: it ends at once on Ctrl-C, and its memory is limited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))


def _end(process: ProcessPoolExecutor) -> None:
    for child in list((process._processes or {}).values()):
        child.kill()
    process.shutdown(wait=False, cancel_futures=True)
