"""Small charts as SVG text, so that a report needs no script and can be printed."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from app.decide.candidate_points import MEETS, Points
from app.decide.study import Study, label
from app.wording import quantities
from app.wording.looks import LOOKS

_WIDE, _HIGH = 720, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 20, 24, 60
_LOOK = LOOKS["light"]
_COLORS, _INK, _FAINT, _ALARM = (_LOOK[name] for name in ("classes", "ink", "faint", "alarm"))
#: How a candidate that meets its targets is drawn, and one that misses a target; where the legend
#: explains both, from the left.
_FULL = 'fill="{color}" fill-opacity="0.85"'
_HOLLOW = 'fill="none" stroke="{color}" stroke-opacity="0.6"'
_MEETS_AT, _MISSES_AT = 400, 520
#: Most points of a chart; a report is a page, not a data file.
_MOST = 1500
#: For a study: width, start and end of its bars, and height of a row.
_STUDY_WIDE, _LABELS, _BARS, _ROW, _STUDY_TOP = 1180, 420, 300, 24, 56
#: For a fleet: chart width, horizontal start of its devices, and width of one device.
_FLEET_WIDE, _MACHINE, _DEVICE = 900, 300, 40
_STUDY_HEAD = "Output tokens a second and device; TPOT; cost; energy; decode bound by"


@dataclass(frozen=True, slots=True)
class _Scale:
    """Maps a value to a position, linearly or logarithmically."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool

    def place(self, value: float) -> float:
        low, high, at = self.low, self.high, value
        if self.logarithmic:
            low, high, at = math.log(low), math.log(high), math.log(value)
        share = (at - low) / (high - low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        if self.logarithmic:
            powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            every = [step * 10.0**power for power in powers for step in (1, 2, 5)]
            return [tick for tick in every if self.low <= tick <= self.high]
        step = 10.0 ** math.floor(math.log10(self.high / 4.0))
        step *= next(factor for factor in (1, 2, 5, 10) if self.high / (factor * step) <= 6)
        return [step * at for at in range(int(self.high / step) + 1)]


def _scale(values: Sequence[float], start: float, end: float, logarithmic: bool) -> _Scale:
    largest = max(values) or 1.0
    if logarithmic:
        smallest = min(value for value in values if value > 0)
        return _Scale(smallest / 1.2, largest * 1.2, start, end, True)
    return _Scale(0.0, largest * 1.08, start, end, False)


def candidates(points: Points) -> str:
    """Candidates, their frontier, the plans and the targets as an SVG element."""
    xs = [float(x) for one in points.series for x in one.x]
    ys = [float(y) for one in points.series for y in one.y]
    if not xs:
        return ""
    across = _scale(
        [*xs, *(p for p, _ in points.x_guides)], _LEFT, _WIDE - _RIGHT, points.x.logarithmic
    )
    upwards = _scale(
        [*ys, *(p for p, _ in points.y_guides)], _HIGH - _BOTTOM, _TOP, points.y.logarithmic
    )
    parts = [*_axes(points, across, upwards), *_dots(points, across, upwards)]
    line = " ".join(f"{across.place(v.x):.1f},{upwards.place(v.y):.1f}" for v in points.frontier)
    parts.append(f'<polyline points="{line}" fill="none" stroke="{_INK}" stroke-width="1.3"/>')
    for plan in points.plans:
        parts.append(
            f'<circle cx="{across.place(plan.x):.1f}" cy="{upwards.place(plan.y):.1f}" r="8" '
            f'fill="none" stroke="{_LOOK["good"]}" stroke-width="2"/>'
        )
    title = escape(f"{points.y.words} against {points.x.words}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDE} {_HIGH}" role="img" '
        f'aria-label="{title}" font-family="Helvetica, Arial, sans-serif" font-size="11">'
        f"<title>{title}</title>{''.join(parts)}</svg>"
    )


def _axes(points: Points, across: _Scale, upwards: _Scale) -> list[str]:
    bottom, right = _HIGH - _BOTTOM, _WIDE - _RIGHT
    parts = []
    for value in across.ticks():
        x = across.place(value)
        parts.append(_line(x, _TOP, x, bottom, _LOOK["grid"]))
        parts.append(_text(x, bottom + 15, quantities.digits(value, 2), "middle"))
    for value in upwards.ticks():
        y = upwards.place(value)
        parts.append(_line(_LEFT, y, right, y, _LOOK["grid"]))
        parts.append(_text(_LEFT - 6, y + 4, quantities.digits(value, 3), "end"))
    for place, words in points.x_guides:
        x = across.place(place)
        parts.append(_line(x, _TOP, x, bottom, _ALARM, "4 3"))
        parts.append(_text(x + 4, _TOP + 10, words, "start", _ALARM))
    for place, words in points.y_guides:
        y = upwards.place(place)
        parts.append(_line(_LEFT, y, right, y, _ALARM, "4 3"))
        parts.append(_text(right, y - 4, words, "end", _ALARM))
    parts.append(_text((_LEFT + right) / 2, bottom + 30, points.x.title, "middle"))
    parts.append(_text(_LEFT, _TOP - 8, points.y.title, "start"))
    return parts


def _dots(points: Points, across: _Scale, upwards: _Scale) -> list[str]:
    parts, left = [], _MOST
    legend: dict[str, str] = {}
    for series in sorted(points.series, key=lambda one: not one.meets):
        color = _COLORS[series.group % len(_COLORS)]
        legend.setdefault(series.name, color)
        look = _FULL if series.meets else _HOLLOW
        dots = [
            f'<circle cx="{across.place(x):.1f}" cy="{upwards.place(y):.1f}" r="2.6"/>'
            for x, y in list(zip(series.x.tolist(), series.y.tolist(), strict=True))[:left]
        ]
        left -= len(dots)
        parts.append(f"<g {look.format(color=color)}>{''.join(dots)}</g>")
    for at, (name, color) in enumerate(list(legend.items())[:6]):
        x, y = 12 + 236 * (at % 3), _HIGH - 14 + 12 * (at // 3)
        parts.append(f'<circle cx="{x}" cy="{y - 4}" r="3.5" fill="{color}"/>')
        parts.append(_text(x + 7, y, name[:38], "start"))
    if points.missed:
        parts += [*_key(_MEETS_AT, MEETS, _FULL), *_key(_MISSES_AT, points.missed, _HOLLOW)]
    return parts


def _key(x: float, words: str, look: str) -> list[str]:
    """An entry of the legend that explains how a point is drawn, above the chart."""
    circle = f'<circle cx="{x}" cy="{_TOP - 12}" r="3.5" {look.format(color=_INK)}/>'
    return [circle, _text(x + 7, _TOP - 8, words, "start")]


def study(found: Study) -> str:
    """One bar per combination, as long as its tokens per second and device, with a colour per
    technique; a combination that cannot run has its reason instead of a bar.
    """
    speeds = [row.get("output_tokens_per_s_per_device") or 0.0 for row in found.rows]
    largest = max(speeds, default=0.0) or 1.0
    colors = {
        name: _COLORS[at % len(_COLORS)]
        for at, name in enumerate(dict.fromkeys(row["technique"] for row in found.rows))
    }
    high = _STUDY_TOP + _ROW * len(found.rows) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_STUDY_WIDE} {high}" '
        f'width="{_STUDY_WIDE}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_STUDY_WIDE}" height="{high}" fill="{_LOOK["paper"]}"/>',
        _text(16, 24, found.title, color=_INK, size=16),
        _text(_LABELS, 44, _STUDY_HEAD, color=_INK),
    ]
    for at, (row, speed) in enumerate(zip(found.rows, speeds, strict=True)):
        y = _STUDY_TOP + _ROW * at
        parts.append(_text(16, y + 14, label(row), color=_INK))
        long = _BARS * speed / largest
        parts.append(
            f'<rect x="{_LABELS}" y="{y + 2}" width="{long:.1f}" height="{_ROW - 8}" '
            f'fill="{colors[row["technique"]]}"/>'
        )
        parts.append(_text(_LABELS + long + 8, y + 14, _figures(row, speed), color=_INK))
    return "\n".join([*parts, "</svg>", ""])


def fleet(named: Mapping[str, Any]) -> str:
    """The machines of a fleet in use: one row per machine, one cell per device, coloured by model.

    named: the document of `ridgeline fleet --json`.
    """
    colors = {one["name"]: _COLORS[at % len(_COLORS)] for at, one in enumerate(named["models"])}
    lines = [(kind, slots) for kind in named["machines"] for slots in kind["filled"]]
    widest = max((kind["devices"] for kind in named["machines"]), default=1)
    cell = min(_DEVICE, (_FLEET_WIDE - _MACHINE - 16) / widest)
    high = _STUDY_TOP + _ROW * len(lines) + 20 * len(colors) + 32
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_FLEET_WIDE} {high}" '
        f'width="{_FLEET_WIDE}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_FLEET_WIDE}" height="{high}" fill="{_LOOK["paper"]}"/>',
        _text(16, 24, f"{named['title']}: devices of the machines in use", color=_INK, size=16),
    ]
    for at, (kind, slots) in enumerate(lines):
        y = _STUDY_TOP + _ROW * at
        parts.append(_text(16, y + 14, f"{kind['name']} ({kind['system']})", color=_INK))
        held = [colors[slot["name"]] for slot in slots for _ in range(slot["devices"])]
        held += [_LOOK["grid"]] * (kind["devices"] - len(held))
        parts += [
            f'<rect x="{_MACHINE + cell * place:.1f}" y="{y + 2}" width="{cell - 1:.1f}" '
            f'height="{_ROW - 8}" fill="{color}"/>'
            for place, color in enumerate(held)
        ]
    for at, (name, color) in enumerate(colors.items()):
        y = _STUDY_TOP + _ROW * len(lines) + 16 + 20 * at
        parts.append(f'<rect x="16" y="{y - 10}" width="12" height="12" fill="{color}"/>')
        parts.append(_text(34, y, name, color=_INK))
    return "\n".join([*parts, "</svg>", ""])


def _figures(row: dict[str, Any], speed: float) -> str:
    if row["status"] != "ok":
        return f"{row['status']}: {row['message'][:80]}"
    said = [f"{speed:,.4g}/s", f"{1e3 * row['tpot_s']:,.3g} ms"]
    if (cost := row.get("usd_per_million_tokens")) is not None:
        said.append(f"{cost:,.3g} $/M")
    if (energy := row.get("joules_per_token")) is not None:
        said.append(f"{energy:,.3g} J")
    return "; ".join([*said, row.get("decode_bound_by", "")])


def _line(x0: float, y0: float, x1: float, y1: float, color: str, dash: str = "") -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="{color}"{dashed}/>'
    )


def _text(
    x: float, y: float, words: str, anchor: str = "start", color: str = _FAINT, size: int = 0
) -> str:
    sized = f' font-size="{size}"' if size else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}"{sized}>'
        f"{escape(words)}</text>"
    )
