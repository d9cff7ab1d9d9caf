"""Typing into the sidebar's boxes, and clicking close matches, in a real browser."""

import pytest

from tests.browser.conftest import SETTLED


@pytest.mark.slow
def test_a_typed_model_is_the_checkpoint_of_that_name(open_page):
    page = open_page("")
    box = page.locator('.st-key-model input[role="combobox"]')
    box.click()
    box.fill("Qwen3-235B-A22B")
    box.press("Enter")
    page.wait_for_function(
        "() => document.querySelector('.st-key-model input').value === 'Qwen/Qwen3-235B-A22B'"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "query", "key"),
    [
        ("plan", {"devices": "1:8"}, "systems"),
        ("compare", {"compare_by": "Systems", "devices": "1:8"}, "systems"),
    ],
)
def test_a_bare_name_is_its_default_board(open_page, path: str, query: dict[str, str], key: str):
    page = open_page(path, **query)
    page.get_by_role("button", name="Choose").click()
    box = page.locator(f'.st-key-{key} input[role="combobox"]')
    for typed, taken in (("H200", "h200-sxm-141gb"), ("A100", "a100-sxm4-80gb")):
        box.click()
        box.press_sequentially(typed, delay=80)  # [ms], as one types
        box.press("Enter")
        page.wait_for_selector(f'.st-key-{key} [data-tag]:has-text("{taken}")')
        page.wait_for_timeout(300)  # the rerun that the name starts, which redraws the box
        page.wait_for_selector(SETTLED)
    assert page.locator(f".st-key-{key} [data-tag]").count() == 2


def test_a_near_name_is_a_click_away(open_page):
    page = open_page("", system="h1000")
    page.wait_for_selector('[data-testid="stAlert"]')
    page.locator('[class*="st-key-near_"] button').first.click()
    page.wait_for_selector('[data-testid="stMetricValue"]')


@pytest.mark.slow
def test_every_page_has_its_title_in_the_browser(open_page):
    assert open_page("").title() == "Answer · Ridgeline"
    assert open_page("explain").title() == "Explain · Ridgeline"
