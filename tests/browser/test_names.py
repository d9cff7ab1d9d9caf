"""Typing into the sidebar's boxes, and near names that are clicked, in a real browser."""

SETTLED = '[data-testid="stApp"][data-test-script-state="notRunning"]'


def test_what_is_typed_and_entered_takes_the_first_match(open_page):
    page = open_page("")
    box = page.locator('.st-key-model input[role="combobox"]')
    box.click()
    box.fill("deepseek")
    box.press("Enter")
    page.wait_for_selector("h1:has-text('deepseek-ai/')")
    assert not page.locator('[data-testid="stAlert"]').count()


def test_a_near_name_is_a_click_away(open_page):
    page = open_page("", system="h1000")
    page.wait_for_selector('[data-testid="stAlert"]')
    page.locator('[class*="st-key-near_"] button').first.click()
    page.wait_for_selector('[data-testid="stMetricValue"]')


def test_every_page_has_its_title_in_the_browser(open_page):
    assert open_page("").title() == "Overview · Ridgeline"
    assert open_page("roofline").title() == "Roofline · Ridgeline"
