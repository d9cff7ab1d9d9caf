"""Which process writes a folder, and whether it still runs: its id and when it started.

An id alone may be that of a later process.  On systems without /proc the id has to do.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path


def mark() -> str:
    """This process: host, id and start, a line each."""
    return f"{socket.gethostname()}\n{os.getpid()}\n{_start(os.getpid())}\n"


def ended(written: str) -> bool:
    """Whether the process of a mark has ended; False where that cannot be known from here."""
    host, number, start = [*written.splitlines(), "", "", ""][:3]
    if host != socket.gethostname() or not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:  # it runs as another user
        return False
    return bool(start) and start != _start(int(number))


def _start(number: int) -> str:
    """When a process started, in ticks since the machine did; "" where nobody says."""
    try:
        stat = Path(f"/proc/{number}/stat").read_text(encoding="utf-8")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]
