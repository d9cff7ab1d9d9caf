"""Frontiers of systems, engines and formats on one chart, with measured runs."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from app.charts.figure import Figure, Trace
from app.charts.labels import room_beside
from app.charts.parts import dots, error_reach, line, ring
from app.charts.plan import Guides, finish
from app.charts.style import Look, blank, translucent
from app.decide.axes import Axis
from app.decide.frontiers import Curve
from app.decide.measured_loads import BASES
from app.planning.plan_text import shape
from app.wording import quantities
from genz_core.types import Array

#: Dash style and width of a frontier segment, by how well measurements cover it.
DASHES = dict(zip(BASES, ("solid", "dashdot", "dash", "dot"), strict=True))


def _stroke(basis: str) -> dict[str, object]:
    return {"width": 3.0 if basis == "measured" else 2.0, "dash": DASHES[basis]}


def frontiers(
    curves: Sequence[Curve], axes: tuple[Axis, Axis], guides: Guides, look: Look
) -> Figure:
    """The exact frontier of each curve; a point's first `customdata` holds its curve and number.

    axes: horizontal and vertical.  guides: position and label of the targets on each axis.
    """
    x, y = axes
    figure = blank(look, f"{y.words} against {x.words}", 540)
    used: set[str] = set()
    lines = [
        [axis.values(curve.columns)[curve.vertices(x, y)].tolist() for axis in axes]
        for curve in curves
    ]
    room = room_beside(lines, (x.logarithmic, y.logarithmic))
    for number, curve in enumerate(curves):
        at = curve.vertices(x, y)
        color = look.classes[number % len(look.classes)]
        if not at.size:
            continue
        for basis, stretch in _stretches(curve, at):
            xs, ys = (axis.values(curve.columns)[stretch].tolist() for axis in axes)
            hidden = {"showlegend": False, "legendgroup": curve.name}
            figure.add_trace(line(xs, ys, "", color, "", line=_stroke(basis), **hidden))
            used.add(basis)
        trace = _points(curve, number, at, axes, color, look)
        room.label(trace)
        figure.add_trace(trace)
        if curve.measured:
            figure.add_trace(_measured(curve, axes, color, look))
    for basis in (name for name in BASES if name in used):
        figure.add_trace(line([None], [None], basis, look.rest, "", line=_stroke(basis)))
    finish(figure, axes, guides, look, 110)
    return figure


def _stretches(curve: Curve, at: NDArray[np.intp]) -> list[tuple[str, NDArray[np.intp]]]:
    """The frontier split where its basis changes; a segment has the weaker one of its ends."""
    if at.size == 1:
        return [(BASES[int(curve.basis[at[0]])], at)]
    worse = np.maximum(curve.basis[at[:-1]], curve.basis[at[1:]])
    cuts = np.flatnonzero(np.diff(worse)) + 1
    return [
        (BASES[int(worse[part[0]])], at[part[0] : part[-1] + 2])
        for part in np.split(np.arange(worse.size), cuts)
    ]


def _points(
    curve: Curve, number: int, at: NDArray[np.intp], axes: tuple[Axis, Axis], color: str, look: Look
) -> Trace:
    x, y = axes
    xs, ys = (axis.values(curve.columns)[at] for axis in axes)
    words = [_words(curve, int(one)) for one in at]
    low, high = (curve.columns[name][at] for name in ("tpot_low_s", "tpot_high_s"))
    custom = [
        [number, int(one), word, BASES[int(curve.basis[one])], quantities.span(*ends)]
        for one, word, *ends in zip(at, words, low, high, strict=True)
    ]
    return dots(
        xs.tolist(), ys.tolist(), curve.name, {"size": 7, "color": color},
        f"%{{customdata[2]}}<br>{x.words} %{{x:.4g}}, {y.words} %{{y:,.4g}}<br>"
        f"TPOT 80 %: %{{customdata[4]}}<br>%{{customdata[3]}}<extra>{curve.name}</extra>",
        mode="markers+text", legendgroup=curve.name, customdata=custom, cliponaxis=False,
        text=words, textfont={"size": 10, "color": look.faint},
    )  # fmt: skip


def _words(curve: Curve, at: int) -> str:
    row = {name: curve.columns[name][at] for name in ("tp", "pp", "dp", "ep")}
    return f"{shape({**row, 'replicas': 1})} · {curve.columns['users'][at]:,.0f}"


# ------------------------------------------------------------------------------- measured


def _measured(curve: Curve, axes: tuple[Axis, Axis], color: str, look: Look) -> Trace:
    """Measured loads as diamonds; error bars show the 80 % interval predicted at that load."""
    columns = measured_columns(curve)
    x, y = axes
    xs, ys = (axis.values(columns) for axis in axes)
    trace = dots(
        xs.tolist(), ys.tolist(), f"{curve.name}: measured",
        {"symbol": "diamond", **ring(9, color, look.paper)},
        f"measured: %{{customdata}}<br>{x.words} %{{x:.4g}}, {y.words} "
        f"%{{y:,.4g}}<extra>{curve.name}</extra>",
        legendgroup=curve.name, showlegend=False,
        customdata=[
            f"{shape(load.row)} · {load.concurrency:,.0f}, {load.source}"
            for load in curve.measured
        ],
    )  # fmt: skip
    bars = _bars(curve, x, xs)
    if bars:
        trace["error_x"] = {**bars, "color": translucent(color, 0.45), "thickness": 1.2, "width": 3}
    return trace


def measured_columns(curve: Curve) -> dict[str, Array]:
    """Measured figures of the loads under the column names of `Curve.columns`, [loads]."""
    loads = curve.measured
    ttft, tpot, rate = (
        np.array([getattr(load, name) for load in loads])
        for name in ("ttft_s", "tpot_s", "output_tokens_per_s")
    )
    osl = np.array([max(round(m.osl * (1.0 + m.length_ratio) / 2.0), 1.0) for m in loads])
    devices = curve.at_measured["devices"]
    predicted = curve.at_measured["output_tokens_per_s"]
    scale = predicted / rate
    return {
        "ttft_s": ttft, "tpot_s": tpot, "interactivity": 1.0 / tpot,
        "e2e_s": ttft + (osl - 1.0) * tpot,
        "output_tokens_per_s_per_device": rate / devices,
        "usd_per_mtok": curve.at_measured["usd_per_mtok"] * scale,
        "joules_per_token": curve.at_measured["joules_per_token"] * scale,
    }  # fmt: skip


def _bars(curve: Curve, x: Axis, measured: Array) -> dict[str, object]:
    """Error bars from a measured point to the ends of the interval predicted there."""
    at = curve.at_measured
    ends = {"interactivity": (1.0 / at["tpot_high_s"], 1.0 / at["tpot_low_s"]),
            "ttft": (at["ttft_low_s"], at["ttft_high_s"])}  # fmt: skip
    if x.name not in ends or not np.isfinite(ends[x.name]).all():
        return {}
    low, high = ends[x.name]
    return error_reach(
        np.maximum(high - measured, 0.0).tolist(), np.maximum(measured - low, 0.0).tolist()
    )
