"""The link in the sidebar: one click copies an address that opens the same page elsewhere."""

from tests.browser.conftest import SETTLED


def figures(page) -> list[str]:
    """The cards of the page once it is drawn."""
    page.wait_for_selector('[data-testid="stMetricValue"]')
    page.wait_for_selector(SETTLED)
    return page.locator('[data-testid="stMetricValue"]').all_text_contents()


def test_one_click_copies_a_link_that_opens_the_same_view(page, app_url: str):
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=app_url)
    page.goto(f"{app_url}/explain?part=Memory&batch=16&isl=512")
    shown = figures(page)
    page.get_by_text("Pins and link").click()
    button = page.locator(".st-key-copy_link button")
    button.wait_for(state="visible")
    page.wait_for_timeout(1500)  # the expander ends its movement, and the page its run
    page.wait_for_selector(SETTLED)
    button.click()
    page.wait_for_timeout(300)
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{app_url}/explain?") and "batch=16" in link and "isl=512" in link
    page.goto("about:blank")
    page.goto(link)
    assert figures(page) == shown


def test_the_button_is_seen_before_a_pointer_is_over_it(open_page):
    page = open_page("explain")
    page.get_by_text("Pins and link").click()
    button = page.locator(".st-key-copy_link button")
    button.wait_for(state="visible")
    opacity = "one => { let all = 1; for (; one; one = one.parentElement)" \
        " all *= getComputedStyle(one).opacity; return all }"  # fmt: skip
    assert button.evaluate(opacity) == 1


def test_the_address_of_a_first_visit_says_only_what_was_asked(open_page):
    page = open_page("")
    load = page.get_by_label("Load", exact=True)
    load.fill("batch 16")
    load.press("Enter")
    page.wait_for_function("() => location.search.includes('batch=16')")
    assert "engine" not in page.url
