"""The frontiers of systems, engines, formats or models on two axes, and each at one speed."""

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np
import streamlit as st

from app.answers.columns import COLUMNS
from app.charts import frontiers as charts
from app.dashboard import export, open_point, own_definitions, search_form, sidebar, strip
from app.dashboard.page_texts import page_text
from app.dashboard.panels import compare_by
from app.dashboard.plan_answers import frontier_curves
from app.dashboard.widgets import draw_table, follow, slide
from app.decide import comparison, frontiers
from app.decide.axes import ACROSS, UPWARDS, Axis, guides
from app.decide.frontiers import Curve
from app.decide.measured_loads import BASES, apart, measured_loads, nearest
from app.decide.plan_query import Searched, Several
from app.planning.plan_text import shape
from app.planning.space import DEGREES
from app.planning.targets import parse_targets
from app.question.question import LOADS
from app.scenario.setup import Setup
from app.wording import quantities
from app.wording.markdown import plain

#: Default and largest speed of each user in tokens per second, unless a target states one.
_USUAL, _FASTEST = 40, 500
#: Parameters whose values are separate curves; and axes with one question per value.
_CURVES = ("system", "engine", "weights")
_OWN_QUESTION = ("model", "engine_version", "use")


def show(setup: Setup) -> None:
    """Draw a curve for every compared deployment, at the slider's speed."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        axis = compare_by.chosen_axis()
        search_form.opener()
        across, upwards = search_form.chosen_axes("frontier")
    with sidebar.stopping():
        targets = parse_targets(", ".join(setup.scenario.target))
        names = compare_by.compared(axis, setup)
        many = _asked(axis, names, setup)
        _say(axis, names, many[0][1], setup)
        found = frontier_curves(many)
    if found is None:
        return
    curves, left_out = found
    x, y = ACROSS[across], UPWARDS[upwards]
    if any(curve.vertices(x, y).size for curve in curves):
        _curves(curves, (x, y), targets, setup)
    else:
        st.warning(page_text("no frontier"), icon=":material/block:")
    for left in left_out:
        st.caption(f"Left out: {plain(left.what)}: {plain(left.why)}")


def _say(axis: str, names: Sequence[str], first: Searched, setup: Setup) -> None:
    """Write the comparison into the strip: the first question with the names on the axis."""
    several = {name: values for name, values in first.several if any(values)}
    several |= {axis: tuple(names)}
    asked = setup.scenario
    shown = {name: getattr(asked, name) for name in (*LOADS, "pools")}
    question = replace(first.setup.scenario, **shown)
    strip.say(question, "plan", several, ("tp",), idle=LOADS, lead="Compare")


def _asked(axis: str, names: Sequence[str], setup: Setup) -> Several:
    """The questions whose curves are drawn: one with several values, or one for each."""
    space = search_form.space()
    among: dict[str, tuple[Any, ...]] = {"engine": (setup.scenario.engine,)}
    among |= {n: v for n, v in space.among.items() if n in _CURVES}
    question = search_form.kept(setup.scenario, (*_CURVES, axis))
    if axis in _OWN_QUESTION:
        base = replace(setup, scenario=question)
        each = comparison.setups(base, axis, names)
    else:
        among[axis] = tuple(names)
        each = {"": replace(setup, scenario=question)}
    if among["engine"] != (question.engine,):  # a release of one engine is not one of another
        each = {n: replace(one, scenario=replace(one.scenario, engine_version=""))
                for n, one in each.items()}  # fmt: skip
    asked = []
    for name, one in each.items():
        every = replace(search_form.every_load(one.scenario), devices=space.numbers["devices"])
        attached = own_definitions.attach(replace(one, scenario=every))
        asked.append((name, Searched(attached, tuple(among.items()), search_form.own_systems())))
    return tuple(asked)


@st.fragment
def _curves(curves: Sequence[Curve], axes: tuple[Axis, Axis], targets: Any, setup: Setup) -> None:
    open_point.draw_opened()
    x, y = axes
    with sidebar.stopping():
        speed = _speed(targets)
    lines = guides(targets, x)
    # through a target with that speed
    marked = any(abs(at / speed - 1.0) < 0.05 for at, _ in lines)
    if x.name == "interactivity" and not marked:
        lines = [*lines, (float(speed), f"{speed} tok/s for each user")]
    figure = charts.frontiers(curves, axes, (lines, guides(targets, y)), export.look())
    key = f"frontiers-{x.name}-{y.name}"
    export.chart(figure, key, clicked=lambda: _opened(key, curves))
    measured = any(curve.measured for curve in curves)
    diamonds = page_text("measured diamonds") if measured else page_text("no diamonds")
    points = page_text("frontiers", points=sum(map(len, curves)), diamonds=diamonds)
    st.caption(f"{open_point.opened_words()}{points}")
    _at_speed(curves, float(speed), y)
    rows = [row for curve in curves for row in _vertices(curve, axes)]
    with st.expander("All points of the frontiers", icon=":material/table:"):
        draw_table(rows, "frontier_table", height="auto")
    export.downloads("frontiers", {"frontiers": figure}, rows, setup, of_setup=False)


def _speed(targets: Any) -> int:
    """Draw the slider of the speed; returns tokens per second of each user."""
    asked = [place for place, _ in guides(targets, ACROSS["interactivity"])]
    usual = min(max(round(asked[0]), 1), _FASTEST) if asked else _USUAL
    follow("speed", usual)
    words, meaning = "Minimum tokens/s per user", page_text("minimum speed")
    return int(slide(words, 1, _FASTEST, usual, "speed", help=meaning))


def _at_speed(curves: Sequence[Curve], speed: float, y: Axis) -> None:
    """Draw the table of each curve's best deployment at a speed, the best first."""
    found = [(curve, frontiers.at_speed(curve, speed, y)) for curve in curves]
    held = [(curve, row, frontiers.reach(row, y)) for curve, row in found if row]
    held.sort(key=lambda one: one[2][0], reverse=not y.smaller)
    known = [at for at, (_, row, _) in enumerate(held) if frontiers.is_validated(row)]
    rows = [
        _row(curve, row, value, y, star=len(held) > 1 and at == (known or [-1])[0])
        for at, (curve, row, value) in enumerate(held)
    ]
    rows += [
        {"deployment": curve.name, y.words: "not this fast"} for curve, row in found if not row
    ]
    draw_table(rows, "speed_table")
    st.caption(page_text("at one speed", speed=speed))


def _row(
    curve: Curve, row: dict[str, float], value: tuple[float, float, float], y: Axis, *, star: bool
) -> dict[str, Any]:
    low, high = frontiers.speed_reach(row)
    degrees = np.array([row[name] for name in DEGREES])
    q = curve.family.question
    lengths = (q.isl, q.osl)
    run = nearest(measured_loads(curve.family), degrees, row["users"], lengths)
    cost = row["usd_per_mtok"]
    return {
        "deployment": f"{'★ ' if star else ''}{curve.name}",
        "runs as": f"{shape({**row, 'replicas': 1})} · {row['users']:,.0f} users",
        y.words: _trusted(value, y.shown),
        "tok/s per user": _trusted((row["interactivity"], low, high), quantities.digits),
        COLUMNS["ttft_s"].head: _trusted(
            (row["ttft_s"], row["ttft_low_s"], row["ttft_high_s"]), quantities.seconds
        ),
        COLUMNS["usd_per_mtok"].head: quantities.dollars(cost) if isfinite(cost) else None,
        "nearest measured run": f"{apart(run, degrees, row['users'], lengths)} ({run.source})"
        if run else "none",
    }  # fmt: skip


def _trusted(value: tuple[float, float, float], words: Any) -> str:
    shown, low, high = value
    if not isfinite(low):
        return f"{words(shown)} (not validated)"
    return f"{words(shown)} [{words(low)} – {words(high)}]"


def _vertices(curve: Curve, axes: tuple[Axis, Axis]) -> list[dict[str, Any]]:
    columns = curve.columns
    return [
        {
            "deployment": curve.name,
            "degrees": shape({**{n: columns[n][at] for n in DEGREES}, "replicas": 1}),
            "users": columns["users"][at],
            **{axis.words: axis.values(columns)[at] for axis in axes},
            **{COLUMNS[n].title: columns[n][at] for n in ("ttft_s", "tpot_s")},
            "measurements": BASES[int(curve.basis[at])],
        }
        for at in curve.vertices(*axes)
    ]


def _opened(key: str, curves: Sequence[Curve]) -> None:
    """Put the clicked point into the sidebar; a callback."""
    custom = open_point.clicked(key)
    if len(custom) < 2 or not custom[0] < len(curves):
        return
    curve = curves[int(custom[0])]
    row = {name: float(column[int(custom[1])]) for name, column in curve.columns.items()}
    named = {**row, "engine": curve.family.resolved.engine.name, "replicas": 1.0}
    open_point.open_as_scenario(named, curve.family, search_form.own_systems())
