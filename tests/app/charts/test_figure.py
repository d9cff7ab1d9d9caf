"""A figure as a document: Plotly's property names, merged, and never shared by accident."""

import numpy as np
import plotly.graph_objects as go

from app.charts.figure import Figure, Trace
from app.charts.style import LIGHT, blank, template
from tests.app.charts.figures import checked


def test_keywords_name_nested_properties_as_plotly_has_it():
    ours, theirs = Figure(), go.Figure(layout={"template": "none"})
    for figure in (ours, theirs):
        figure.update_layout(title_text="a", margin={"t": 4}, legend_font_size=9)
        figure.update_layout(margin={"b": 5}, title_font={"size": 12})
        figure.update_layout(xaxis_title_text="x", xaxis_tickfont_color="#123456")
        figure.update_layout(yaxis_range=[0, 1])
        figure.add_annotation(x=1, y=2, text="here", font_size=11)
    theirs.layout.template = None
    assert ours.document() == theirs.to_dict()


def test_lines_and_shades_across_the_frame_are_plotlys():
    ours, theirs = blank(LIGHT, "", 100), go.Figure()
    line = {"color": "#123456", "width": 2}
    for figure in (ours, theirs):
        figure.add_hline(y=3.0, line=line)
        figure.add_vline(x=2.0, line=line)
    ours.add_vrect(x0=1, x1=2, fillcolor="#654321", opacity=0.5)
    theirs.add_vrect(x0=1, x1=2, fillcolor="#654321", opacity=0.5, line_width=0)
    assert checked(ours).layout.shapes == theirs.layout.shapes


def test_traces_keep_their_order_and_may_hold_arrays():
    figure = blank(LIGHT, "", 100)
    figure.add_trace(Trace(type="bar", x=np.array([1.0, 2.0]), y=["a", "b"]))
    figure.add_traces([Trace(type="scatter", x=[1], y=[np.nan])])
    first, second = checked(figure).data
    assert (first.type, list(first.x)) == ("bar", [1.0, 2.0])
    assert (second.type, list(second.y)) == ("scatter", [None])


def test_a_mapping_that_is_given_stays_as_it_was():
    given = {"type": "log", "title": {"font": {"size": 3}}}
    figure = Figure()
    figure.laid(given, given)
    figure.update_layout(xaxis_title_text="x", xaxis_title_font_size=4)
    assert given == {"type": "log", "title": {"font": {"size": 3}}}
    assert figure.layout["yaxis"] == given


def test_figures_of_a_look_share_its_template():
    assert blank(LIGHT, "a", 100).layout["template"] is template(LIGHT)
