"""How the process of a job starts: on Linux as a fork of one that has imported the job's modules.

Most of a short job's work would be imports.  So a server's first job starts one process, which
imports the module of a job's function and then forks the job's guard (`app.jobs.worker`).  It does
no work itself and reads no file of a user, so every job reads them afresh.  It ends with the
server, and if it ends before, the next job starts another.

Elsewhere every job starts a Python of its own: libraries of macOS may hang after a fork.
"""

import contextlib
import gc
import importlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from genz_core.common import installation

_FORKS = sys.platform == "linux"
_LONGEST_START_S, _NAME_BYTES = 120.0, 4096
_FORKED = b"+"


@dataclass(frozen=True, slots=True)
class Started:
    """The guard of a job (`app.jobs.worker`).

    wait: returns after its end.  let_go: closes its standard input, so that it ends everything that
    still runs.
    """

    wait: Callable[[], object]
    let_go: Callable[[], object]


def start(folder: Path, limit_s: float, module: str) -> Started:
    """Start a job whose order is in `folder`.  module: that of its function.  Raises `OSError`."""
    if _FORKS:
        guard = _STARTER.start(folder, limit_s, module)
        return Started(lambda: _wait(guard), lambda: _let_go(guard))
    command = [sys.executable, "-P", "-m", f"{__package__}.worker", str(folder), str(limit_s)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, start_new_session=True, env=installation.environment()
    )
    assert process.stdin is not None
    return Started(process.wait, process.stdin.close)


def _wait(guard: socket.socket) -> None:
    with guard, contextlib.suppress(ConnectionError):
        guard.recv(1)


def _let_go(guard: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended
        guard.shutdown(socket.SHUT_WR)


# ------------------------------------------------------------------------------- in the server


@dataclass(eq=False)
class _Starter:
    """The process that forks guards, as the server sees it; it starts with the first job."""

    _process: subprocess.Popen[bytes] | None = None
    _line: socket.socket | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self, folder: Path, limit_s: float, module: str) -> socket.socket:
        """The socket of a new guard, which has its other end as standard input.

        Raises `OSError`.
        """
        order = pickle.dumps((folder, limit_s, installation.environment()))
        with self._lock:
            for _ in range(2):  # the process may have ended since the last job
                ours, theirs = socket.socketpair()
                ours.settimeout(_LONGEST_START_S)
                with theirs, contextlib.suppress(ConnectionError, TimeoutError):
                    line = self._line or self._begin()
                    socket.send_fds(line, [module.encode()], [theirs.fileno()])
                    theirs.close()
                    ours.sendall(order)
                    if ours.recv(1) == _FORKED:
                        ours.settimeout(None)
                        return ours
                ours.close()
                self._end()
        raise OSError(0, "the process that forks it ended or hangs; the server's log may say why")

    def _begin(self) -> socket.socket:
        main = f"from {__name__} import main; raise SystemExit(main())"
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", main],
                stdin=theirs.fileno(), start_new_session=True, env=installation.environment(),
            )  # fmt: skip
        self._line = ours
        return ours

    def _end(self) -> None:
        if self._line is not None:
            self._line.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._process = self._line = None


_STARTER = _Starter()

# ------------------------------------------------------------------------------- in the process


def main() -> int:
    """Fork a guard for every job until the server ends; returns an exit code, also in the guards
    and in their workers.
    """
    from app.jobs import worker

    server = socket.socket(fileno=0)
    signal.signal(signal.SIGCHLD, _reap)
    gc.disable()
    while True:
        module, guards, _, _ = socket.recv_fds(server, _NAME_BYTES, 1)
        if not guards:  # the server has ended
            return 0
        with contextlib.suppress(Exception):  # the worker tells why
            importlib.import_module(module.decode())
        gc.freeze()
        if os.fork() == 0:
            os.dup2(guards[0], server.detach())
            os.close(guards[0])
            return worker.main(*_order())
        os.close(guards[0])


def _reap(*_: object) -> None:
    """Take leave of guards that have ended, so that their processor time is counted here."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _order() -> tuple[Path, float]:
    """Become the guard of a job; returns the job's folder and time limit."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    gc.enable()
    with open(0, "rb", closefd=False) as line:
        folder, limit_s, environment = pickle.load(line)
    os.environ.clear()
    os.environ.update(environment)
    with contextlib.suppress(BrokenPipeError):  # the server has ended, and so does the guard
        os.write(0, _FORKED)
    return folder, limit_s
