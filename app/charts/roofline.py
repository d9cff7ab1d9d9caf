"""The roofline: every operator as a point under the hardware's ceilings.

x: FLOP per byte of memory traffic.  y: FLOP/s per device.  The marker's shape is the phase, its
colour the operator class, its area the share of the phase's time.  The caller fixes the axes, so
points move when the scenario changes.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from app.charts import ceilings
from app.charts.figure import Figure, Trace
from app.charts.labels import LEGEND_LINE, NARROWEST, Room, legend_lines
from app.charts.parts import dots, error_reach, flops_words, log_axis
from app.charts.style import CLASS_NAMES, Look, blank
from app.wording import quantities
from genz_core.steps.step_estimate import StepEstimate
from genz_core.systems import System

Row = Mapping[str, Any]
SYMBOLS: Mapping[str, str] = {"prefill": "circle", "decode": "diamond"}
_SMALLEST, _LARGEST = 7.0, 34.0
_LABELLED = 3
_RIDGE_LIFT = 20.0
#: Limits of both axes in SI units; they stay fixed while points move.
Frame = tuple[tuple[float, float], tuple[float, float]]


def operator_points(table: Mapping[str, Sequence[Any]], phase: str) -> list[dict[str, Any]]:
    """Rows of an operator table that do arithmetic, with `flops_per_s`, `run_s` and `id`.

    table: of `app.scenario.operator_intervals`.  Ids stay the same when sizes change.
    """
    rows = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    for at, row in enumerate(rows):
        row |= {"phase": phase, "id": f"{phase}:{at}"}
        row["run_s"] = row["predicted_s"] / max(row["runs"], 1.0)
        row["flops_per_s"] = row["flops"] / row["run_s"] if row["run_s"] else 0.0
    return [row for row in rows if row["flops"] and row["bytes"] and row["run_s"]]


def frame(steps: Iterable[StepEstimate], system: System) -> Frame:
    """Axis limits that include all operators of steps and the ridge point of every ceiling."""
    xs: list[float] = []
    ys: list[float] = []
    for step in steps:
        run_s = step.operators_s / np.maximum(step.runs, 1.0)[:, None]
        drawn = (step.flops > 0) & (step.bytes > 0) & (run_s > 0)
        xs += (step.flops[drawn] / step.bytes[drawn]).tolist()
        ys += (step.flops[drawn] / run_s[drawn]).tolist()
    ridges = [peak / system.memory_bytes_per_s for peak in system.peak_flops_per_s.values()]
    across = [*xs, min(ridges) / 10, max(ridges) * 10]
    top = max(system.peak_flops_per_s.values())
    low = max(min([*ys, top / 1e3]), top / 1e7)
    return (max(min(across) / 2, 1e-2), max(across) * 2), (low / 2, top * 2.5)


def roofline(rows: Sequence[Row], system: System, limits: Frame, look: Look) -> Figure:
    """Operators as points under the ceilings of a system.

    rows: of `operator_points`.  limits: of `frame`.
    """
    figure, (x_limits, y_limits) = blank(look, "", 560), limits
    peaks, levels = system.peak_flops_per_s, ceilings.bandwidths(system)
    used = {str(row["compute"]) for row in rows}
    figure.add_traces(ceilings.ceiling_lines(peaks, levels, x_limits, used, look))
    figure.add_traces(_clouds(rows, system, look))
    room = Room(x_limits, y_limits, (True, True), NARROWEST)
    named = [one for one in ceilings.named_peaks(peaks) if used & set(one[0].split(", "))]
    ceilings.label_peaks(figure, named, room, look)
    xs, ys = ([float(row[name]) for row in rows] for name in ("flops_per_byte", "flops_per_s"))
    ceilings.label_diagonals(figure, levels, xs, ys, room, look)
    _label_points(figure, rows, room, look)
    _label_ridges(figure, [peak for _, peak in named], system, room, look)
    across = log_axis(x_limits, lambda value, _: f"{value:,g}", across=True)
    entries = [trace["name"] for trace in figure.data if trace.get("showlegend", True)]
    return figure.laid(
        {"title_text": "Arithmetic intensity [FLOP/byte]", **across},
        {"title_text": "Rate per device [FLOP/s]", **log_axis(y_limits, flops_words)},
        uirevision="keep",
        margin={"t": 16, "b": 66 + LEGEND_LINE * legend_lines(entries), "l": 104, "r": 24},
        hovermode="closest",
        clickmode="event+select",
    )


def highlighted(figure: Figure, chosen: str) -> Figure:
    """The figure with the point of row id `chosen` highlighted; others are faint and unlabelled."""
    for cloud in figure.data:
        ids = [row[0] for row in cloud.get("customdata", ())]
        if ids:
            cloud["selectedpoints"] = [at for at, point_id in enumerate(ids) if point_id == chosen]
            for side in ("array", "arrayminus"):
                ends = zip(ids, cloud["error_y"][side], strict=True)
                cloud["error_y"][side] = [
                    end if point_id == chosen else math.nan for point_id, end in ends
                ]
    return figure


# ------------------------------------------------------------------------------- points


def _clouds(rows: Sequence[Row], system: System, look: Look) -> Iterable[Trace]:
    for name, words in CLASS_NAMES.items():
        cloud = [row for row in rows if row["class"] == name]
        if not cloud:
            continue
        color = look.class_color(name)
        marker = {
            "symbol": [SYMBOLS[row["phase"]] for row in cloud],
            "size": [_diameter(row["share"]) for row in cloud],
            "color": color,
            "opacity": 0.82,
            "line": {"color": look.paper, "width": 1},
        }
        yield dots(
            [row["flops_per_byte"] for row in cloud], [row["flops_per_s"] for row in cloud],
            words, marker, "%{customdata[1]}<extra></extra>",
            showlegend=True, error_y=_error_bars(cloud, color),
            selected={"marker": {"opacity": 1.0}}, unselected={"marker": {"opacity": 0.25}},
            customdata=[[row["id"], hover(row, system)] for row in cloud],
        )  # fmt: skip


def _error_bars(rows: Sequence[Row], color: str) -> dict[str, Any]:
    """The 80 % interval of each time as an error bar of the rate; NaN where not validated."""
    rates = [(row["flops_per_s"], row["predicted_s"], row) for row in rows]
    return error_reach(
        [rate * (seconds / row["low_s"] - 1) for rate, seconds, row in rates],
        [rate * (1 - seconds / row["high_s"]) for rate, seconds, row in rates],
        color=color, thickness=1, width=3,
    )  # fmt: skip


def _diameter(share: float) -> float:
    """Diameter of a point [px]: its area is the time share, or the smallest to be clicked."""
    return max(_SMALLEST, _LARGEST * math.sqrt(max(share, 0.0)))


def hover(row: Row, system: System) -> str:
    """The hover of a point: its figures, and the bound's formula with numbers inserted."""
    peak = system.peak_flops_per_s.get(str(row["compute"]), float("nan"))
    flops, moved, run_s = row["flops"], row["bytes"], row["run_s"]
    rate = row["flops_per_s"]
    bound_s = row["bound_s"] / max(row["runs"], 1.0)
    return (
        f"<b>{row['name']}</b> · {row['phase']} · "
        f"{quantities.percent(row['share'])} of the step<br>"
        f"{quantities.count(float(row['runs']))} × {quantities.seconds(run_s)} predicted<br>"
        f"all runs {quantities.seconds(row['predicted_s'])}, 80 %: "
        f"{quantities.span(row['low_s'], row['high_s'])}<br>"
        f"{quantities.flops(flops)} / {quantities.size(moved)} = "
        f"{quantities.digits(row['flops_per_byte'])} FLOP/byte<br>"
        f"bound = max({quantities.flops(flops)} / {quantities.flops_rate(peak)},<br>"
        f"   {quantities.size(moved)} / {quantities.bandwidth(system.memory_bytes_per_s)})"
        f" = {quantities.seconds(bound_s)}<br>"
        f"reaches {quantities.flops_rate(rate)}, {quantities.percent(bound_s / run_s)} of its "
        f"roof; bound by {row['bound']}"
    )


def _label_points(figure: Figure, rows: Sequence[Row], room: Room, look: Look) -> None:
    """Label the operators that take most time where no other point is covered."""
    for row in sorted(rows, key=lambda row: -row["share"])[: 2 * _LABELLED]:
        away, name = _diameter(row["share"]) / 2 + 2, str(row["name"])
        x, y = row["flops_per_byte"], row["flops_per_s"]
        others = [one for one in rows if one is not row]
        off = room.dots(*([one[k] for one in others] for k in ("flops_per_byte", "flops_per_s")))
        for side, lift, place in (
            ("right", -7.0, {"xanchor": "left", "yanchor": "middle", "xshift": away}),
            ("left", -7.0, {"xanchor": "right", "yanchor": "middle", "xshift": -away}),
            ("center", -14.0 - away, {"xanchor": "center", "yanchor": "top", "yshift": 1 - away}),
        ):
            if room.claim(x, y, f" {name}", 11.0, side, lift=lift, off=off):
                place |= {"x": math.log10(x), "y": math.log10(y), **ceilings.behind(look)}
                figure.add_text(name, 11, look.faint, **place)
                break


def _label_ridges(
    figure: Figure, peaks: Sequence[float], system: System, room: Room, look: Look
) -> None:
    """Label the ridge points of peaks, where labels fit."""
    for peak in peaks:
        ridge = peak / system.memory_bytes_per_s
        words = f"ridge {quantities.digits(ridge)} FLOP/byte"
        if room.claim(ridge, peak, words, 11.0, "left", lift=_RIDGE_LIFT):
            figure.add_annotation(
                x=math.log10(ridge), y=math.log10(peak), text=words, xanchor="right",
                showarrow=True, ax=-8, ay=-_RIDGE_LIFT - 6, arrowcolor=look.faint, arrowwidth=1,
                arrowhead=0, font={"size": 11, "color": look.faint},
            )  # fmt: skip
