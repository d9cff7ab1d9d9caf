"""The clock of measurements, and how contended the machine's cores are.

An asynchronous device (CUDA, ROCm, MPS) is synchronised before the clock is read.  On a
CPU with one thread the clock is the thread's own processor time: on an idle machine it
equals the wall clock, and on a shared core it excludes the time of other programs.
With several threads it is the wall clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from genz_core.errors import MeasurementError

Basis = Literal["wall", "cpu"]
#: Wall time over processor time above which the cores count as shared with other programs.
SHARED = 1.15
#: Wall time over processor time above which a measurement would describe other programs' load, not
#: the machine.
OVERLOADED = 1.3


@dataclass(frozen=True, slots=True)
class Clock:
    """Seconds on a device.  basis: "cpu" for the thread's processor time, "wall" otherwise."""

    device: Any
    basis: Basis

    @classmethod
    def for_device(cls, device: Any) -> Clock:
        """The clock for a torch device at torch's current number of threads."""
        import torch

        alone = device.type == "cpu" and torch.get_num_threads() == 1
        return cls(device, "cpu" if alone else "wall")

    def now(self) -> float:
        """Seconds on the clock once the device has finished all queued work."""
        if self.device.type == "cuda":  # needs a GPU
            import torch

            torch.cuda.synchronize(self.device)
        elif self.device.type == "mps":
            import torch

            torch.mps.synchronize()
        return time.thread_time() if self.basis == "cpu" else time.perf_counter()

    def time(self, run: Callable[[], object], inner: int = 1) -> float:
        """Mean seconds of `inner` runs in a row."""
        start = self.now()
        for _ in range(inner):
            run()
        return (self.now() - start) / inner


def contention(threads: int, seconds: float = 0.4) -> float:
    """Wall time over processor time of `threads` busy threads: 1 on an idle machine.

    At 2, other programs use the cores half of the time.
    """
    import torch

    side = torch.ones(384, 384)
    began = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        torch.mm(side, side)
        wall, busy = time.perf_counter(), time.process_time()
        while time.perf_counter() - wall < seconds:
            torch.mm(side, side)
        wall, busy = time.perf_counter() - wall, time.process_time() - busy
    finally:
        torch.set_num_threads(began)
    return max(wall * threads / max(busy, 1e-9), 1.0)


def set_threads(threads: int) -> None:
    """Set torch's CPU threads.

    Raises:
        MeasurementError: below 1, or above the number of cores.
    """
    import torch

    from profilers.collect.machine import cpu

    most = cpu().cores
    if not 1 <= threads <= most:
        raise MeasurementError(f"{threads} threads: give 1 to {most}, or 0 for as many as are free")
    torch.set_num_threads(threads)


def use_threads(device: Any, threads: int = 0) -> float:
    """Set torch's CPU threads; returns the contention of the cores that they use (1: none).

    threads: 0 for all cores where they are free, otherwise for one thread, whose own processor
    time can be measured.

    Raises:
        MeasurementError: see `set_threads`.
    """
    import torch

    if device.type != "cpu":
        return 1.0
    if threads:
        set_threads(threads)
        return contention(threads)
    most = torch.get_num_threads()
    busy = contention(most)
    if busy <= SHARED or most == 1:
        set_threads(most)
        return busy
    set_threads(1)
    return contention(1)


def refuse_overload(busy: float, threads: int) -> None:
    """Refuse to calibrate while other programs use the cores.

    busy: contention, from `use_threads`.

    Raises:
        MeasurementError: contention is above `OVERLOADED`.
    """
    if busy > OVERLOADED:
        which = "the thread" if threads == 1 else f"{threads} busy threads"
        raise MeasurementError(
            f"other programs use the cores: {which} took {busy:.2f} times the processor time "
            f"({OVERLOADED:g} at most), so a calibration would be distorted; stop them, use fewer "
            "--threads, or pass --anyway"
        )


def contention_note(busy: float) -> str:
    """A sentence on how contended the cores were before a run."""
    shared = "other programs used the cores" if busy > SHARED else "the cores were free"
    return f"{shared}: busy threads took {busy:.2f} times their processor time before the run"
