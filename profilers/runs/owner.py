"""The process that writes a folder, and whether it still runs: its id and start time.

An id alone may belong to a later process; on systems without /proc it is all there is.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path


def mark() -> str:
    """This process in three lines: host, id and start time."""
    return f"{socket.gethostname()}\n{os.getpid()}\n{_start(os.getpid())}\n"


def ended(written: str) -> bool:
    """Whether the process of a mark has ended; False where that cannot be determined from here."""
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
    """Start time of a process, in clock ticks since boot; "" where it is unknown."""
    try:
        stat = Path(f"/proc/{number}/stat").read_text(encoding="utf-8")
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]
