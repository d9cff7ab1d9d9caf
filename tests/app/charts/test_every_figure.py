"""What holds for every figure: its whole look, a page without a network, units on its axes."""

import copy
from pathlib import Path

import pytest

from app.charts import breakdown, style
from app.dashboard import export
from tests.app.charts.figures import CAUSES, NAMES, WHOLE, both_looks, drawn, figure
from tests.rules import for_every


@both_looks
@pytest.mark.parametrize("name", NAMES)
def test_a_figure_carries_its_whole_look(name: str, look: style.Look):
    layout = drawn(name, look).layout.template.layout
    assert layout.paper_bgcolor == layout.plot_bgcolor == look.paper
    assert layout.font.color == look.ink
    assert tuple(layout.colorway) == look.classes


@both_looks
@pytest.mark.parametrize("name", NAMES)
def test_on_a_page_a_figure_states_its_look_without_a_template(name: str, look: style.Look):
    stated, layout = figure(name, look).layout, figure(name, look).drawn_once()["layout"]
    assert "template" not in layout and layout["datarevision"] == 1
    assert (layout["paper_bgcolor"], layout["font"]["color"]) == (look.paper, look.ink)
    for axis in (name for name in layout if name[1:5] == "axis"):
        assert layout[axis]["automargin"] is True and layout[axis]["gridcolor"] == look.grid
    assert layout["margin"] == {**style.template(look)["layout"]["margin"], **stated["margin"]}


@for_every(NAMES)
def test_a_look_stays_as_it_was_when_a_figure_is_drawn(name: str):
    before = copy.deepcopy(style.template(style.LIGHT))
    figure(name).drawn_once()["layout"]["font"]["color"] = "#000000"
    assert style.template(style.LIGHT) == before


#: Plotly draws the box of a title this much above its padding, and this high [px].
_ABOVE, _TITLE = 4, 20


@for_every(NAMES)
def test_a_title_stands_below_the_buttons_and_above_the_plot(name: str):
    layout = figure(name).drawn_once()["layout"]
    if layout["title"].get("text"):
        begins = layout["title"]["pad"]["t"] - _ABOVE
        assert begins >= style.BUTTONS and layout["margin"]["t"] >= begins + _TITLE


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_exports_as_a_page_that_needs_no_network(name: str):
    page = export.html(figure(name), name)
    assert "cdn.plot.ly" not in page.partition("</script>")[0]
    assert 'src="http' not in page
    assert f"<title>Ridgeline: {name}</title>" in page


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"icicle"}))
def test_every_axis_with_numbers_names_its_unit(name: str):
    read = drawn(name)
    axes = [*read.select_xaxes(), *read.select_yaxes()]
    numeric = [axis for axis in axes if axis.tickformat or axis.type == "log"]
    assert numeric
    for axis in numeric:
        assert "[" in axis.title.text or axis.tickformat.endswith("%")


@pytest.mark.skipif(not export.can_draw(), reason="no kaleido, or no browser to draw with")
def test_an_svg_drawn_on_the_server_has_the_colours_of_paper():
    image = export.image(breakdown.waterfall(CAUSES, WHOLE, "Decode", style.DARK), "svg").decode()
    assert "<svg" in image
    assert "rgb(20, 89, 194)" in image  # the light palette's colour of compute
    assert "rgb(255, 255, 255)" in image and "rgb(17, 22, 29)" not in image


def test_no_chart_needs_webgl():
    """The pages' Content Security Policy forbids the shaders of WebGL."""
    charts = Path(style.__file__).parent.glob("*.py")
    assert not [path.name for path in charts if "scattergl" in path.read_text(encoding="utf-8")]
