"""The kernels needed by steps on symbols, grouped by formula."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from genz_core.compiled.parts import Part
from genz_core.latency.kernel_time import KernelTime, worked
from genz_core.symbolic.formulas import Formulas
from genz_core.symbolic.symbols import Symbol, as_array, item, key_of
from genz_core.types import Num


@dataclass(frozen=True, slots=True)
class AskedKernel:
    """A needed kernel: the index of its time, its launch time and its work."""

    key: Hashable
    launch_s: float
    work: Any

    def seconds(self, times: Mapping[Hashable, Any]) -> Any:
        return worked(times[self.key], self.launch_s, self.work)


class Kernels:
    """Needed kernels by formula, so that all kernels with the same formula are evaluated at
    once.
    """

    def __init__(self, formulas: Formulas) -> None:
        self._formulas = formulas
        self._asked: dict[Hashable, tuple[KernelTime, dict[Hashable, list[Any]]]] = {}

    def ask(self, part: Part, results: Sequence[Any]) -> Iterator[tuple[int, AskedKernel]]:
        """Add the kernel of each variant of a part that has one."""
        for kernels in part.kernels:
            formula = kernels.kernel.formula
            _, alike = self._asked.setdefault(formula, (kernels.kernel, {}))
            for row, axes, launch_s, work in kernels.variants(results):
                key = tuple(map(key_of, axes))
                alike.setdefault(key, axes)
                yield row, AskedKernel((formula, key), launch_s, work)

    def times(self) -> dict[Hashable, Any]:
        """Times of every kernel's stages."""
        times: dict[Hashable, Any] = {}
        for formula, (kernel, alike) in self._asked.items():
            vary = [key for key, axes in alike.items() if any(isinstance(a, Symbol) for a in axes)]
            for key in alike.keys() - vary:
                sizes = (np.atleast_1d(axis) for axis in alike[key])
                times[formula, key] = float(kernel.stages(*sizes).total_s()[0])
            found = self._together(kernel, [alike[key] for key in vary]) if vary else []
            times |= {(formula, key): time for key, time in zip(vary, found, strict=True)}
        return times

    def _together(self, kernel: KernelTime, every: list[list[Any]]) -> list[Any]:
        """Times of kernels with the same formula: on numbers, or on arrays if the formula tries
        variants.
        """
        formulas = self._formulas
        before = len(formulas.steps)
        one = kernel.stages(*map(_axis, every[0])).total_s()
        if not any(formulas.shapes[before:]) and np.ndim(one) == 0:
            return [one, *(kernel.stages(*map(_axis, axes)).total_s() for axes in every[1:])]
        packed = (as_array(formulas, values) for values in zip(*every, strict=True))
        time: Any = kernel.stages(*map(_axis, packed)).total_s()
        if np.ndim(time) == 0:
            return [time] * len(every)
        if not isinstance(time, Symbol):
            return list(np.broadcast_to(time, (len(every),)))
        last = time.size - 1
        return [
            formulas.result(item, time.plain(), min(at, last), least=time.least, shape=())
            for at in range(len(every))
        ]


def _axis(values: Num) -> Any:
    return values if isinstance(values, Symbol) else np.asarray(values, dtype=float)[()]
