"""The part Simulate in a browser: a trace is uploaded and simulated, its requests saved."""

from __future__ import annotations

import csv

import pytest

from tests.browser.conftest import SETTLED

pytestmark = pytest.mark.browser

TRACE = "arrival_s,input_tokens,output_tokens\n" + "".join(f"{i / 8},300,40\n" for i in range(80))
CHARTS = ".js-plotly-plot"


def simulate(page) -> None:
    page.get_by_role("button", name="Simulate").click()
    page.wait_for_selector("text=/80 requests in/ >> visible=true")
    page.wait_for_selector(SETTLED)


def uploaded(page) -> None:
    page.get_by_role("button", name="Simulate").wait_for()
    page.locator('.st-key-sim_trace input[type="file"]').set_input_files(
        {"name": "trace.csv", "mimeType": "text/csv", "buffer": TRACE.encode()}
    )
    page.wait_for_selector(".st-key-sim_trace >> text=trace.csv", state="attached")
    page.wait_for_selector(SETTLED)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("width", [1400, 390])
def test_a_trace_is_played_and_fits_the_screen(open_page, width: int):
    page = open_page("", part="Simulate", engine="vllm", trace="trace")
    page.set_viewport_size({"width": width, "height": 900})
    uploaded(page)
    simulate(page)
    page.wait_for_function(f"() => document.querySelectorAll('{CHARTS} .main-svg').length >= 6")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("text=Latencies").count()


@pytest.mark.slow
def test_the_requests_of_a_simulation_are_saved(open_page):
    page = open_page("", part="Simulate", engine="vllm", trace="trace")
    uploaded(page)
    simulate(page)
    with page.expect_download() as saving:
        page.get_by_role("button", name="Requests (CSV)").click()
    with open(saving.value.path(), newline="") as handle:
        rows = list(csv.DictReader(handle))
    assert len(rows) == 80 and float(rows[0]["ttft_s"]) > 0


@pytest.mark.slow
def test_the_address_keeps_the_part(open_page):
    page = open_page("")
    page.get_by_role("radio", name="Simulate").click()
    page.wait_for_function("() => location.search.includes('part=Simulate')")
    page.get_by_role("button", name="Simulate").wait_for()
