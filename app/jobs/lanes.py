"""Lanes of the queue: kinds of work, how many run at once, and their caps."""

from __future__ import annotations

import os
from dataclasses import dataclass

_GIB = 1 << 30


def _memory_of_host() -> int:
    """Bytes of the host's memory; 16 GiB where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows
        return 16 * _GIB


@dataclass(frozen=True, slots=True)
class Lane:
    """Jobs of one kind.

    at_once: how many run at the same time in one server.  limit_s: wall time of one.
    memory_bytes: of one process of it (Linux).  result_bytes: of what it hands back.
    alone: whether one job of all servers on the data folder runs at a time.
    """

    name: str
    at_once: int
    limit_s: float
    memory_bytes: int
    result_bytes: int = 1 * _GIB
    alone: bool = False


#: Measurements disturb each other.  A sweep of a large model on a CPU takes more than an hour.
MEASURING = Lane("measuring", 1, 7200.0, int(0.8 * _memory_of_host()), alone=True)
READING = Lane("reading", 2, 600.0, min(4 * _GIB, _memory_of_host() // 2))
SIMULATING = Lane("simulating", 1, 900.0, min(4 * _GIB, _memory_of_host() // 2))
TRACING = Lane("tracing", 1, 300.0, min(8 * _GIB, _memory_of_host() // 2))
