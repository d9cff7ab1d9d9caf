"""Time of one kernel over arrays of shapes: in seconds, or broken down into terms.

A latency model states its stages once, as a function of flat arrays of shapes (`Stages`).
`KernelTime` evaluates that function, for the seconds of many shapes or for the terms of a few.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise
from math import prod
from typing import Any

import numpy as np

from genz_core.latency.numerics import chunked, common_shape, distinct, flattened
from genz_core.symbolic.symbols import number
from genz_core.types import Array, Num

_NONE: Mapping[str, Array] = {}


@dataclass(frozen=True, slots=True)
class Terms:
    """A latency broken down [s], [shapes] each.

    terms: parts that sum to the latency, by cause.  stages: times of overlapping stages; the
    longest is among the terms, and what the others add to it is the term "overlap".
    """

    terms: Mapping[str, Array]
    stages: Mapping[str, Array] = field(default_factory=dict)

    @property
    def total_s(self) -> Array:
        """The latency: the sum of the terms [s], [shapes]."""
        return sum(self.terms.values(), start=np.zeros(()))

    @classmethod
    def overlapped(cls, stages: Mapping[str, Num], total_s: Array) -> Terms:
        """Terms of stages that take `total_s` together [s], [shapes].

        The longest stage counts fully; the term "overlap" is the part of the others that it does
        not hide.
        """
        times = {name: np.broadcast_to(time, np.shape(total_s)) for name, time in stages.items()}
        if len(times) == 1:
            return cls(times, times)
        longest = np.argmax(np.stack(list(times.values())), axis=0)
        terms = {
            name: np.where(longest == at, time, 0.0)
            for at, (name, time) in enumerate(times.items())
        }
        rest = total_s - sum(terms.values(), start=np.zeros(()))
        return cls({**terms, "overlap": rest}, times)

    def plus(self, **terms: Num) -> Terms:
        """These terms with further ones added [s], broadcast to the same shape."""
        shape = np.shape(self.total_s)
        more = {
            name: np.broadcast_to(np.asarray(time, float), shape) for name, time in terms.items()
        }
        return Terms({**self.terms, **more}, self.stages)

    def where(self, work: Num) -> Terms:
        """These terms, set to zero for shapes whose `work` is zero."""
        busy = np.asarray(work, float) > 0
        return Terms(
            {name: np.where(busy, time, 0.0) for name, time in self.terms.items()},
            {name: np.where(busy, time, 0.0) for name, time in self.stages.items()},
        )


@dataclass(frozen=True, slots=True)
class Stages:
    """Times of a kernel's stages [s] for each shape and, where it chooses among variants, each
    variant.

    side_by_side: stages that overlap, [shapes] or [ways, shapes].
    together_s: the time that they take together, likewise.
    of_way: subsequent parts that depend on the variant, [ways, shapes]; infinite for a variant that
    a shape cannot use.  The variant with the least sum is taken.
    after: subsequent parts of every variant, [shapes].
    """

    side_by_side: Mapping[str, Array]
    together_s: Array
    of_way: Mapping[str, Array] = field(default_factory=lambda: _NONE)
    after: Mapping[str, Array] = field(default_factory=lambda: _NONE)

    def repeated(self, times: Array) -> Stages:
        """The stages of a number of equal runs one after another, [shapes]."""
        parts = (self.side_by_side, self.of_way, self.after)
        side, ways, after = ({k: v * times for k, v in part.items()} for part in parts)
        return Stages(side, self.together_s * times, ways, after)

    def total_s(self) -> Array:
        """Time of the fastest variant with all subsequent parts [s], [shapes]."""
        time = self._of_each_way()
        best = time.min(axis=0) if time.ndim > 1 else time
        return number(sum(self.after.values(), start=best))

    def terms(self) -> Terms:
        """`total_s` broken down into terms."""
        time = self._of_each_way()
        if time.ndim == 1:
            return Terms.overlapped(self.side_by_side, self.together_s).plus(**self.after)
        best = np.argmin(time, axis=0)[None]

        def taken(times: Array) -> Array:
            of_best: Array = np.take_along_axis(np.broadcast_to(times, time.shape), best, axis=0)[0]
            return of_best

        stages = {name: taken(times) for name, times in self.side_by_side.items()}
        of_way = {name: taken(times) for name, times in self.of_way.items()}
        return Terms.overlapped(stages, taken(self.together_s)).plus(**of_way, **self.after)

    def _of_each_way(self) -> Array:
        return number(sum(self.of_way.values(), start=self.together_s))


def in_passes(
    *axes: Array, run: Callable[..., Stages], rows: int, most: float, **conditions: Any
) -> Stages:
    """Stages of products that run `most` rows at a time.

    rows: number of leading axes that count rows; the first decides.  run: stages of one pass, from
    the axes and further keywords.
    """
    times = np.maximum(axes[0] / most, 1.0)
    return run(*(axis / times for axis in axes[:rows]), *axes[rows:], **conditions).repeated(times)


@dataclass(frozen=True, slots=True)
class KernelTime:
    """Time of one run of a kernel, one for each shape; evaluated by `seconds` and `terms`.

    stages: (*axes) -> `Stages`, for flat arrays of one length; a function with its keywords.
    axes: the shapes, numbers or arrays that broadcast.  work: zero for shapes that take no time.
    launch_s: time of the smallest kernel, before the stages [s].
    chunk: number of shapes evaluated at a time, so that intermediate results stay in a cache.
    repeats: the first axis repeats values (tokens in a sweep) while the others are numbers, so
    that each distinct value is evaluated once.
    """

    stages: partial[Stages]
    axes: tuple[Num, ...]
    work: Num
    launch_s: Num = 0.0
    chunk: int = 16384
    repeats: bool = False

    def seconds(self) -> Array:
        """The time [s], in the shape that the axes broadcast to; zero where there is no work."""
        busy = np.asarray(self.work) > 0
        if not busy.any():
            return np.zeros(self.shape)
        if self.repeats:
            first, *rest = self.axes
            time = distinct(lambda values: self._chunked(values, *rest), np.asarray(first, float))
        else:
            time = self._chunked(*self.axes)
        return np.where(busy, self.launch_s + time, 0.0)

    def terms(self) -> Terms:
        """The time broken down, with the launch as the term "launch"; [shapes], flat."""
        axes = np.broadcast_arrays(*(np.atleast_1d(axis) for axis in self.axes))
        terms = self.stages(*(axis.reshape(-1).astype(float) for axis in axes)).terms()
        return terms.plus(launch=self.launch_s).where(self.work)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape that the axes broadcast to."""
        return common_shape([np.shape(axis) for axis in self.axes])

    @property
    def formula(self) -> Hashable:
        """A key that is equal for kernels of one function with the same keywords; objects are
        compared by identity.
        """
        values = self.stages.keywords.values()
        named = (v if isinstance(v, (float, int, str)) else id(v) for v in values)
        return self.stages.func, self.stages.args, *named

    def _chunked(self, *axes: Num) -> Array:
        return chunked(lambda *flat: self.stages(*flat).total_s(), *axes, chunk=self.chunk)


def worked(time: Array, launch_s: Num, work: Num) -> Array:
    """Time of kernels whose stages take `time` [s]; zero where there is no work."""
    return np.where(number(work) > 0, launch_s + time, 0.0)


_FEW = 64  # number of shapes that take less time to evaluate than the call itself


def seconds_of(kernels: Sequence[KernelTime]) -> list[Array]:
    """`KernelTime.seconds` of each kernel; small ones with the same formula are evaluated in one
    call.
    """
    times: list[Array] = []
    alike: dict[Hashable, list[int]] = {}
    for at, kernel in enumerate(kernels):
        shape = kernel.shape
        many = prod(shape) > _FEW
        times.append(kernel.seconds() if many else np.zeros(shape))
        if not many and np.any(kernel.work):
            alike.setdefault(kernel.formula, []).append(at)
    for places in alike.values():
        group = [kernels[at] for at in places]
        for at, kernel, time in zip(places, group, _in_one_call(group), strict=True):
            times[at] = worked(time, kernel.launch_s, kernel.work)
    return times


def _in_one_call(group: Sequence[KernelTime]) -> list[Array]:
    """Time of the stages of each kernel; all have the same formula."""
    shapes = [kernel.shape for kernel in group]
    axes = (
        np.concatenate([flattened(axis, shape) for axis, shape in zip(values, shapes, strict=True)])
        for values in zip(*(kernel.axes for kernel in group), strict=True)
    )
    time = group[0].stages(*axes).total_s()
    ends = pairwise(accumulate(map(prod, shapes), initial=0))
    return [time[slice(*end)].reshape(shape) for end, shape in zip(ends, shapes, strict=True)]
