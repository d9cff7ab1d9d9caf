"""Words in a frame, as many as have room on the narrowest screen or in a column of a paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from app.charts.figure import Trace

#: Width and height [px] of the frame of a chart on a telephone or in a column of print.
NARROWEST = (270.0, 320.0)
_LETTER, _LINE, _GAP = 5.9, 13.0, 4.0
Box = tuple[float, float, float, float]


@dataclass(slots=True)
class Room:
    """What is left of a frame for words.

    across, upwards: values at the ends of each axis.  logarithmic: whether each axis is.
    """

    across: tuple[float, float]
    upwards: tuple[float, float]
    logarithmic: tuple[bool, bool] = (False, False)
    taken: list[Box] = field(default_factory=list)

    def label(self, trace: Trace) -> None:
        """Leave a trace's points their words where these have room.

        To the right above a point, to the left where the frame ends.
        """
        words, sides = [], []
        for x, y, word in zip(trace["x"], trace["y"], trace["text"], strict=True):
            fits = self._at(x, y)[0] + _width(word) <= NARROWEST[0]
            free = bool(word) and self.claim(x, y, word, "right" if fits else "left")
            words.append(word if free else "")
            sides.append("top right" if fits else "top left")
        trace["text"], trace["textposition"] = words, sides

    def keep_free(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        """Keep words off the points of a line, and off the line between them."""
        places = [self._at(x, y) for x, y in zip(xs, ys, strict=True)]
        between = [((a + c) / 2.0, (b + d) / 2.0) for (a, b), (c, d) in pairwise(places)]
        self.taken += [(x, x, y, y) for x, y in [*places, *between]]

    def dots(self, xs: Sequence[float], ys: Sequence[float]) -> list[Box]:
        """Where the points of a cloud lie, for `claim`."""
        places = [self._at(x, y) for x, y in zip(xs, ys, strict=True)]
        return [(x - _GAP, x + _GAP, y - _GAP, y + _GAP) for x, y in places]

    def claim(
        self, x: float, y: float, word: str, side: str = "right", lift: float = 0.0,
        off: Sequence[Box] = (),
    ) -> bool:  # fmt: skip
        """Take the room of words beside a place; False where it is taken or the frame ends.

        side: "right", "left" or "center" of the place.  lift: of their lower edge [px] above it.
        off: what these words alone keep off.
        """
        left, bottom = self._at(x, y)
        wide = _width(word)
        left -= {"right": 0.0, "left": wide, "center": wide / 2.0}[side]
        box = (left, left + wide, bottom + lift, bottom + lift + _LINE)
        outside = box[0] < -_GAP or box[1] > NARROWEST[0] + _GAP
        if outside or any(_touch(box, other) for other in (*self.taken, *off)):
            return False
        self.taken.append(box)
        return True

    def _at(self, x: float, y: float) -> tuple[float, float]:
        """A place from the lower left corner on [px]."""
        return (
            _share(x, self.across, self.logarithmic[0]) * NARROWEST[0],
            _share(y, self.upwards, self.logarithmic[1]) * NARROWEST[1],
        )


def ends(values: Sequence[float], logarithmic: bool) -> tuple[float, float]:
    """The ends of an axis that holds values: from zero on, or from the least where logarithmic."""
    found = [value for value in values if math.isfinite(value)] or [1.0]
    return (min(found) if logarithmic else 0.0, max(found) or 1.0)


def _width(word: str) -> float:
    return _GAP + _LETTER * len(word)


def _share(value: float, ends: tuple[float, float], logarithmic: bool) -> float:
    """How far along an axis a value lies, 0 to 1."""
    low, high = ends
    if logarithmic:
        value, low, high = (math.log(max(one, 1e-300)) for one in (value, low, high))
    return (value - low) / ((high - low) or 1.0)


def _touch(one: Box, other: Box) -> bool:
    return one[0] < other[1] and other[0] < one[1] and one[2] < other[3] and other[2] < one[3]
