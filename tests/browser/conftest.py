"""A running dashboard, and Chromium to open it."""

import os
import shutil
from collections.abc import Callable, Iterator
from urllib.parse import urlencode

import pytest

from tests.dashboards import served

SETTLED = '[data-testid="stApp"][data-test-script-state="notRunning"]'
#: On page Plan once its plans are simulated.
SIMULATED = "text=/^Notes$/"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: Parts of pages that are not open at first, under their titles, by the page's path.
PARTS = {
    "": ("Load curves", "Simulate", "Static batch"),
    "explain": ("Breakdown", "Memory", "Model inside"),
    "compare": ("Figures", "Breakdown", "Memory"),
    "plan": ("Economics",),
    "chip_lab": ("Sensitivity", "Ridge", "Needed hardware", "Study", "Uneven experts"),
    "measure": ("Measured and predicted", "Calibrate", "Tune a server"),
    "library": ("Models", "Modules"),
}
HIDDEN = [(path, part) for path, parts in PARTS.items() for part in parts]
QUIET = (
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium() -> str | None:
    """The path of an installed Chromium or Chrome; RIDGELINE_CHROMIUM names one."""
    named = os.environ.get("RIDGELINE_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


def open_part(page) -> str:
    """The open part of a page with several parts, once the page is drawn."""
    opened = page.locator('.st-key-part [role="radio"][aria-checked="true"]')
    return opened.inner_text(timeout=20_000).strip()


def settled(page) -> None:
    """Wait until the page's script, which a click has just started, has ended."""
    page.wait_for_timeout(300)
    page.wait_for_selector(SETTLED)


@pytest.fixture(scope="package")
def app_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a dashboard that was started like `ridgeline app`."""
    if chromium() is None:
        pytest.skip("no Chromium or Chrome on this machine")
    with served(tmp_path_factory.mktemp("dashboard")) as server:
        yield server.url


@pytest.fixture(scope="package")
def browser():
    """A headless Chromium, closed after the last of these tests: playwright runs an event loop in
    this thread until then, and other tests start loops of their own.
    """
    sync_api = pytest.importorskip("playwright.sync_api")
    if chromium() is None:
        pytest.skip("no Chromium or Chrome on this machine")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def tab(browser):
    """A tab that stays open: its engine compiles the dashboard's scripts once for all tests."""
    context = browser.new_context(accept_downloads=True)
    context.set_default_timeout(90_000)  # a busy machine is slow, which is not an error
    yield context.new_page()
    context.close()


@pytest.fixture
def page(tab):
    """A cleared tab of 1400 x 900 pixels; every page in it has a new session on the server."""
    tab.set_viewport_size({"width": 1400, "height": 900})
    tab.emulate_media(color_scheme="light")
    yield tab
    tab.evaluate("() => { localStorage.clear(); sessionStorage.clear(); }")
    tab.goto("about:blank")


@pytest.fixture
def requested(page) -> Iterator[list[str]]:
    """The addresses that the page requests."""
    addresses: list[str] = []

    def note(request) -> None:
        addresses.append(request.url)

    page.on("request", note)
    yield addresses
    page.remove_listener("request", note)


@pytest.fixture
def open_page(page, app_url: str) -> Callable[..., object]:
    """`open_page("explain", tp=8)` opens that page with that query and waits until it is drawn."""

    def opened(path: str = "", **query: object):
        address = f"{app_url}/{path}"
        page.goto(f"{address}?{urlencode(query)}" if query else address)
        page.wait_for_selector(SETTLED)
        return page

    return opened
