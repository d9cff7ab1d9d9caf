"""Colours and the template of all figures, for light and dark backgrounds."""

import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, astuple, dataclass
from itertools import pairwise
from pathlib import Path
from string import Template
from typing import Any

from app.charts.figure import Figure
from app.charts.labels import NARROWEST, width
from app.wording.looks import LOOKS
from hardware_db import yaml_document

_HERE = Path(__file__).parent
#: Names of operator classes in stacking and colour order.
CLASS_NAMES: Mapping[str, str] = LOOKS["operator classes"]
CLASSES = tuple(CLASS_NAMES)
#: Names of the kinds of a step's time, as `CLASS_NAMES` with what lies between operators.
KIND_NAMES: Mapping[str, str] = {**CLASS_NAMES, "host": "Host and pipeline"}
#: Height of the buttons at a chart's upper edge, which a touch screen always shows [px].
BUTTONS = 26
#: Name and palette index of each cause of time, in stacking order.
PARTS: Mapping[str, tuple[str, int]] = LOOKS["causes"]
PART_NAMES: Mapping[str, str] = {part: name for part, (name, _) in PARTS.items()}


@dataclass(frozen=True, slots=True)
class Look:
    """The colours of one appearance.

    classes: ten colours, distinct (CIE76 above 10) under normal, deuteranope and protanope sight.
    rest: for parts outside classes and series (host, bounds), distinct from all of them.
    """

    paper: str
    ink: str
    faint: str
    grid: str
    rest: str
    panel: str
    alarm: str
    good: str
    classes: tuple[str, ...]

    def class_color(self, name: str) -> str:
        """The colour of an operator class, `rest` for "host"; `faint` for any other name."""
        if name == "host":
            return self.rest
        return self.classes[CLASSES.index(name)] if name in CLASSES else self.faint

    def part_color(self, name: str) -> str:
        """The colour of a cause of time, a key of `PARTS`."""
        return self.classes[PARTS[name][1]]

    def on(self, fill: str) -> str:
        """The text colour, ink or paper, that contrasts more with a fill."""
        return max(self.ink, self.paper, key=lambda color: contrast(color, fill))


LIGHT, DARK = (
    Look(**{**colors, "classes": tuple(colors["classes"])})
    for colors in (LOOKS["light"], LOOKS["dark"])
)

#: Mean width of a letter in 12 px tick labels, rounded up; Plotly's tick length and distances.
_LETTER_PX, _BESIDE_PX = 5.75, 18
#: Of tick labels: their font, the gap between two side by side, the height of one, and of the
#: lowest frame.
_TICK_PX, _GAP_PX, _LINE_PX, _UPWARD_PX = 12.0, 6.0, 15.0, 200.0
CLEAR = "rgba(0,0,0,0)"


def _channels(color: str) -> tuple[int, ...]:
    return tuple(int(color[at : at + 2], 16) for at in (1, 3, 5))


def translucent(color: str, opacity: float) -> str:
    """A colour "#rrggbb" as CSS with an opacity from 0 to 1."""
    red, green, blue = _channels(color)
    return f"rgba({red},{green},{blue},{opacity})"


def contrast(color: str, other_color: str) -> float:
    """Contrast ratio of two colours "#rrggbb", 1 to 21.

    Source: WCAG 2.2, "contrast ratio" and "relative luminance", https://www.w3.org/TR/WCAG22.
    """
    dim, bright = sorted(map(_luminance, (color, other_color)))
    return (bright + 0.05) / (dim + 0.05)


def _luminance(color: str) -> float:
    values = [channel / 255 for channel in _channels(color)]
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in values)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def printable(document: str) -> str:
    """A figure's JSON in print colours, whichever look it was drawn in."""
    *dark, dark_classes = astuple(DARK)
    *light, light_classes = astuple(LIGHT)
    for old, new in zip((*dark, *dark_classes), (*light, *light_classes), strict=True):
        before, after = (translucent(one, 1.0).removesuffix("1.0)") for one in (old, new))
        document = document.replace(old, new).replace(before, after)
    return document


def look(appearance: str | None) -> Look:
    """The look for "light" or "dark"; light for any other value."""
    return DARK if appearance == "dark" else LIGHT


@functools.cache
def template(look: Look) -> dict[str, Any]:
    """The complete Plotly template of a look, so that a figure looks the same everywhere.

    All figures of the look share the template: do not modify it.
    """
    text = Template((_HERE / "template.yaml").read_text(encoding="utf-8"))
    layout = yaml_document.parse(text.substitute(asdict(look), clear=CLEAR), ships=True)
    axis = layout.pop("axis")
    return {"layout": {**layout, "colorway": list(look.classes), "xaxis": axis, "yaxis": axis}}


def log_ticks(
    limits: tuple[float, float], words: Callable[[float, int], str], *, across: bool = False
) -> dict[str, Any]:
    """Tick labels of a logarithmic axis ("10 ms"): at decades, and between them if those are few.

    limits: both above zero.  words: function (value, significant digits) -> text.  across: True if
    labels stand side by side (horizontal axis).  If not all labels fit the smallest plot, every
    second or third is kept or, if fewer than three would remain, each one that fits.  If no round
    number lies between the limits, there are three ticks with three digits.
    """
    powers = range(math.floor(math.log10(limits[0])), math.ceil(math.log10(limits[1])) + 1)
    ticks: list[float] = []
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 2, 3, 5, 7), range(1, 10)):
        every = [float(f"{step}e{power}") for power in powers for step in steps]
        ticks = [tick for tick in every if limits[0] <= tick <= limits[1]]
        if len(ticks) > 2:
            break
    digits = 1 if ticks else 3
    ticks = ticks or [limits[0], math.sqrt(limits[0] * limits[1]), limits[1]]
    labelled = [(tick, words(tick, digits)) for tick in ticks]
    decade_px = (NARROWEST[0] if across else _UPWARD_PX) / math.log10(limits[1] / limits[0])

    def apart(one: tuple[float, str], other: tuple[float, str]) -> bool:
        sizes = [
            width(label, _TICK_PX) + _GAP_PX if across else _LINE_PX for _, label in (one, other)
        ]
        return decade_px * math.log10(other[0] / one[0]) >= sum(sizes) / 2.0

    every_nth = (labelled[::step] for step in range(1, len(ticks) + 1))
    kept = next(some for some in every_nth if all(apart(*two) for two in pairwise(some)))
    if len(kept) < 3:
        kept = labelled[:1]
        for one in labelled[1:]:
            kept += [one] if apart(kept[-1], one) else []
    values, texts = zip(*kept, strict=True)
    return {"tickvals": list(values), "ticktext": list(texts)}


def room_for(labels: Iterable[str]) -> int:
    """The margin [px] that tick labels of horizontal bars need; their lines are separated by <br>.

    Plotly widens a margin that is too narrow for the labels, and then draws the figure twice.
    """
    lines = (re.sub("<[^>]*>", "", line) for label in labels for line in label.split("<br>"))
    return _BESIDE_PX + math.ceil(_LETTER_PX * max(map(len, lines), default=0))


def blank(look: Look, title: str, height: int) -> Figure:
    """An empty figure in this look.  height: in pixels."""
    figure = Figure()
    figure.update_layout(title_text=title, height=height)
    figure.layout["template"] = template(look)
    return figure
