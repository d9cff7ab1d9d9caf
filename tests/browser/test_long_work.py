"""Long work in a browser: its progress is visible, it can be stopped, and the page works again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import SETTLED
from tests.dashboards import served

pytestmark = pytest.mark.browser

#: Text that a stopped job leaves on its page.
STOPPED = "text=/cancelled at|ended before|Kept as/"


@pytest.fixture
def own_page(browser, tmp_path: Path):
    """A tab on a server with its own data, without calibrations or stored runs."""
    data = {"RIDGELINE_DATA": str(tmp_path / "data")}
    with served(tmp_path, environment=data) as server:
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(120_000)

        def opened(path: str, **query: str):
            asked = "&".join(f"{name}={value}" for name, value in query.items())
            page.goto(f"{server.url}/{path}?{asked}")
            page.wait_for_selector(SETTLED)
            return page

        yield opened
        page.close()


def stop(page) -> None:
    """Wait for the job's progress, then stop it; jobs that take long are stopped at once."""
    page.get_by_role("progressbar").wait_for()
    page.get_by_role("button", name="Cancel", exact=True).click()
    at_once = page.get_by_role("button", name="Stop at once")
    page.locator(f"{STOPPED} >> visible=true").or_(at_once).first.wait_for()
    if at_once.count():
        at_once.click()
    page.get_by_role("progressbar").wait_for(state="detached")
    page.locator(f"{STOPPED} >> visible=true").first.wait_for()


def again(page, name: str) -> None:
    """The button that started it is enabled again."""
    page.wait_for_selector(SETTLED)
    page.get_by_role("button", name=name, exact=True).wait_for()
    assert page.get_by_role("button", name=name, exact=True).is_enabled()
    assert not page.get_by_test_id("stException").count()


def filled(page, label: str, value: str) -> None:
    page.get_by_label(label, exact=True).first.fill(value)
    page.get_by_label(label, exact=True).first.press("Tab")


@pytest.mark.slow
def test_a_long_simulation_is_stopped(own_page):
    page = own_page("", part="Simulate", engine="vllm", requests=400_000)
    page.get_by_role("button", name="Simulate").click()
    stop(page)
    again(page, "Simulate")


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["One run", "Sweep"])
def test_a_run_is_stopped(own_page, mode: str):
    pytest.importorskip("transformers")
    page = own_page("run")
    page.get_by_role("radio", name=mode).click()
    page.wait_for_selector(SETTLED)
    page.get_by_text("Sizes, layers, device, profile").click()
    filled(page, "Layers", "2")
    if mode == "One run":
        filled(page, "Repeats", "500")
    page.get_by_role("button", name="Measure", exact=True).click()
    stop(page)
    again(page, "Measure")


@pytest.mark.slow
def test_a_calibration_is_stopped(own_page):
    pytest.importorskip("torch")
    page = own_page("calibrate")
    page.get_by_role("button", name="Calibrate", exact=True).click()
    stop(page)
    again(page, "Calibrate")
