"""Results of benchmarks on page Upload, in a real browser."""

import pytest

from tests.browser.conftest import settled

SAMPLE = '[class*="upload_samples"] [data-testid="stButtonGroup"] button'


def predicted(page) -> None:
    """The first sample beside its prediction."""
    page.locator(SAMPLE, has_text="SGLang, six loads").click()
    settled(page)
    page.get_by_role("button", name="Predict").click()
    page.wait_for_selector(".js-plotly-plot .main-svg")
    settled(page)


@pytest.mark.slow
def test_a_sample_is_drawn_on_its_curve(open_page):
    page = open_page("upload", model="meta-llama/Llama-3.1-405B", system="h200-sxm-141gb", tp=8)
    predicted(page)
    assert page.locator(".js-plotly-plot").count() == 2
    points = ".js-plotly-plot:first-of-type .scatterlayer .point"
    assert page.locator(points).count() >= 4
    page.get_by_role("radio", name="Figures").click()
    page.wait_for_selector('[data-testid="stDataFrame"]')


@pytest.mark.slow
def test_the_page_fits_a_phone(open_page, page):
    page.set_viewport_size({"width": 390, "height": 844})
    open_page("upload", model="meta-llama/Llama-3.1-405B", system="h200-sxm-141gb", tp=8)
    predicted(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not page.locator('[data-testid="stException"]').count()
