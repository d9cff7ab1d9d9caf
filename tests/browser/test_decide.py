"""Page Plan in a browser: an answer, a click that opens a deployment, saved reports."""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.browser.conftest import SETTLED, SIMULATED

pytestmark = pytest.mark.browser

QUESTION = {"model": "Qwen/Qwen3-32B", "rate": "20", "target": "tpot < 30ms"}
DRAWN = ".js-plotly-plot .main-svg"
PARTS = (
    ("plan", "Plan"), ("plan", "Economics"), ("compare", "Frontier"), ("chip_lab", "Sensitivity"),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("width", [1400, 390])
def test_the_answer_fits_the_screen(open_page, width: int):
    page = open_page("plan", **QUESTION)
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_selector(DRAWN)
    assert page.get_by_text("Meets all targets").count()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
@pytest.mark.parametrize("systems", [["h100"], ["l40s", "h100", "h200", "b200"]], ids=len)
def test_the_plot_of_a_plan_keeps_its_height_above_the_legend_on_a_telephone(
    page, app_url, systems
):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{app_url}/plan?{urlencode({'systems': systems}, doseq=True)}")
    page.wait_for_selector(DRAWN)
    high = "document.querySelector('.js-plotly-plot')._fullLayout._size.h"
    page.wait_for_function(f"() => {high} > 0")
    assert page.evaluate(high) >= 270


@pytest.mark.slow
def test_the_rows_of_a_plan_change_by_themselves_when_they_are_simulated(open_page):
    page = open_page("plan", **{**QUESTION, "rate": "19"})
    page.get_by_text("being simulated").first.wait_for()
    assert page.get_by_text("Meets all targets").count()
    page.locator(SIMULATED).first.wait_for()
    page.get_by_text("vllm serve").or_(page.get_by_text("sglang.launch_server")).first.wait_for()
    assert not page.get_by_text("being simulated").count()


def test_a_change_of_a_target_is_in_the_answer_and_in_the_address(open_page):
    page = open_page("plan", **QUESTION)
    box = page.get_by_role("textbox", name="Targets")
    box.fill("tpot < 15ms")
    box.press("Enter")
    page.wait_for_function("() => location.search.includes('target=tpot')")
    page.wait_for_selector(SETTLED)
    page.wait_for_selector("text=/tpot < 15.0 ms/ >> visible=true")


@pytest.mark.slow
def test_a_click_on_a_point_opens_it_as_the_scenario(open_page):
    page = open_page("plan", **QUESTION)
    page.locator(SIMULATED).first.wait_for()
    page.wait_for_selector(DRAWN)
    page.locator(".js-plotly-plot").first.scroll_into_view_if_needed()
    at = page.evaluate(
        """() => {
            const chart = document.querySelector('.js-plotly-plot');
            const plans = chart.data.findIndex(trace => trace.name.startsWith('the plans'));
            const frame = chart.querySelector('.nsewdrag').getBoundingClientRect();
            const layout = chart._fullLayout, trace = chart.data[plans];
            return [frame.left + layout.xaxis.d2p(trace.x[0]),
                    frame.top + layout.yaxis.d2p(trace.y[0])];
        }"""
    )
    page.mouse.move(*at)
    time.sleep(0.5)
    page.mouse.click(*at)
    page.wait_for_selector("text=/Opened as the scenario/ >> visible=true")
    page.wait_for_function("() => location.search.includes('engine=')")


@pytest.mark.slow
def test_the_report_and_the_plan_are_saved(open_page):
    page = open_page("plan", plan_tab="Download", **QUESTION)
    with page.expect_download() as saving:
        page.get_by_role("button", name="Report (HTML)").click()
    text = Path(saving.value.path()).read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") and "<svg" in text
    with page.expect_download() as saving:
        page.get_by_role("button", name="Plan (JSON)").click()
    named = json.loads(Path(saving.value.path()).read_text(encoding="utf-8"))
    assert named["plans"][0]["tpot_s"] < 0.03


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("path", "part"), PARTS)
def test_a_page_that_decides_opens_with_a_chart(open_page, path: str, part: str):
    page = open_page(path, part=part, batch=16, engine="vllm")
    page.wait_for_selector(DRAWN)
    assert not page.get_by_test_id("stException").count()
