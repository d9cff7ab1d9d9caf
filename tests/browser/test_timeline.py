"""The timeline in a browser: a bar, a dragged span or a gap becomes the selection."""

import pytest

from tests.browser.test_reports import settled, try_sample

pytestmark = pytest.mark.browser

CHART = ".st-key-timeline .js-plotly-plot"
RANGE = f"""() => document.querySelector('{CHART}')._fullLayout.xaxis.range"""
NARROWER = f"""width => {{
    const chart = document.querySelector('{CHART}');
    if (!chart) return false;
    const [a, b] = chart._fullLayout.xaxis.range;
    return b - a < width;
}}"""


def plot_area(page) -> dict:
    page.locator(CHART).scroll_into_view_if_needed()
    return page.locator(f"{CHART} .nsewdrag").bounding_box()


def width(page) -> float:
    first, last = page.evaluate(RANGE)
    return last - first


@pytest.mark.slow
def test_a_click_on_a_bar_zooms_to_it(open_page):
    page = open_page("upload")
    try_sample(page)
    page.wait_for_selector(CHART)
    before, area = width(page), plot_area(page)
    at = area["x"] + area["width"] / 2, area["y"] + area["height"] * 5 / 6
    page.mouse.move(*at)
    page.wait_for_selector(".hoverlayer .hovertext")
    page.mouse.click(*at)
    page.wait_for_function(NARROWER, arg=before / 20)


@pytest.mark.slow
def test_a_dragged_span_has_figures_of_its_own_and_can_be_zoomed_to(open_page):
    page = open_page("upload")
    try_sample(page)
    page.wait_for_selector(CHART)
    before, area = width(page), plot_area(page)
    high = area["y"] + area["height"] / 2
    page.locator(f"{CHART} [data-val=select]").click()
    page.mouse.move(area["x"] + area["width"] * 0.3, high)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] * 0.4, high, steps=5)
    page.mouse.up()
    page.wait_for_selector("text=Selection >> visible=true")
    settled(page)
    page.get_by_role("button", name="Zoom to selection").click()
    page.wait_for_function(NARROWER, arg=before / 9)
    assert width(page) == pytest.approx(before / 10, rel=0.05)


def test_a_gap_of_the_list_is_zoomed_to(open_page):
    page = open_page("upload")
    try_sample(page)
    page.wait_for_selector(CHART)
    before = width(page)
    page.get_by_text("Longest gaps").click()
    table = page.locator(".st-key-timeline_gaps canvas").first
    table.scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    table.click(position={"x": 15, "y": 52}, force=True)
    page.wait_for_function(NARROWER, arg=before / 10)
