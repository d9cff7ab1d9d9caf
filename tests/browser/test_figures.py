"""Figures as a browser's Plotly draws them: the same on a page and in an export, and drawn once."""

import json
from collections.abc import Iterator
from typing import Any

import plotly.io
import plotly.offline
import pytest

from tests.app.charts.figures import NAMES, figure

#: Draws a figure and returns all properties that Plotly derived, with defaults.
_FULL = """figure => {
    const box = document.createElement("div");
    document.body.replaceChildren(box);
    Plotly.newPlot(box, figure.data, figure.layout);
    return Plotly.Plots.graphJson(box, false, "object", true);
}"""
#: Draws a figure, gives Plotly a copy of it, and counts how often it is redrawn.
_AGAIN = """figure => {
    const box = document.createElement("div");
    document.body.replaceChildren(box);
    Plotly.newPlot(box, figure.data, {...figure.layout, width: 700});
    let times = 0;
    box.on("plotly_beforeplot", () => { times += 1; });
    Plotly.react(box, JSON.parse(JSON.stringify({data: box.data, layout: box.layout})));
    return times;
}"""
#: Margin [px] that Plotly once added at each side of every chart, and drew it twice.
_ROOM = """() => [...document.querySelectorAll(".js-plotly-plot")].map(chart => {
    const {margin, _size} = chart._fullLayout;
    return ["l", "r", "t", "b"].map(side => _size[side] - margin[side]);
})"""


@pytest.fixture(scope="module")
def plotly_tab(browser) -> Iterator[Any]:
    """A tab that contains only Plotly."""
    tab = browser.new_page()
    tab.add_script_tag(content=plotly.offline.get_plotlyjs())
    yield tab
    tab.close()


def _plain(document: dict[str, Any]) -> dict[str, Any]:
    return json.loads(plotly.io.to_json(document, validate=False))


def _full(tab, document: dict[str, Any]) -> dict[str, Any]:
    full = tab.evaluate(_FULL, _plain(document))
    for name in ("template", "datarevision"):
        full["layout"].pop(name, None)
    for trace in full["data"]:
        del trace["uid"]  # of chance
    return {"data": full["data"], "layout": full["layout"]}


@pytest.mark.by_day(4)
@pytest.mark.parametrize("name", NAMES)
def test_a_figure_looks_on_a_page_as_in_an_export(plotly_tab, name: str):
    drawn = figure(name)
    assert _full(plotly_tab, drawn.drawn_once()) == _full(plotly_tab, drawn.document())


# Plotly changes the colours of an icicle
@pytest.mark.parametrize("name", sorted(set(NAMES) - {"icicle"}))
def test_a_copy_of_a_figure_is_not_drawn_again(plotly_tab, name: str):
    assert plotly_tab.evaluate(_AGAIN, _plain(figure(name).document())) > 0
    assert plotly_tab.evaluate(_AGAIN, _plain(figure(name).drawn_once())) == 0


@pytest.mark.by_day(1)
@pytest.mark.parametrize("path", ["", "roofline", "breakdown", "memory", "serving"])
def test_charts_state_the_room_that_their_labels_need(open_page, path: str):
    tab = open_page(path, model="Qwen/Qwen3-32B", tp=2, engine="vllm", batch=4)
    tab.wait_for_selector(".js-plotly-plot .main-svg")
    rooms = tab.evaluate(_ROOM)
    assert rooms
    for room in rooms:
        assert max(map(abs, room)) <= 1, room
