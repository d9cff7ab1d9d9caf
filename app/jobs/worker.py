"""The process of a job, started by `app.jobs.starter`.

It forks before the work.  The parent, the guard, waits for the end of the work, of its time limit,
or of its standard input, which is a pipe or socket held by the server.  When the server ends for
any reason, it closes, and the guard ends the work and every program that it started.  If the guard
itself is killed, the kernel ends the worker (Linux).  On systems without fork the worker watches
its standard input itself.
"""

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

from app.jobs.job_files import JobFiles, Order

_AUTOGROUP = Path("/proc/self/autogroup")  # of this process's session, on Linux
GRACE_S, _ASK_S = 3.0, 0.2
_SET_PARENT_DEATH_SIGNAL, _SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h


def main(folder: Path, limit_s: float) -> int:
    """Run the order in `folder`; returns the exit code of this process."""
    files = JobFiles(folder)
    if not hasattr(os, "fork"):
        _watch(limit_s, lambda why: _leave(files, why))
        return run(files)
    _linux_process_control(_SET_CHILD_SUBREAPER, 1)
    guard = os.getpid()
    worker = os.fork()
    if worker == 0:
        _become_worker(guard)
        return run(files)
    _lead_group(worker)
    return _guard(worker, files, limit_s)


# ------------------------------------------------------------------------------- the guard


def _guard(worker: int, files: JobFiles, limit_s: float) -> int:
    """Wait for the worker and make sure that none of its processes remain."""
    reasons: list[str] = []

    def end(why: str) -> None:
        reasons.append(why)
        _end(worker)

    _watch(limit_s, end)
    _, status = os.waitpid(worker, 0)
    _signal_group(worker, signal.SIGKILL)
    _end_orphans()
    code = os.waitstatus_to_exitcode(status)
    _note(files, reasons[0] if reasons else _why(code))
    return 0


def _watch(limit_s: float, end: Callable[[str], object]) -> None:
    """Call `end` with the reason when the time is over, or with "" when the server closes the
    pipe.
    """

    def wait_for_server() -> None:
        os.read(0, 1)
        end("")

    limit = threading.Timer(limit_s, end, [f"ended: it took longer than {_minutes(limit_s)}"])
    for thread in (limit, threading.Thread(target=wait_for_server)):
        thread.daemon = True
        thread.start()


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:g} minutes" if seconds >= 60 else f"{seconds:g} s"


def _end(worker: int) -> None:
    """Ask the worker to end, so that it can end its own programs and remove its files; then kill
    it.
    """
    for ask in (signal.SIGTERM, signal.SIGKILL):
        _signal_group(worker, ask)
        time.sleep(GRACE_S)


def _lead_group(worker: int) -> None:
    """Make the worker the leader of a group; guard and worker both do, whichever is first."""
    with contextlib.suppress(OSError):
        os.setpgid(worker, worker)


def _signal_group(worker: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(worker, number)


def _end_orphans() -> None:
    """Kill processes that the worker left behind: orphans become children of this process
    (Linux).
    """
    while children := _children():
        for child in children:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


def _children() -> list[int]:
    """Processes whose parent is this one; none without /proc."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(fields[1]) == os.getpid():
                found.append(int(stat.parent.name))
    return found


def _why(code: int) -> str:
    """The reason why a worker without a recorded outcome has ended, from its exit code."""
    if code == -signal.SIGKILL:
        return "killed, perhaps because memory ran out; there is no result"
    if code < 0:
        return f"crashed ({signal.Signals(-code).name}); nothing was kept"
    return f"ended with code {code} before it was complete; the server's log may say why"


def _note(files: JobFiles, why: str) -> None:
    """Record why the work ended, unless the work recorded it or `why` is "": then its server ended
    it or is gone, and the next server shows it as unfinished.
    """
    with contextlib.suppress(OSError):  # the folder goes with its server
        if why and files.error() is None:
            files.write_outcome(why)


def _leave(files: JobFiles, why: str) -> NoReturn:
    """End this process at once."""
    _note(files, why)
    os._exit(1)


# ------------------------------------------------------------------------------- the worker


def _become_worker(guard: int) -> None:
    """Leave the guard's process group, die with the guard, and be killed first when memory runs
    out.
    """
    _lead_group(os.getpid())
    _linux_process_control(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != guard:
        os._exit(1)
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)


def _linux_process_control(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _limit_memory(size: int) -> None:
    """Limit the memory that is written to; memory that is only reserved, as by PyTorch, is not
    counted.
    """
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (size, size))


def _lower_priority(niceness: int) -> None:
    """Add to the niceness of this process and, on Linux, of its session.

    Linux may divide the processor among sessions first (sched(7), "The autogroup feature"): then
    the niceness of a process counts only within its session, which here holds nothing but the job.
    """
    if hasattr(os, "nice"):
        os.nice(niceness)
    if niceness and _AUTOGROUP.exists():
        with contextlib.suppress(OSError):
            _AUTOGROUP.write_text(str(niceness))


def run(files: JobFiles) -> int:
    """Do the work of an order and record its outcome; returns an exit code."""
    from genz_core.common.progress import Cancelled
    from genz_core.errors import RidgelineError

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    order = files.read_order()
    _limit_memory(order.memory_bytes)
    _lower_priority(order.niceness)
    try:
        files.write_outcome(_done(order, files))
    except Cancelled as stopped:
        files.write_outcome(f"cancelled at {stopped.at}; nothing was complete")
    except RidgelineError as error:
        files.write_outcome(str(error))
    except MemoryError:
        files.write_outcome(f"memory ran out: a job may use {order.memory_bytes / 1e9:.1f} GB here")
    return 0


def _done(order: Order, files: JobFiles) -> str:
    """Do the work and store its result; returns why it cannot be stored, "" if it is."""
    from hardware_db.data_folder import overlay

    with overlay(order.overlay), _alone(order.alone, files):
        result = order.function()(order.argument, files.write_progress, files.is_asked_to_stop)
    size = files.write_result(result)
    if size > order.result_bytes:
        return f"its result has {size / 1e6:,.0f} MB, {order.result_bytes / 1e6:,.0f} are allowed"
    return ""


@contextlib.contextmanager
def _alone(lock: Path | None, files: JobFiles) -> Iterator[None]:
    """Hold a lock during the work, and report while another process has it."""
    from genz_core.common.file_lock import try_lock
    from genz_core.common.progress import Cancelled

    if lock is None:
        yield
        return
    while (held := try_lock(lock)) is None:
        files.write_progress(0.0, "waiting for a measurement of another server")
        if files.is_asked_to_stop():
            raise Cancelled("the queue")
        time.sleep(_ASK_S)
    with held:
        yield


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), float(sys.argv[2])))
