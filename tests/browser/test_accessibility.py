"""Every page under axe-core's rules: light and dark, on a desktop and on a phone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.browser.conftest import HIDDEN, SETTLED, open_part

pytest.importorskip("axe_playwright_python")

VIEWS = Path(__file__).parents[2] / "app" / "views"
#: Appearance and width in pixels of each test.
Look = tuple[str, int]
FIRST: tuple[Look, ...] = (("light", 1400),)
OTHERS: tuple[Look, ...] = (("dark", 1400), ("light", 390))
each_look = pytest.mark.parametrize(
    "looks",
    [
        pytest.param(FIRST, id="light and wide"),
        pytest.param(OTHERS, id="dark, and narrow", marks=pytest.mark.slow),
    ],
)
#: Streamlit's own elements that no theme or style can change, by rule and start of their HTML.
STREAMLITS_OWN = {
    # titles of groups are between the entries of the navigation's list, which is only on phones in
    # the sidebar: `ul > div > li`
    ("list", '<ul data-testid="stSidebarNavItems"'),
    ("listitem", "<li class="),
}
#: Pages in states that show more than at first.
STATES = {
    "compare": {"pins": '[{},{"tp":2,"engine":"vllm"}]'},
    "upload": {"upload_samples": "Qwen1.5-0.5B on an H100 (PyTorch)"},
}


def paths() -> list[str]:
    """Addresses of all pages, sorted: the stems of their files, "" for the first."""
    stems = (file.stem for file in VIEWS.glob("[a-z]*.py"))
    return sorted("" if stem == "answer" else stem for stem in stems)


#: Whether the page has the colours of an appearance, is drawn, and no part of it is fading.
STILL = """scheme => {
    const app = document.querySelector('[data-testid="stApp"]');
    if (app?.getAttribute('data-test-script-state') !== 'notRunning') return false;
    if (document.querySelector('[data-testid="stSkeleton"]')) return false;
    const [r, g, b] = getComputedStyle(app).backgroundColor.match(/[\\d.]+/g).map(Number);
    if ((r + g + b < 384) !== (scheme === 'dark')) return false;
    return document.getAnimations().every(one => one.playState !== 'running');
}"""


def settled(page, scheme: str) -> None:
    page.wait_for_function(STILL, arg=scheme)


def long_settled(page) -> None:
    page.wait_for_timeout(500)
    page.wait_for_selector(SETTLED)


def findings(page) -> list[str]:
    """Serious and critical findings on the current page, a line each."""
    from axe_playwright_python.sync_playwright import Axe

    found = []
    for rule in Axe().run(page).response["violations"]:
        if rule["impact"] not in ("serious", "critical"):
            continue
        for node in rule["nodes"]:
            streamlits = any(
                rule["id"] == name and node["html"].startswith(start)
                for name, start in STREAMLITS_OWN
            )
            if not streamlits:
                found.append(f"{rule['id']}: {node['html'][:200]} {node['failureSummary']}")
    return found


def looked_at(page, looks: tuple[Look, ...]) -> dict[str, list[str]]:
    """Findings of a page in every look that has any."""
    found = {}
    for scheme, width in looks:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        settled(page, scheme)
        seen = findings(page)
        if seen:  # text that fades in is pale for a moment; real errors persist
            long_settled(page)
            seen = findings(page)
        found[f"{scheme}, {width} pixels"] = seen
    return {look: of_look for look, of_look in found.items() if of_look}


@pytest.mark.by_day(2)
@each_look
@pytest.mark.parametrize("path", paths())
def test_a_page_has_no_serious_finding_and_a_title_of_its_own(
    open_page, path: str, looks: tuple[Look, ...]
):
    page = open_page(path)
    assert looked_at(page, looks) == {}
    shown = page.title().removesuffix(" · Ridgeline")
    assert shown not in ("", page.title(), "Answer" if path else "")


@pytest.mark.by_day(1)
@each_look
@pytest.mark.parametrize(("path", "part"), HIDDEN)
def test_a_part_of_a_page_has_no_serious_finding(
    open_page, path: str, part: str, looks: tuple[Look, ...]
):
    page = open_page(path, part=part)
    assert open_part(page) == part
    assert looked_at(page, looks) == {}


@pytest.mark.by_day(1)
@each_look
@pytest.mark.parametrize("path", STATES)
def test_a_page_with_something_on_it_has_no_serious_finding(
    open_page, path: str, looks: tuple[Look, ...]
):
    assert looked_at(open_page(path, **STATES[path]), looks) == {}
