"""Page Compare, part Frontier, in a browser: a click on a point opens its deployment."""

from __future__ import annotations

import pytest

from tests.browser.conftest import SETTLED

pytestmark = pytest.mark.browser

DRAWN = ".js-plotly-plot .main-svg"
#: Screen position of the point with a number, on the trace with text.
PLACE = """number => {
    const chart = document.querySelector('.js-plotly-plot');
    const points = chart.data.find(trace => trace.mode === 'markers+text');
    const frame = chart.querySelector('.nsewdrag').getBoundingClientRect();
    const layout = chart._fullLayout;
    return [frame.left + layout.xaxis.d2p(points.x[number]),
            frame.top + layout.yaxis.d2p(points.y[number])];
}"""
DEGREES = """number => document.querySelector('.js-plotly-plot').data
    .find(trace => trace.mode === 'markers+text').customdata[number][2]"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 390])
def test_a_click_on_a_frontier_opens_the_point_as_the_scenario(open_page, width: int):
    page = open_page("compare", model="Qwen/Qwen3-32B", engine="vllm")
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_selector(DRAWN)
    page.locator(".js-plotly-plot").first.scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    words, place = page.evaluate(DEGREES, 0), page.evaluate(PLACE, 0)
    page.mouse.move(*place)
    page.wait_for_timeout(500)
    page.mouse.click(*place)
    page.wait_for_selector("text=/Opened as the scenario/ >> visible=true")
    page.wait_for_selector(SETTLED)
    users = words.partition(" · ")[2].replace(",", "")
    page.wait_for_function(f"() => location.search.includes('batch={users}')")
