"""The pages of measurements, in a real browser."""

import gzip
import json
from pathlib import Path

import pytest

from tests.browser.conftest import settled

SAMPLES = Path(__file__).parents[2] / "app" / "samples"
SAMPLE = '[class*="_samples"] [data-testid="stButtonGroup"] button'
BARS = ".js-plotly-plot .barlayer .point"


def try_sample(page, at: int = 0) -> None:
    page.locator(SAMPLE).nth(at).click()
    page.wait_for_selector(".js-plotly-plot .main-svg")
    settled(page)


def launches(page) -> str:
    """The card with a report's number of kernel launches."""
    card = page.locator('[data-testid="stMetric"]', has_text="Kernel launches")
    return card.locator('[data-testid="stMetricValue"]').inner_text()


@pytest.mark.slow
def test_a_sample_is_drawn_with_at_most_two_thousand_bars(open_page):
    page = open_page("upload")
    try_sample(page)
    page.wait_for_function(f"() => document.querySelectorAll('{BARS}').length > 500")
    assert 1000 < page.locator(BARS).count() <= 2000
    assert launches(page) == "1,465"


@pytest.mark.slow
def test_the_trace_for_perfetto_is_saved_and_holds_the_kernels(open_page, tmp_path: Path):
    page = open_page("upload")
    try_sample(page)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Open in Perfetto").click()
    saved.value.save_as(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(event["cat"] == "kernel" for event in events) == 1465


@pytest.mark.slow
def test_a_whole_and_a_cut_upload_end_in_a_page_and_a_sentence(open_page):
    page = open_page("upload")
    whole = (SAMPLES / "mi300x_qwen3-8b_decode_sglang.json.gz").read_bytes()
    text = gzip.decompress(whole)
    page.locator("input[type=file][multiple]").set_input_files(
        [
            {"name": "whole.gz", "mimeType": "application/gzip", "buffer": whole},
            {"name": "half.json", "mimeType": "text/plain", "buffer": text[:40]},
        ]
    )
    page.wait_for_selector("text=half.json:")
    page.wait_for_selector(".js-plotly-plot .main-svg")
    assert launches(page) == "555"


@pytest.mark.by_day(1)
@pytest.mark.parametrize("path", ["upload", "measured", "measure", "calibrate"])
def test_a_page_fits_a_phone(open_page, page, path: str):
    page.set_viewport_size({"width": 390, "height": 844})
    open_page(path)
    if path in ("upload", "measured"):
        try_sample(page, 1)
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 390
    assert not page.locator('[data-testid="stException"]').count()


@pytest.mark.slow
def test_predicted_beside_measured_draws_three_bars_and_the_parity(open_page):
    page = open_page("measured", model="Qwen/Qwen3-8B", system="mi300x", engine="generic", batch=32)
    try_sample(page, 1)
    page.wait_for_selector("text=Operators, predicted against measured")
    assert page.locator(".js-plotly-plot").count() == 3
    page.wait_for_selector("text=/Attention in decode reaches/")
