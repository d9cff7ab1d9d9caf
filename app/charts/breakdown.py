"""Breakdown of the time of a step: bars by operator class and by cause, waterfall, icicle."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from app.charts.figure import Figure, Trace
from app.charts.labels import axis_end, height_for
from app.charts.parts import BESIDE, dots, inside, interval_reach, lay_bars, lying_bars, time_bars
from app.charts.style import KIND_NAMES, PART_NAMES, PARTS, Look, blank, room_for
from app.scenario.intervals import Ranged
from app.scenario.operator_intervals import of_rows
from app.wording import quantities
from app.wording.quantities import MILLISECOND

Table = Mapping[str, Sequence[Any]]
Latencies = Mapping[str, Ranged]
_ENDS = "outside the layers"


def time_by_class(steps: Mapping[str, Latencies], totals: Latencies, look: Look) -> Figure:
    """Stacked bars of time shares, one bar per step, one colour per operator class.

    steps: the latency of each by class, which sum to it; "host" holds host and pipeline time.
    totals: each step with its interval.  Steps differ by orders of magnitude, so bars show shares.
    """
    title = "Time by operator class"
    return _shares(title, steps, totals, KIND_NAMES, look.class_color, look)


def time_by_cause(
    parts: Mapping[str, Mapping[str, float]], totals: Latencies, look: Look
) -> Figure:
    """Stacked bars of time shares, one bar per step, one colour per cause of `PARTS`.

    parts: seconds by cause for each step.  totals: each step with its interval.  Causes have no
    intervals: they split a prediction and cannot be measured separately.
    """
    steps = {step: {part: Ranged(s) for part, s in causes.items()}
             for step, causes in parts.items()}  # fmt: skip
    return _shares("Time by cause", steps, totals, PART_NAMES, look.part_color, look)


def _shares(
    title: str, steps: Mapping[str, Latencies], totals: Latencies, names: Mapping[str, str],
    color: Callable[[str], str], look: Look,
) -> Figure:  # fmt: skip
    """Stacked bars of the shares of steps; names, color: of their parts."""
    labels = [bar_label(name, total) for name, total in totals.items()]
    tables, units = [steps[step] for step in totals], [one.value for one in totals.values()]
    traces = list(stacked_bars(labels, tables, units, names, color, " (%{x:.1%})"))
    figure = blank(look, title, max(200 + 76 * len(totals), height_for(len(traces))))
    for trace in traces:
        words = [quantities.percent(share) if share >= 0.06 else "" for share in trace["x"]]
        figure.add_trace(trace | inside(words, trace["marker"]["color"], look))
    lines = math.ceil(len(figure.data) / 2)  # of a legend with two columns
    lay_bars(
        figure, look, "Share of the step", bottom=72 + 18 * lines, left=room_for(labels),
        tickformat=".0%", range=[0, 1], tick0=0, dtick=0.25,
    )  # fmt: skip
    figure.update_layout(margin={"r": 28}, uniformtext={"minsize": 11, "mode": "hide"})
    return figure


def stacked_bars(
    labels: Sequence[str], tables: Sequence[Latencies], units: Sequence[float],
    names: Mapping[str, str], color: Callable[[str], str], beside: str = "",
) -> Iterator[Trace]:  # fmt: skip
    """Horizontal bars of the parts of steps, the parts that take no time left out.

    tables: for each bar its latencies by part.  units: seconds that correspond to one in each bar.
    beside: template of what the hover tells beside the time.
    """
    for part, name in names.items():
        values = [table.get(part, Ranged(0.0)) for table in tables]
        if any(value.value for value in values):
            yield lying_bars(
                labels,
                [value.value / unit for value, unit in zip(values, units, strict=True)],
                name,
                color(part),
                f"<b>{name}</b>: %{{customdata[0]}}{beside}<br>80 %: %{{customdata[1]}}"
                "<extra></extra>",
                customdata=[[quantities.seconds(value.value), value.trust] for value in values],
            )


def bar_label(name: str, total: Ranged) -> str:
    """The label of a bar: name, time and interval."""
    return f"{name} <b>{quantities.seconds(total.value)}</b><br>80 %: {total.trust}"


def waterfall(parts: Mapping[str, float], whole: Ranged, title: str, look: Look) -> Figure:
    """A horizontal waterfall from compute time to the whole latency, one bar per cause.

    The whole has an error bar.  Horizontal bars keep names and times legible at any width.

    parts: seconds by cause of `PARTS` that sum to `whole`.
    """
    kept = [part for part in PARTS if parts.get(part)]
    total, last = whole.value, bar_label("Total", whole)
    names = [*(PART_NAMES[part] for part in kept), last]
    times = [parts[part] for part in kept]
    ends = list(accumulate(times))
    words = [quantities.seconds(seconds) for seconds in times]
    shares = [f"{w} ({quantities.percent(s / total)})" for w, s in zip(words, times, strict=True)]
    figure = blank(look, title, 100 + 36 * len(names))
    figure.add_trace(
        time_bars(
            names, [*times, total], "", look.faint,
            base=[*((end - s) / MILLISECOND for end, s in zip(ends, times, strict=True)), 0.0],
            marker={"color": [*map(look.part_color, kept), look.faint]}, text=[*words, ""],
            **BESIDE, hovertemplate="%{y}: %{customdata}<extra></extra>", showlegend=False,
            customdata=[*shares, f"80 %: {whole.trust}"],
        )
    )  # fmt: skip
    figure.add_trace(error_bars({last: whole}, look))
    beside = [(s / MILLISECOND, w) for s, w in zip(ends, words, strict=True)]
    end = max(axis_end([*beside, (total / MILLISECOND, "")]), 1.05 * bar_end_s(whole) / MILLISECOND)
    return lay_bars(figure, look, "Time [ms]", bottom=58, left=room_for(names), range=[0, end])


def icicle(table: Table, title: str, look: Look) -> Figure:
    """An icicle of the model, its layer groups and their operators; width is predicted time.

    table: of `app.scenario.operator_intervals.operator_table`.
    """
    ids, labels, parents, latencies, colors = zip(*_tree(table, title, look), strict=True)
    figure = blank(look, "", 420)
    trace = Trace(
        type="icicle",
        ids=ids,
        labels=labels,
        parents=parents,
        values=[latency.value for latency in latencies],
        branchvalues="total",
        marker={"colors": colors, "line": {"color": look.paper, "width": 1}},
        textfont={"color": [look.on(color) for color in colors]},
        tiling={"orientation": "v"},
        pathbar={"visible": False},
        leaf={"opacity": 1.0},
        texttemplate="%{label}<br>%{percentRoot:.0%}",
        customdata=[[quantities.seconds(latency.value), latency.trust] for latency in latencies],
        hovertemplate="<b>%{label}</b><br>%{customdata[0]}, %{percentRoot:.1%}<br>"
        "80 %: %{customdata[1]}<extra></extra>",
    )
    figure.add_trace(trace)
    figure.update_layout(
        margin={"l": 0, "r": 0, "t": 8, "b": 0}, uniformtext={"minsize": 10, "mode": "hide"}
    )
    return figure


def _tree(table: Table, title: str, look: Look) -> list[tuple[str, str, str, Ranged, str]]:
    """The icicle's nodes: id, label, parent, latency, colour; without what takes no time."""
    named = zip(table["name"], table["module"], table["class"], of_rows(table), strict=True)
    rows = [
        (name, module or _ENDS, kind, latency)
        for name, module, kind, latency in named
        if latency.value
    ]
    groups: dict[str, list[Ranged]] = {}
    for _, module, _, latency in rows:
        groups.setdefault(module, []).append(latency)
    whole = Ranged.total(latency for *_, latency in rows)
    return [
        ("model", title, "", whole, look.panel),
        *((g, g, "model", Ranged.total(members), look.grid) for g, members in groups.items()),
        *(
            (f"op{at}", name, module, latency, look.class_color(kind))
            for at, (name, module, kind, latency) in enumerate(rows)
        ),
    ]


def bound_and_predicted(rows: Mapping[str, Latencies], look: Look) -> Figure:
    """One panel per latency, with horizontal bars for its bound and its prediction.

    rows: {"TTFT": {"bound": ..., "predicted": ...}, ...}; an error bar is drawn where an interval
    exists.
    Latencies differ by orders of magnitude, so every panel has its own axis.
    """
    figure = blank(look, "Speed of light and prediction", 90 + 125 * len(rows))
    figure.update_layout(grid={"rows": len(rows), "columns": 1, "pattern": "independent",
                               "ygap": 0.55})  # fmt: skip
    colors, room = {"bound": look.faint, "predicted": look.classes[0]}, 0
    for at, (name, values) in enumerate(rows.items()):
        place = str(at + 1) if at else ""
        axes = {"xaxis": f"x{place}", "yaxis": f"y{place}"}
        labels = [
            f"{name}, bound <b>{quantities.seconds(latency.value)}</b>" if kind == "bound"
            else bar_label(f"{name}, {kind}", latency) for kind, latency in values.items()
        ]  # fmt: skip
        figure.add_trace(
            time_bars(
                values, [latency.value for latency in values.values()], "", look.faint,
                marker={"color": [*map(colors.get, values)]},
                hovertemplate="%{customdata}<extra></extra>", showlegend=False, customdata=labels,
            )
            | axes
        )  # fmt: skip
        figure.add_trace(error_bars(values, look) | axes)
        end = max(map(bar_end_s, values.values())) / MILLISECOND * 1.1
        across = {"title": {"text": "Time [ms]"}, "range": [0, end], "tickformat": "~g"}
        room = max(room, room_for(labels))
        upward = {"showgrid": False, "autorange": "reversed", "tickvals": list(values)}
        upward |= {"ticktext": labels, "tickfont": {"color": look.ink}}
        figure.update_layout(**{f"xaxis{place}": across, f"yaxis{place}": upward})
    figure.update_layout(margin={"b": 58, "l": room})
    return figure


# ------------------------------------------------------------------------------- error bars


def error_bars(bars: Latencies, look: Look) -> Trace:
    """Error bars [ms] on the horizontal bars with these names; none for figures not validated."""
    validated = {name: latency for name, latency in bars.items() if not math.isnan(latency.low)}
    known = validated.values()
    times = [latency.value / MILLISECOND for latency in known]
    reach = interval_reach(known, MILLISECOND, look, 6)
    marker = {"size": 1, "color": look.ink}
    return dots(times, validated, "", marker, "", showlegend=False, error_x=reach)


def bar_end_s(latency: Ranged) -> float:
    """The upper end of a bar, error bar included [s]."""
    return latency.value if math.isnan(latency.high) else latency.high
