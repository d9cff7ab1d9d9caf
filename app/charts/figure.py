"""A Plotly figure as the plain JSON document that a browser draws.

Plotly's own classes check each property whenever one is set, which takes 20 to 40 ms per figure and
made up four fifths of a page's time.  Charts therefore write the document themselves, and their
tests validate every figure with Plotly.  Properties are Plotly's,
https://plotly.com/python/reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Trace = dict[str, Any]
_WITHOUT_AXES = ("icicle",)


class Figure:
    """Traces and a layout, with methods named after Plotly's.

    Keyword arguments may name a nested property: title_text="x" is title={"text": "x"}.
    """

    def __init__(self) -> None:
        self.data: list[Trace] = []
        self.layout: dict[str, Any] = {}

    def document(self) -> dict[str, Any]:
        """The figure as Plotly's JSON; arrays are still NumPy arrays."""
        return {"data": self.data, "layout": self.layout}

    def drawn_once(self) -> dict[str, Any]:
        """`document` in a form that the page's component draws only once.

        The component passes Plotly a copy of every figure right after the figure itself.  Plotly
        compares templates and arrays of values by identity, takes the copy for a change, and draws
        again.  To avoid this, the template's properties are copied into the layout, and all data
        get one revision number; a figure with other data is a new chart on the page.
        """
        layout = {name: value for name, value in self.layout.items() if name != "template"}
        defaults = dict(self.layout.get("template", {}).get("layout", {}))
        kinds = {axis: defaults.pop(axis, {}) for axis in ("xaxis", "yaxis")}
        defaults |= {axis: kinds[axis[:5]] for axis in self._axes()}
        whole: dict[str, Any] = {"datarevision": 1}
        _merge(whole, defaults)
        _merge(whole, layout)
        return {"data": self.data, "layout": whole}

    def _axes(self) -> set[str]:
        """Names of all axes: those described in the layout and those used by traces."""
        drawn = [trace for trace in self.data if trace["type"] not in _WITHOUT_AXES]
        named = {_axis(trace, letter) for trace in drawn for letter in "xy"}
        return named | {name for name in self.layout if name[:5] in ("xaxis", "yaxis")}

    def add_trace(self, trace: Trace) -> None:
        """Add a trace above the others."""
        self.data.append(trace)

    def add_traces(self, traces: Iterable[Trace]) -> None:
        """Add traces above the others."""
        self.data.extend(traces)

    def update_layout(self, **properties: Any) -> None:
        """Set properties of the layout; properties of a nested mapping are set one by one."""
        _merge(self.layout, _nested(properties))

    def laid(self, x: str | Mapping[str, Any], y: str | Mapping[str, Any], **layout: Any) -> Figure:
        """The figure with properties of its axes, a text being the title, and of its layout."""
        for name, axis in (("xaxis", x), ("yaxis", y)):
            layout[name] = _nested({"title_text": axis} if isinstance(axis, str) else axis)
        self.update_layout(**layout)
        return self

    def add_annotation(self, **properties: Any) -> None:
        """Add a text at x and y in axis coordinates, unless xref and yref are given."""
        self.layout.setdefault("annotations", []).append(_nested(properties))

    def add_text(self, words: str, size: int, color: str, **place: Any) -> None:
        """Add text without an arrow; size: of the font [px]; `place`: as for an annotation."""
        font = {"size": size, "color": color}
        self.add_annotation(text=words, showarrow=False, font=font, **place)

    def add_hline(self, y: float, line: Mapping[str, Any]) -> None:
        """Draw a horizontal line at y across the whole plot."""
        self._add_shape("line", line=line, x0=0, x1=1, xref="x domain", y0=y, y1=y, yref="y")

    def add_vline(self, x: float, line: Mapping[str, Any]) -> None:
        """Draw a vertical line at x across the whole plot."""
        self._add_shape("line", line=line, x0=x, x1=x, xref="x", y0=0, y1=1, yref="y domain")

    def add_vrect(self, x0: float, x1: float, **properties: Any) -> None:
        """Shade the plot from x0 to x1, without an edge."""
        edges = {"x0": x0, "x1": x1, "xref": "x", "y0": 0, "y1": 1, "yref": "y domain"}
        self._add_shape("rect", line={"width": 0}, **edges, **properties)

    def _add_shape(self, kind: str, **properties: Any) -> None:
        self.layout.setdefault("shapes", []).append({"type": kind, **properties})


def _axis(trace: Trace, letter: str) -> str:
    """Layout name of a trace's axis: "xaxis2" for a trace on "x2"."""
    return f"{letter}axis{trace.get(f'{letter}axis', letter)[1:]}"


def _nested(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Expand {"title_text": "x"} to {"title": {"text": "x"}}, at every level."""
    document: dict[str, Any] = {}
    for name, value in properties.items():
        *parents, last = name.split("_")
        place = document
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return document


def _merge(place: dict[str, Any], properties: Mapping[str, Any]) -> None:
    """Merge properties into a mapping in place, level by level; nested mappings are copied."""
    for name, value in properties.items():
        if isinstance(value, Mapping):
            _merge(place.setdefault(name, {}), value)
        else:
            place[name] = value


def faded(figure: Figure, words: str) -> None:
    """Remove the colour from a figure whose values hold only conditionally.

    `words` are appended to the title, unless they are there already.
    """
    for trace in figure.data:
        trace["opacity"] = 0.35
    title = str(figure.layout.get("title", {}).get("text", ""))
    if not title.endswith(words):
        figure.update_layout(title_text=", ".join(filter(None, (title, words))))
