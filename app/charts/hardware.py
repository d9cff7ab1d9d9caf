"""Systems by peak arithmetic and memory bandwidth."""

from collections.abc import Mapping, Sequence

from app.charts.figure import Figure
from app.charts.labels import LEGEND_LINE, legend_lines
from app.charts.parts import dots, flops_words, log_axis
from app.charts.style import Look, blank
from app.wording.looks import LOOKS
from genz_core.systems import System

#: Name of each kind of system, and its symbol.
KINDS: Mapping[str, tuple[str, str]] = LOOKS["systems"]
_WIDE = ("bf16", "fp16", "tf32", "fp32")
_ROOM = 1.6  # margin between points and plot edge


def wide_peak(system: System) -> float:
    """The dense 16-bit peak, or the widest matrix peak that is stated [FLOP/s]."""
    peaks = system.peak_flops_per_s
    return next((peaks[name] for name in _WIDE if name in peaks), max(peaks.values()))


def plane(
    systems: Mapping[str, System], words: Mapping[str, str], look: Look, *, chosen: str = ""
) -> Figure:
    """One point per system on logarithmic axes, one colour per vendor.

    systems: by slug.  words: for the hover of each.  chosen: slug of the system to mark.
    """
    vendors = list(dict.fromkeys(system.vendor for system in systems.values()))
    legend = LEGEND_LINE * legend_lines(vendors)
    figure = blank(look, "", 372 + legend)
    for at, vendor in enumerate(vendors):
        of_vendor = {slug: one for slug, one in systems.items() if one.vendor == vendor}
        marked = [slug == chosen for slug in of_vendor]
        marker = {
            "color": look.classes[at % len(look.classes)],
            "symbol": [KINDS[one.kind][1] for one in of_vendor.values()],
            "size": [15 if one else 9 for one in marked],
            "line": {"color": [look.ink if one else look.paper for one in marked], "width": 1},
            "opacity": 0.9,
        }
        trace = dots(
            [one.memory_bytes_per_s for one in of_vendor.values()],
            map(wide_peak, of_vendor.values()), vendor, marker,
            "<b>%{customdata[1]}</b><br>%{customdata[2]}<extra></extra>",
            customdata=[[slug, one.name, words[slug]] for slug, one in of_vendor.items()],
        )  # fmt: skip
        figure.add_trace(trace)
    rates = [system.memory_bytes_per_s for system in systems.values()]
    peaks = list(map(wide_peak, systems.values()))
    across = log_axis(_around(rates), lambda value, _: f"{value / 1e12:,g}", across=True)
    return figure.laid(
        {"title_text": "Memory bandwidth [TB/s]", **across},
        {"title_text": "Dense 16-bit peak [FLOP/s]", **log_axis(_around(peaks), flops_words)},
        margin={"t": 12, "b": 70 + legend, "l": 90},
        clickmode="event+select",
        uirevision="keep",
        showlegend=True,
    )


def _around(values: Sequence[float]) -> tuple[float, float]:
    """Limits of a logarithmic axis with a margin around its values."""
    return min(values) / _ROOM, max(values) * _ROOM
