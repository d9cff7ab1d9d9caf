"""Labels in a plot, as many as fit on the narrowest screen or in a printed column.

Widths are those of the widest common fonts, so labels fit whichever font a machine has.
"""

import math
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from app.charts.figure import Trace

#: Width and height [px] of the plot area on a telephone or in a printed column: beside short tick
#: labels of a few digits, and beside long ones ("100 TFLOP/s").
NARROW, NARROWEST = (270.0, 280.0), (204.0, 320.0)
#: Width [px] of a chart on a telephone, and least width of the plot area beside bar names.
TELEPHONE, BESIDE_NAMES = 358.0, 180.0
_LINE, _GAP = 14.0, 4.0
#: Where a label stands beside its point, in order: the side by Plotly's name.
_PLACES: Mapping[str, str] = {"top right": "right", "top left": "left"}
#: Widths of letters [em], those of DejaVu Sans rounded up; Verdana's are the same within 0.03.
#: Source: the advances in DejaVuSans.ttf 2.37, https://dejavu-fonts.github.io.
_EM: Mapping[str, float] = {
    **dict.fromkeys(" ,.·'ijlIJ", 0.32),
    **dict.fromkeys('!"()[]-/:;|frt', 0.41),
    **dict.fromkeys("+−=<>~×^#&ADGHNOQRUVX", 0.80),
    **dict.fromkeys("%@mwMW…", 1.0),
}
_OTHERS_EM = 0.65
#: Width that a legend entry needs beyond its text, and height of a legend line [px].
_KEY, LEGEND_LINE = 46.0, 19
#: Height of a legend beyond its lines [px].
_LEGEND_EDGE = 12
Box = tuple[float, float, float, float]
#: The xs and ys of a line or a cloud of points.
Curve = Sequence[Sequence[float]]


@dataclass(slots=True)
class Room:
    """The free space for labels in a plot.

    across, upwards: values at the ends of each axis.  logarithmic: whether each axis is.
    frame: width and height [px].
    """

    across: tuple[float, float]
    upwards: tuple[float, float]
    logarithmic: tuple[bool, bool] = (False, False)
    frame: tuple[float, float] = NARROW
    taken: list[Box] = field(default_factory=list)

    def label(self, trace: Trace) -> None:
        """Keep the labels of a trace's points where one of `_PLACES` is free; remove the others."""
        words, places, size = [], [], float(trace["textfont"]["size"])
        for x, y, word in zip(trace["x"], trace["y"], trace["text"], strict=True):
            free = (
                place
                for place, side in _PLACES.items()
                if word and self.claim(x, y, word, size, side)
            )
            place = next(free, "")
            words.append(word if place else "")
            places.append(place or "top right")
        trace["text"], trace["textposition"] = words, places

    def keep_free(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        """Keep labels off points."""
        places = (self._at(x, y) for x, y in zip(xs, ys, strict=True))
        self.taken += [(x, x, y, y) for x, y in places]

    def keep_line_free(self, xs: Sequence[float], ys: Sequence[float]) -> None:
        """Keep labels off the points of a line and off the segments between them."""
        self.keep_free(xs, ys)
        places = [self._at(x, y) for x, y in zip(xs, ys, strict=True)]
        for (x0, y0), (x1, y1) in pairwise(places):
            steps = max(abs(x1 - x0), abs(y1 - y0)) / _GAP
            shares = [at / steps for at in range(1, math.ceil(steps))] if steps < math.inf else []
            between = [(x0 + share * (x1 - x0), y0 + share * (y1 - y0)) for share in shares]
            self.taken += [(x, x, y, y) for x, y in between]

    def dots(self, xs: Sequence[float], ys: Sequence[float]) -> list[Box]:
        """Boxes of a cloud of points, for `claim`."""
        places = [self._at(x, y) for x, y in zip(xs, ys, strict=True)]
        return [(x - _GAP, x + _GAP, y - _GAP, y + _GAP) for x, y in places]

    def claim(
        self, x: float, y: float, word: str, size: float, side: str = "right",
        lift: float = 0.0, off: Sequence[Box] = (),
    ) -> bool:  # fmt: skip
        """Reserve the space of a label beside a point; False if it is taken or outside the plot.

        word: lines separated by <br>.  size: of the font [px].  side: "right", "left" or "center"
        of the point.  lift: height of the label's lower edge above the point [px].  off: further
        boxes that only this label must avoid.
        """
        left, bottom = self._at(x, y)
        wide, high = _GAP + width(word, size), _LINE * len(word.split("<br>"))
        left -= {"right": 0.0, "left": wide, "center": wide / 2.0}[side]
        box = (left, left + wide, bottom + lift, bottom + lift + high)
        if box[0] < -_GAP or box[1] > self.frame[0] + _GAP or box[2] < -_GAP:
            return False
        for x0, x1, y0, y1 in (*self.taken, *off):
            if box[0] < x1 and x0 < box[1] and box[2] < y1 and y0 < box[3]:
                return False
        self.taken.append(box)
        return True

    def _at(self, x: float, y: float) -> tuple[float, float]:
        """Position [px] of a point, from the lower left corner."""
        return (
            _share(x, self.across, self.logarithmic[0]) * self.frame[0],
            _share(y, self.upwards, self.logarithmic[1]) * self.frame[1],
        )


def room_beside(
    lines: Sequence[Curve],
    logarithmic: tuple[bool, bool] = (False, False),
    clouds: Sequence[Curve] = (),
) -> Room:
    """The free space beside lines and the points of clouds, in a plot that holds all of them.

    Axes start at zero, or at the least value if logarithmic.
    """
    ends = []
    for side, log in enumerate(logarithmic):
        drawn = (one for each in (*lines, *clouds) for one in each[side] if math.isfinite(one))
        values = list(drawn) or [1.0]
        ends.append((min(values) if log else 0.0, max(values) or 1.0))
    room = Room(ends[0], ends[1], logarithmic)
    for xs, ys in lines:
        room.keep_line_free(xs, ys)
    for xs, ys in clouds:
        room.keep_free(xs, ys)
    return room


def width(words: str, size: float) -> float:
    """Width [px] of the longest line of a text, lines separated by <br>; size: of the font [px]."""
    lines = re.sub("<(?!br>)[^>]*>", "", words).split("<br>")
    return size * max(sum(_EM.get(letter, _OTHERS_EM) for letter in line) for line in lines)


def wrapped(words: str, size: float, across: float) -> list[str]:
    """The text wrapped to lines of at most `across` [px]; size: of the font [px]."""
    for letters in range(len(words), 1, -1):
        lines = textwrap.wrap(words, letters)
        if all(width(line, size) <= across for line in lines):
            return lines
    return list(words)


def legend_entry(words: str) -> str:
    """The words of a legend entry, in lines that fit a chart on a telephone."""
    return "<br>".join(wrapped(words, 12.0, TELEPHONE - _KEY))


def axis_end(bars: Sequence[tuple[float, str]]) -> float:
    """Upper end of an axis that starts at zero and leaves space for labels at the bar ends.

    bars: the upper end and the label of each bar.
    """
    return max(
        end / max(1.0 - (_GAP + width(words, 13.0)) / BESIDE_NAMES, 0.25) for end, words in bars
    )


def legend_lines(entries: Sequence[str], across: float = TELEPHONE) -> int:
    """Lines of text of a legend below a chart `across` [px] wide, in columns of one width."""
    if not entries:
        return 0
    widths = [_KEY + width(entry, 12.0) for entry in entries]
    one_row = sum(widths) <= across
    columns = len(entries) if one_row else max(int(across / max(widths)), 1)
    rows = (entries[at : at + columns] for at in range(0, len(entries), columns))
    return sum(max(entry.count("<br>") + 1 for entry in row) for row in rows)


def height_for(entries: int) -> int:
    """The least height [px] of a chart whose legend below is drawn whole in one column.

    Plotly gives a legend half of the height and scrolls the rest.
    """
    return 2 * (LEGEND_LINE * entries + _LEGEND_EDGE)


def _share(value: float, ends: tuple[float, float], logarithmic: bool) -> float:
    """Relative position of a value along an axis, 0 to 1."""
    low, high = ends
    if logarithmic:
        value, low, high = (math.log(max(one, 1e-300)) for one in (value, low, high))
    return (value - low) / ((high - low) or 1.0)
