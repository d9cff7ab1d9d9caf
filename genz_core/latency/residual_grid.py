"""Table of measured kernels over the sizes of a load, interpolated between the measured sizes.

If one device's kernels were measured on a grid of sizes, a monotonic table of times is more exact
than monotonic trees, because every single tree must be monotonic. It is fitted by `python -m
hardware_db.fit.residuals`; like trees it applies to kernels that run alone.

    ln t = interpolated linearly in ln(1 + size) along each axis    within the measured sizes
    t    = the larger of p and of the time at the range's end       above them
    t    = the time at the range's end                              below them

p is the equation's time.  None of these lines falls where a size grows, nor does the sequence of
them, so the time is monotonic wherever p is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from genz_core.latency.residual import MOST, Array, Shapes


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Times of kernels of one kind on one device.

    axes: {dimension: measured sizes, ascending}, with one size where it never changed.  same:
    {dimension: value} of the other dimensions: kernels with other values keep their equation.
    ln_s: ln of seconds, one array axis per entry of `axes`, never falling along any of them.
    """

    axes: Mapping[str, Array]
    same: Mapping[str, float]
    ln_s: Array

    def corrected_s(self, predicted_s: Array, shapes: Shapes) -> Array:
        """Corrected time of a kernel whose equation gives `predicted_s` [s], [shapes]."""
        seconds = np.asarray(predicted_s, np.float64)
        sizes = {name: np.asarray(values, np.float64) for name, values in shapes.dims.items()}
        known = seconds > 0
        for name, value in self.same.items():
            known = known & (sizes[name] == value)
        table = np.exp(self._ln_s({name: sizes[name] for name in self.axes}))
        above = np.zeros(np.shape(seconds), dtype=bool)
        for name, axis in self.axes.items():
            above = above | (sizes[name] > axis[-1])
        measured = np.where(above, np.maximum(table, seconds), table)
        near = np.clip(measured, seconds / MOST, seconds * MOST)
        return np.asarray(np.where(known, near, seconds))

    def _ln_s(self, sizes: Mapping[str, Array]) -> Array:
        """ln of seconds, interpolated between the sizes of the table, [shapes]."""
        ends, shares = [], []
        for name, axis in self.axes.items():
            place = np.log1p(np.clip(sizes[name], axis[0], axis[-1]))
            knots = np.log1p(axis)
            low = np.clip(np.searchsorted(knots, place, side="right") - 1, 0, max(len(axis) - 2, 0))
            high = np.minimum(low + 1, len(axis) - 1)
            width = np.where(high > low, knots[high] - knots[low], 1.0)
            ends.append((low, high))
            shares.append((place - knots[low]) / width)
        total: Array = np.zeros(())
        for corner in product((0, 1), repeat=len(ends)):
            weight: Array = np.ones(())
            for share, side in zip(shares, corner, strict=True):
                weight = weight * (share if side else 1.0 - share)
            at = tuple(end[side] for end, side in zip(ends, corner, strict=True))
            total = total + weight * self.ln_s[at]
        return total
