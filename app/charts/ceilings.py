"""The ceilings of a roofline: flat peaks, and diagonals of memory, caches and links."""

from collections.abc import Iterable, Sequence

from app.charts.figure import Trace
from app.charts.parts import line
from app.charts.style import Look
from app.wording import quantities
from genz_core.types import System


def named_peaks(system: System) -> list[tuple[str, float]]:
    """Peaks [FLOP/s], highest first, each named by its formats: ("bf16, fp16", 989e12)."""
    names: dict[float, list[str]] = {}
    for name, peak in system.peak_flops_per_s.items():
        names.setdefault(peak, []).append(name)
    return [(", ".join(names[peak]), peak) for peak in sorted(names, reverse=True)]


def bandwidths(system: System) -> list[tuple[str, float, str]]:
    """Bandwidths drawn as diagonals: name, bytes/s, dash style of the line."""
    memories = [("memory", system.memory_bytes_per_s, "solid")]
    if system.l2_bytes_per_s:
        memories.insert(0, ("L2 cache", system.l2_bytes_per_s, "dash"))
    links = [(link.name, link.bytes_per_s, "dot") for link in system.links]
    if system.host_bytes_per_s:
        links.append(("host", system.host_bytes_per_s, "dot"))
    return memories + links


def ceiling_lines(
    system: System, across: tuple[float, float], used: set[str], look: Look
) -> Iterable[Trace]:
    """Peaks and diagonals as lines; peaks of number formats in use are drawn stronger.

    across: limits of the intensity axis [FLOP/byte].  used: number formats of the operators.
    """
    top = max(system.peak_flops_per_s.values())
    for names, peak in named_peaks(system):
        chosen = bool(used & set(names.split(", ")))
        start = max(peak / system.memory_bytes_per_s, across[0])
        yield ceiling(
            [start, across[1]],
            [peak, peak],
            look.ink if chosen else look.faint,
            1.8 if chosen else 0.8,
            f"{names} peak, dense: {quantities.flops_rate(peak)}",
            "solid" if chosen else "dash",
        )
    for name, rate, dash in bandwidths(system):
        end = min(top / rate, across[1])
        main = name == "memory"
        yield ceiling(
            [across[0], end],
            [across[0] * rate, end * rate],
            look.ink if main else look.faint,
            1.8 if main else 1.0,
            f"{name}: {quantities.bandwidth(rate)}"
            + ("" if dash != "dot" else " per direction (FLOP per byte sent)"),
            dash,
        )


def ceiling(
    xs: Sequence[float], ys: Sequence[float], color: str, width: float, words: str, dash: str = ""
) -> Trace:
    """One peak or diagonal as a line.  words: its hover text."""
    stroke = {"width": width} | ({"dash": dash} if dash else {})
    return line(xs, ys, "", color, f"{words}<extra></extra>", line=stroke, showlegend=False)
