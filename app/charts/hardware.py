"""Systems by peak arithmetic and memory bandwidth."""

from collections.abc import Mapping, Sequence

from app.charts.figure import Figure
from app.charts.labels import LEGEND_LINE, legend_lines
from app.charts.parts import dots, flops_words, log_axis
from app.charts.style import Look, blank

#: Name of each kind of system, and its symbol.
KINDS: Mapping[str, str] = {
    "gpu": "GPU", "igpu": "Integrated GPU", "cpu": "CPU", "tpu": "TPU", "npu": "NPU",
}  # fmt: skip
_SYMBOLS: Mapping[str, str] = {
    "gpu": "circle", "igpu": "diamond", "cpu": "square", "tpu": "cross", "npu": "star",
}  # fmt: skip
_ROOM = 1.6  # margin between points and plot edge


def plane(rows: Sequence[Mapping[str, object]], look: Look, *, chosen: str = "") -> Figure:
    """One point per system on logarithmic axes, one colour per vendor.

    rows: slug, name, vendor, kind, words (for the hover), memory_bytes_per_s, peak_flops_per_s (16
    bit, or the widest stated matrix type).  chosen: slug of the system to mark.
    """
    vendors = list(dict.fromkeys(str(row["vendor"]) for row in rows))
    legend = LEGEND_LINE * legend_lines(vendors)
    figure = blank(look, "", 372 + legend)
    for at, vendor in enumerate(vendors):
        of_vendor = [row for row in rows if row["vendor"] == vendor]
        marked = [row["slug"] == chosen for row in of_vendor]
        marker = {
            "color": look.classes[at % len(look.classes)],
            "symbol": [_SYMBOLS.get(str(row["kind"]), "circle") for row in of_vendor],
            "size": [15 if one else 9 for one in marked],
            "line": {"color": [look.ink if one else look.paper for one in marked], "width": 1},
            "opacity": 0.9,
        }
        trace = dots(
            [row["memory_bytes_per_s"] for row in of_vendor],
            [row["peak_flops_per_s"] for row in of_vendor], vendor, marker,
            "<b>%{customdata[1]}</b><br>%{customdata[2]}<extra></extra>",
            customdata=[[row["slug"], row["name"], row["words"]] for row in of_vendor],
        )  # fmt: skip
        figure.add_trace(trace)
    rates, peaks = (
        [float(str(row[key])) for row in rows] for key in ("memory_bytes_per_s", "peak_flops_per_s")
    )
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
