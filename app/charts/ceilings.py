"""The ceilings of a roofline: flat peaks, diagonals of memory, caches and links, their labels."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.charts.figure import Figure, Trace
from app.charts.labels import Room
from app.charts.parts import line
from app.charts.style import Look, translucent
from app.wording import quantities
from genz_core.systems import System

#: Bandwidths drawn as diagonals: name, bytes/s, dash style of the line.
Levels = Sequence[tuple[str, float, str]]
#: Positions tried for a diagonal's label, as shares of its visible length.
_ALONG = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35)


def named_peaks(peaks: Mapping[str, float]) -> list[tuple[str, float]]:
    """Peaks [FLOP/s], highest first, named by the formats that share them: ("bf16, fp16", 989e12).

    peaks: by number format.
    """
    names: dict[float, list[str]] = {}
    for name, peak in peaks.items():
        names.setdefault(peak, []).append(name)
    return [(", ".join(names[peak]), peak) for peak in sorted(names, reverse=True)]


def bandwidths(system: System) -> Levels:
    """The bandwidths of a system: of caches, memory and links."""
    memories = [("memory", system.memory_bytes_per_s, "solid")]
    if system.l2_bytes_per_s:
        memories.insert(0, ("L2 cache", system.l2_bytes_per_s, "dash"))
    links = [(link.name, link.bytes_per_s, "dot") for link in system.links]
    if system.host_bytes_per_s:
        links.append(("host", system.host_bytes_per_s, "dot"))
    return memories + links


def ceiling_lines(
    peaks: Mapping[str, float], levels: Levels, across: tuple[float, float], used: set[str],
    look: Look,
) -> Iterable[Trace]:  # fmt: skip
    """Peaks and diagonals as lines; peaks of number formats in use are drawn stronger.

    across: limits of the intensity axis [FLOP/byte].  used: number formats of the operators.
    """
    top = max(peaks.values(), default=math.inf)
    memory = next((rate for name, rate, _ in levels if name == "memory"), math.inf)
    for names, peak in named_peaks(peaks):
        chosen = bool(used & set(names.split(", ")))
        stroke = {"width": 1.8, "dash": "solid"} if chosen else {"width": 0.8, "dash": "dash"}
        words = f"{names} peak, dense: {quantities.flops_rate(peak)}"
        xs = [max(peak / memory, across[0]), across[1]]
        yield _ceiling(xs, [peak, peak], look.ink if chosen else look.faint, words, stroke)
    for name, rate, dash in levels:
        main = name == "memory"
        xs = [across[0], min(top / rate, across[1])]
        words = f"{name}: {quantities.bandwidth(rate)}"
        words += " per direction (FLOP per byte sent)" if dash == "dot" else ""
        stroke = {"width": 1.8 if main else 1.0, "dash": dash}
        color = look.ink if main else look.faint
        yield _ceiling(xs, [x * rate for x in xs], color, words, stroke)


def _ceiling(
    xs: Sequence[float], ys: Sequence[float], color: str, words: str, stroke: Mapping[str, object]
) -> Trace:
    """One peak or diagonal as a line.  words: its hover text."""
    return line(xs, ys, "", color, f"{words}<extra></extra>", line=stroke, showlegend=False)


def label_peaks(figure: Figure, peaks: Iterable[tuple[str, float]], room: Room, look: Look) -> None:
    """Label peaks at the right edge of the plot.  peaks: of `named_peaks`."""
    for names, peak in peaks:
        words = f"{names} {quantities.flops_rate(peak)}"
        room.claim(room.across[1], peak, words, 12.0, "left")
        figure.add_text(
            words, 12, look.ink, x=math.log10(room.across[1]), y=math.log10(peak),
            xanchor="right", yanchor="bottom", **behind(look),
        )  # fmt: skip


def behind(look: Look) -> dict[str, Any]:
    """Paper behind a label, so that the lines it stands on do not cross its letters."""
    return {"borderpad": 0, "bgcolor": translucent(look.paper, 0.75)}


def label_diagonals(
    figure: Figure, levels: Levels, xs: Sequence[float], ys: Sequence[float], room: Room, look: Look
) -> None:
    """Label the diagonals near the plot edge, the memory's first; every diagonal has a hover.

    A label avoids the points at `xs` and `ys` if the first third of the line has a free place; it
    is split in two lines if one does not fit.
    """
    dots = room.dots(xs, ys)
    for name, rate, _ in sorted(levels, key=lambda level: (level[0] != "memory", -level[1])):
        enters = math.log10(max(room.across[0], room.upwards[0] / rate)) + 0.08
        leaves = math.log10(min(room.across[1], room.upwards[1] / rate))
        size, color = (12, look.ink) if name == "memory" else (11, look.faint)
        places = [(enters + share * (leaves - enters), dots) for share in _ALONG]
        tries = [
            (x, off, f"{name}{between}{quantities.bandwidth(rate)}")
            for x, off in (*places, (enters, [])) for between in (" ", "<br>")
        ]  # fmt: skip
        for x, off, words in tries:
            lift = -15.0 * len(words.split("<br>"))
            if room.claim(10.0**x, 10.0**x * rate, words, size, lift=lift, off=off):
                figure.add_text(
                    words, size, color, x=x, y=x + math.log10(rate), xanchor="left", yanchor="top",
                    xshift=6, align="left", **behind(look),
                )  # fmt: skip
                break
