"""Kernels with the same formula: times of all of them, for many lanes at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genz_core.latency.kernel_time import KernelTime
from genz_core.symbolic.programs import Program, Rows
from genz_core.symbolic.symbols import Symbol
from genz_core.types import Array, Places

_MANY = 256  # from this many lanes on, equal ones are searched for


class Distinct:
    """Distinct values of expressions and the index of each lane's value, computed once for all
    users.
    """

    def __init__(self) -> None:
        self._found: dict[int, tuple[Array, Places]] = {}

    def __call__(self, results: Array, at: int) -> tuple[Array, Places]:
        """The values of one expression; results: [results, lanes]."""
        if at not in self._found:
            self._found[at] = np.unique(results[at], return_inverse=True)
        return self._found[at]


@dataclass(frozen=True, slots=True)
class Kernels:
    """Variants of operators whose times one formula gives.

    at: their rows in the part.  kernel: one of them, for its stages.  axes: the axes of all
    variants, [axes x variants] rows.  work: [variants] rows, None where every variant has work.
    launch_s: [variants, 1].
    """

    at: Places
    kernel: KernelTime
    axes: Rows
    work: Rows | None
    launch_s: Array

    @classmethod
    def of(cls, kernels: Mapping[int, KernelTime], program: Program) -> Kernels:
        """{row in the part: kernel} with one formula; program: computes the expressions that they
        use.
        """
        every = list(kernels.values())
        axes = zip(*(kernel.axes for kernel in every), strict=True)
        work = [kernel.work for kernel in every]
        sure = all(w.least > 0 if isinstance(w, Symbol) else np.all(w > 0) for w in work)
        return cls(
            np.array(list(kernels), dtype=np.intp),
            every[0],
            Rows.of([size for axis in axes for size in axis], program),
            None if sure else Rows.of(work, program),
            np.array([np.ravel(kernel.launch_s)[0] for kernel in every], dtype=float)[:, None],
        )

    def put_seconds(self, time: Array, results: Array, distinct: Distinct) -> None:
        """Put the times [s] in the variants' rows of the part, [variants of the part, lanes].

        results: [results, lanes].
        """
        variants, lanes = len(self.at), results.shape[1]
        if lanes < _MANY:
            axes = self.axes.taken(results).reshape(-1, variants, lanes)
            flat = self._time([axis.ravel() for axis in axes])
            time[self.at] = flat.reshape(variants, lanes) + self.launch_s
        else:
            for at, row in enumerate(self.at):
                np.add(self._of_variant(at, results, distinct), self.launch_s[at], out=time[row])
        if self.work is not None:
            time[self.at] = np.where(self.work.taken(results) > 0, time[self.at], 0.0)

    def variants(self, results: Sequence[Any]) -> Iterator[tuple[int, list[Any], float, Any]]:
        """Row, axes, launch [s] and work of each variant, as rows of symbolic expressions."""
        axes, count = self.axes.numbers(results), len(self.at)
        work = [1.0] * count if self.work is None else self.work.numbers(results)
        for at, row in enumerate(self.at.tolist()):
            yield row, axes[at::count], float(self.launch_s[at, 0]), work[at]

    def _of_variant(self, at: int, results: Array, distinct: Distinct) -> Array:
        """Times of one variant in many lanes, [lanes]; a single number where all lanes agree."""
        rows = slice(at, None, len(self.at))
        read, factors, constants = (
            self.axes.at[rows],
            self.axes.factor[rows],
            self.axes.constant[rows],
        )
        if self.kernel.repeats and not factors[1:].any():
            values, of = distinct(results, int(read[0]))
            return self._time([values * factors[0] + constants[0], *constants[1:]])[of]
        axes = zip(read, factors, constants, strict=True)
        return self._time([results[r] * f + c if f else c for r, f, c in axes])

    def _time(self, axes: Sequence[Array]) -> Array:
        """Times of the stages for flat axes, of one length or of one number."""
        stages, chunk = self.kernel.stages, self.kernel.chunk
        size = max(axis.size for axis in axes)
        if size <= chunk:
            return stages(*axes).total_s()
        seconds = np.empty(size)
        for start in range(0, size, chunk):
            at = slice(start, start + chunk)
            some = (axis[at] if axis.size > 1 else axis for axis in axes)
            seconds[at] = stages(*some).total_s()
        return seconds
