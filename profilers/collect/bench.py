"""Operands of microbenchmarks: cold ones from a pool larger than any cache, and freshly written
ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Run = Callable[[], object]

_LEAST_POOL_BYTES = {"cpu": 256 * 2**20, "cuda": 2 * 2**30}
_MOST_POOL_BYTES = 4 * 2**30
_CACHES = 8  # the pool is this many times the size of the last-level cache
_DRAWN = 2**22  # random numbers, repeated to fill the pool


@dataclass(frozen=True, slots=True)
class Case:
    """A microbenchmark: one operator at one shape.

    operator, fmt, dims: as in `genz_core.latency.measured_operators.OperatorPoints`; the operators
    "copy" and "read", which it does not have, measure the machine itself.
    work, moved: FLOPs and bytes of one run.
    prepare: makes a function that runs the case on the operands of a bench.
    """

    operator: str
    fmt: str
    dims: Mapping[str, float]
    work: float
    moved: float
    prepare: Callable[[Bench], Run]


def pool_bytes(device: Any) -> int:
    """Size of the pool: several last-level caches of a CPU, a fixed size elsewhere."""
    least = _LEAST_POOL_BYTES.get(device.type, 2**28)
    if device.type != "cpu":
        return least
    from profilers.collect.machine import cpu

    wanted = _CACHES * (cpu().l3_bytes or 0)
    return min(max(least, wanted), _MOST_POOL_BYTES) // 4096 * 4096


@dataclass(slots=True)
class Bench:
    """A device and a pool of cold 16-bit memory, from which cases draw operands."""

    device: Any
    pool: Any
    _at: int = 0

    @classmethod
    def on(cls, device: Any) -> Bench:
        """A bench with a filled pool on a torch device."""
        import torch

        pool = torch.empty(pool_bytes(device) // 2, dtype=torch.bfloat16, device=device)
        drawn = torch.empty(_DRAWN, dtype=torch.bfloat16, device=device).normal_()
        for part in pool.split(_DRAWN):  # drawing gigabytes would take a while
            part.copy_(drawn[: part.numel()])
        return cls(device, pool)

    def cold(self, *shape: int, dtype: Any = None) -> Any:
        """The next piece of the pool, in the given shape; it was last touched one whole
        pool ago.
        """
        size = int(np.prod(shape))
        words = size * (1 if dtype is None else dtype.itemsize // 2)
        if self._at + words > self.pool.numel():
            self._at = 0
        piece = self.pool[self._at : self._at + words]
        self._at += -(-words // 2048) * 2048
        return (piece if dtype is None else piece.view(dtype)).view(*shape)

    def fresh(self, *shape: int, dtype: Any = None) -> Any:
        """New random operands, which are in the cache as the activations of a step are."""
        import torch

        return torch.randn(*shape, device=self.device).to(dtype or torch.bfloat16)
