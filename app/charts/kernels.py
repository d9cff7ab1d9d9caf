"""Measured kernels: time by operator class, roofline and speed of light from hardware counters."""

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from app.charts import ceilings
from app.charts.figure import Figure
from app.charts.labels import NARROWEST, Room
from app.charts.parts import dots, flops_words, lay_bars, log_axis, lying_bars, time_bars
from app.charts.style import CLASS_NAMES, CLASSES, Look, blank
from app.wording import quantities
from app.wording.markdown import chart_text
from profilers.operators.kernel_classes import ENGINE_CLASS


def engine_class(kind: str) -> str:
    """The engine's operator class for a kernel class; "other" if there is none."""
    return ENGINE_CLASS.get(kind, "other")


def time_by_class(bars: Mapping[str, Mapping[str, float]], title: str, look: Look) -> Figure:
    """Stacked bars of kernel time by operator class.

    bars: seconds by class, by the name of the bar, which the hover tells.
    """
    figure = blank(look, title, 230)
    for name in (*CLASSES, "other"):
        times = [max(seconds.get(name, 0.0), 0.0) for seconds in bars.values()]
        if any(time > 0.0 for time in times):
            words = CLASS_NAMES.get(name, "Unclassified")
            figure.add_trace(time_bars(bars, times, words, look.class_color(name)))
    figure.update_layout(showlegend=True, yaxis_showticklabels=len(bars) > 1)
    return lay_bars(figure, look, "Kernel time [ms]", bottom=96, gap=0.45, rangemode="tozero")


def counter_roofline(
    points: pd.DataFrame,
    rate: float | None,
    peaks: Mapping[str, float],
    look: Look,
    traffic: str = "DRAM traffic",
) -> Figure:
    """Kernels or operators under the rooflines of their device.

    points: see `profilers.operators.roofline`.  traffic: axis wording for the bytes counted.
    rate: of the device's memory [bytes/s], None where unknown.
    peaks: FLOP/s by number format.  A kernel above its roofline has the alarm colour; a kernel
    whose tensor cores were not counted is drawn as a ring.
    """
    figure = blank(look, "", 480)
    xs, ys = points["flops_per_byte"].to_numpy(), points["flops_per_s"].to_numpy()
    low, high = float(xs.min()) / 4, float(xs.max()) * 4
    levels = [("memory", rate, "solid")] if rate else []
    if rate:
        high = max([high, *(2 * peak / rate for peak in peaks.values())])
        lines = ceilings.ceiling_lines(peaks, levels, (low, high), set(peaks), look)
        figure.add_traces(lines)
    limit = np.minimum(xs * (rate or np.inf), max(peaks.values(), default=np.inf))
    share = points["time_s"] / max(float(points["time_s"].sum()), 1e-300)
    colors = [
        look.alarm if y > 1.02 * most else look.class_color(engine_class(kind))
        for y, most, kind in zip(ys, limit, points["operator_class"], strict=True)
    ]
    marker = {
        "symbol": ["circle-open" if ring else "circle" for ring in points["at_least"]],
        "size": [max(8.0, 34.0 * float(part) ** 0.5) for part in share],
        "color": colors, "opacity": 0.85, "line": {"width": 1.5},
    }  # fmt: skip
    told = [_hover(row) for row in points.to_dict("records")]
    hover = "%{customdata}<extra></extra>"
    figure.add_trace(dots(xs, ys, "", marker, hover, customdata=told, showlegend=False))
    lowest = min(float(ys.min()) / 4, low * (rate or np.inf))
    across, upward = (low, high), (lowest, 2 * max([float(ys.max()), *peaks.values()]))
    if rate:
        room = Room(across, upward, (True, True), NARROWEST)
        ceilings.label_peaks(figure, ceilings.named_peaks(peaks), room, look)
        ceilings.label_diagonals(figure, levels, xs.tolist(), ys.tolist(), room, look)
    axis = log_axis(across, quantities.digits, across=True)
    x = {"title_text": f"FLOP per byte of {traffic}", **axis}
    y = {"title_text": "Rate [FLOP/s]", **log_axis(upward, flops_words)}
    margin = {"t": 16, "l": 70}
    return figure.laid(x, y, hovermode="closest", uirevision="keep", margin=margin)


def speed_of_light(kernels: pd.DataFrame, look: Look) -> Figure:
    """Share of peak arithmetic and of DRAM bandwidth that each kernel reaches, from ncu counters.

    kernels: name, compute_pct, dram_pct; the first 30 are drawn.
    """
    shown = kernels.head(30)
    names = [f"{at + 1}. {chart_text(str(name)[:34])}" for at, name in enumerate(shown["name"])]
    figure = blank(look, "", 130 + 34 * len(shown))
    for column, words, place in (("compute_pct", "Compute", 0), ("dram_pct", "DRAM", 1)):
        hover = f"{words}: %{{x:.3g}} %<extra>%{{y}}</extra>"
        figure.add_trace(lying_bars(names, shown[column], words, look.classes[place], hover))
    title, range_ = "Share of sustained peak [%]", [0, 100]
    return lay_bars(figure, look, title, bottom=90, top=12, mode="group", range=range_)


def _hover(row: Mapping[Hashable, Any]) -> str:
    launches = f"{quantities.count(row['count'])} {'launch' if row['count'] == 1 else 'launches'}"
    took = f", {quantities.seconds(row['time_s'])}" if row["time_s"] else ""
    return (
        f"<b>{chart_text(str(row['name'])[:80])}</b><br>{launches}{took}<br>"
        f"{'at least ' if row['at_least'] else ''}{quantities.flops_rate(row['flops_per_s'])} at "
        f"{quantities.digits(row['flops_per_byte'])} FLOP/byte"
    ) + "".join(
        f"<br>{words} {quantities.digits(row[name])} % of peak"
        for words, name in (("compute", "compute_pct"), ("DRAM", "dram_pct"))
        if np.isfinite(row[name])
    )


def rank_bars(rows: pd.DataFrame, look: Look) -> Figure:
    """One stacked bar per rank: compute, overlapped and exposed communication, copies, idle.

    rows: of `profilers.timeline.ranks.RankComparison`.
    """
    figure = blank(look, "Time of each rank", 150 + 34 * len(rows))
    hidden = (rows["communication_s"] - rows["exposed_s"]).clip(lower=0.0)
    parts = (
        ("Compute alone", (rows["compute_s"] - hidden).clip(lower=0.0), look.class_color("gemm")),
        ("Compute overlapped with communication", hidden, look.classes[2]),
        ("Exposed communication", rows["exposed_s"], look.class_color("collective")),
        ("Copies alone", rows["copying_s"], look.classes[3]),
        ("Idle", rows["idle_s"], look.rest),
    )
    names = [f"rank {rank}" for rank in rows["rank"]]
    for words, values, color in parts:
        if values.any():
            figure.add_trace(time_bars(names, values, words, color))
    figure.update_layout(showlegend=True)
    return lay_bars(figure, look, "Time [ms]", bottom=96, gap=0.3, rangemode="tozero")
