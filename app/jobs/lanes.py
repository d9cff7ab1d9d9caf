"""Lanes of the queue: kinds of work, how many run at once, and their limits."""

import os
from dataclasses import dataclass

_GIB = 1 << 30


def _memory_of_host() -> int:
    """Memory of the host in bytes; 16 GiB where the system does not report it."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows
        return 16 * _GIB


@dataclass(frozen=True, slots=True)
class Lane:
    """A kind of job.

    at_once: how many run at the same time in one server.  limit_s: wall time of one.
    memory_bytes: of one of its processes (Linux).  result_bytes: largest result.
    alone: only one job at a time over all servers that share the data folder.  niceness: added to
    the server's, so that pages come first.
    """

    name: str
    at_once: int
    limit_s: float
    memory_bytes: int
    result_bytes: int = 1 * _GIB
    alone: bool = False
    niceness: int = 10


#: Measurements disturb each other, and pages must not slow them down.  A sweep of a large model on
#: a CPU takes more than an hour.
MEASURING = Lane("measuring", 1, 7200.0, int(0.8 * _memory_of_host()), alone=True, niceness=0)
READING = Lane("reading", 2, 600.0, min(4 * _GIB, _memory_of_host() // 2))
#: Many configurations in closed form, in seconds: they do not wait for simulations, of minutes.
PRICING = Lane("pricing", 1, 900.0, min(4 * _GIB, _memory_of_host() // 2))
SIMULATING = Lane("simulating", 1, 900.0, min(4 * _GIB, _memory_of_host() // 2))
TRACING = Lane("tracing", 1, 300.0, min(8 * _GIB, _memory_of_host() // 2))
