"""The timeline of a report: kernels of each stream as bars, ranges of the program above them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from app.charts.figure import Figure, Trace, bar
from app.charts.style import CLASS_NAMES, CLASSES, Look, blank
from app.wording import quantities
from app.wording.markdown import chart_text
from app.wording.quantities import MILLISECOND
from profilers.kernel_classes import ENGINE_CLASS

#: Bars that a browser draws with ease.
MAX_BARS = 2000
_RANGE_SHARE, _RANGE_DEPTH = 0.25, 4
_OTHER = "other"


def activity_bars(
    kernels: pd.DataFrame, copies: pd.DataFrame, most: int = MAX_BARS
) -> pd.DataFrame:
    """Device activity as at most `most` bars: lane, start_s, duration_s, class, name, events.

    Where there are more events, those with the shortest pauses between them share a bar; a bar
    has the class that takes most of its time.  Lanes beyond `most` are left out.

    kernels, copies: tables of a `Report`.
    """
    parts = [
        _activity(kernels, kernels["operator_class"].astype(object).map(ENGINE_CLASS.get), "name"),
        _activity(copies, pd.Series("copy", index=copies.index, dtype=object), "kind"),
    ]
    events = pd.concat([part for part in parts if len(part)] or parts[:1], ignore_index=True)
    events = events[events["duration_s"] > 0].sort_values(["lane", "start_s"], ignore_index=True)
    if not len(events):
        return events.assign(events=[])
    return _merged(events, _groups(events, most))[:most]


def _activity(table: pd.DataFrame, kinds: pd.Series, named: str) -> pd.DataFrame:
    timed = table["start_s"].notna() & table["duration_s"].notna()
    lanes = [
        f"GPU {device} · stream {stream}" if pd.notna(device) else "GPU"
        for device, stream in zip(table["device"][timed], table["stream"][timed], strict=True)
    ]
    return pd.DataFrame(
        {
            "lane": lanes,
            "start_s": table["start_s"][timed].to_numpy(),
            "duration_s": table["duration_s"][timed].to_numpy(),
            "class": kinds[timed].fillna(_OTHER).to_numpy(),
            "name": table[named][timed].astype(object).fillna("unnamed").to_numpy(),
        }
    )


def _groups(events: pd.DataFrame, most: int) -> NDArray[np.int64]:
    """The number of each event's bar, [events]; the longest pauses part two bars."""
    lane = events["lane"].to_numpy()
    start, end = events["start_s"].to_numpy(), (events["start_s"] + events["duration_s"]).to_numpy()
    other = np.r_[True, lane[1:] != lane[:-1]]
    pause = np.r_[np.inf, start[1:] - end[:-1]]
    pause[other] = np.inf
    parted = np.zeros(len(events), dtype=bool)
    parted[np.argsort(-pause, kind="stable")[:most]] = True
    return np.cumsum(parted | other) - 1


def _merged(events: pd.DataFrame, group: NDArray[np.int64]) -> pd.DataFrame:
    end = (events["start_s"] + events["duration_s"]).groupby(group).max()
    grouped = events.groupby(group)
    spent = events.groupby([group, events["class"]])["duration_s"].sum()
    longest = spent.groupby(level=0).idxmax().map(lambda key: key[1])
    table = grouped.agg(
        lane=("lane", "first"), start_s=("start_s", "min"), name=("name", "first"),
        events=("name", "size"),
    )  # fmt: skip
    table["duration_s"] = end - table["start_s"]
    table["class"] = longest
    many = table["events"] > 1
    table.loc[many, "name"] = table.loc[many, "events"].map(lambda n: f"{n:,} events")
    return table.reset_index(drop=True)


def range_bars(ranges: pd.DataFrame, most: int = int(MAX_BARS * _RANGE_SHARE)) -> pd.DataFrame:
    """The longest ranges of the outermost levels: lane, start_s, duration_s, name."""
    timed = ranges.dropna(subset=["start_s", "duration_s"])
    depth = _depths(ranges)[timed.index.to_numpy(dtype=np.int64)] if len(timed) else []
    shown = timed.assign(depth=depth)
    shown = shown[shown["depth"] < _RANGE_DEPTH].nlargest(most, "duration_s")
    return pd.DataFrame(
        {
            "lane": [f"ranges {level + 1}" for level in shown["depth"]],
            "start_s": shown["start_s"].to_numpy(),
            "duration_s": shown["duration_s"].to_numpy(),
            "name": shown["name"].astype(object).fillna("unnamed").to_numpy(),
        }
    )


def _depths(ranges: pd.DataFrame) -> NDArray[np.int64]:
    """The number of ranges around each, [ranges], counted up to the depth that is drawn."""
    parent = ranges["parent"].fillna(-1).to_numpy(dtype=np.int64)
    at, depth = parent.copy(), np.zeros(len(parent), dtype=np.int64)
    for _ in range(_RANGE_DEPTH):
        inside = at >= 0
        depth += inside
        at = np.where(inside, parent[at], -1)
    return depth


def timeline(activity: pd.DataFrame, ranges: pd.DataFrame, look: Look) -> Figure:
    """The rows of `activity_bars` under those of `range_bars`, an operator class a colour."""
    lanes = [*sorted(set(ranges["lane"])), *sorted(set(activity["lane"]))]
    figure = blank(look, "", 130 + 46 * max(len(lanes), 2))
    if len(ranges):
        figure.add_trace(_trace(ranges, "Ranges", look.rest, look))
    for kind, words, color in _kinds(look):
        of_class = activity[activity["class"] == kind]
        if len(of_class):
            figure.add_trace(_trace(of_class, words, color, look))
    figure.update_xaxes(title_text="Time since the first event [ms]", tickformat="~g")
    figure.update_yaxes(
        categoryorder="array", categoryarray=lanes[::-1], showgrid=False, tickfont_color=look.ink
    )
    figure.update_layout(
        barmode="overlay", bargap=0.25, uirevision="keep", hovermode="closest",
        margin={"t": 12, "b": 96}, dragmode="pan",
    )  # fmt: skip
    return figure


def _kinds(look: Look) -> Iterator[tuple[str, str, str]]:
    for name in CLASSES:
        yield name, CLASS_NAMES[name], look.class_color(name)
    yield "copy", "Copies and sets", look.ink
    yield _OTHER, "Unclassified", look.faint


def _trace(rows: pd.DataFrame, words: str, color: str, look: Look) -> Trace:
    spans = [
        [_short(str(name)), quantities.seconds(float(length))]
        for name, length in zip(rows["name"], rows["duration_s"], strict=True)
    ]
    return bar(
        y=rows["lane"].tolist(),
        x=(rows["duration_s"] / MILLISECOND).tolist(),
        base=(rows["start_s"] / MILLISECOND).tolist(),
        orientation="h",
        name=words,
        marker={"color": color, "line": {"width": 0}},
        customdata=spans,
        hovertemplate="%{customdata[0]}<br>%{customdata[1]} from %{base:.4g} ms<extra>"
        + words
        + "</extra>",
    )


def _short(name: str) -> str:
    """A name for a hover: cut to 90 characters, its markup escaped."""
    return chart_text(name if len(name) <= 90 else name[:89] + "…")
