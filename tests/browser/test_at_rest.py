"""The drawn part of a page does not move while the rest is loading.

Cumulative layout shift (CLS) as https://web.dev/articles/cls defines it: the worst sum of shifts
within five seconds, no two of them more than a second apart; below 0.1 is good, above 0.25 poor.
Shifts of elements in the page or the sidebar count, but not that of the whole empty page,
which Streamlit moves aside when the sidebar appears.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote, urlencode

import pytest

from tests.browser.conftest import HIDDEN, SETTLED, chromium, open_part

# on a quiet machine; on a busy one all late elements appear at once, and their shifts add up
pytestmark = [pytest.mark.browser, pytest.mark.slow]

MOST = 0.25
WATCH = """
window.shifts = [];
const inside = '[data-testid=stMain], [data-testid=stSidebar]';
const counts = source => source.node?.parentElement?.closest(inside);
new PerformanceObserver(list => {
    for (const shift of list.getEntries())
        if (!shift.hadRecentInput && shift.sources.some(counts))
            window.shifts.push([shift.startTime, shift.value]);
}).observe({type: 'layout-shift', buffered: true});
"""
ARRIVED = "() => !document.querySelector('[data-testid=stSkeleton]')"
#: Every page as it opens, and the parts that are not open at first.
PLACES = [
    *((path, "") for path in ("", "explain", "compare", "plan", "chip_lab", "measure", "upload",
                              "accuracy", "library")),
    *HIDDEN,
]  # fmt: skip


@pytest.fixture(scope="module", params=[1280, 390])
def watched(request, browser, app_url: str):
    """A tab of a given width that records every shift."""
    context = browser.new_context(viewport={"width": request.param, "height": 900})
    context.set_default_timeout(90_000)
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(app_url)
    page.wait_for_selector(SETTLED)
    yield page
    context.close()


def cumulative(shifts: Sequence[tuple[float, float]]) -> float:
    """CLS of shifts (time [ms], score)."""
    worst = window = began = last = 0.0
    for at, score in shifts:
        if at - last > 1000.0 or at - began > 5000.0:
            began, window = at, 0.0
        window, last = window + score, at
        worst = max(worst, window)
    return worst


@pytest.mark.parametrize(("path", "part"), PLACES)
def test_nothing_jumps_while_a_page_loads(watched, app_url: str, path: str, part: str):
    query = {"engine": "vllm", **({"part": part} if part else {})}
    watched.goto(f"{app_url}/{path}?{urlencode(query)}")
    watched.wait_for_selector(SETTLED)
    watched.wait_for_function(ARRIVED)
    watched.wait_for_timeout(1_000)
    assert not part or open_part(watched) == part
    shift = cumulative(watched.evaluate("() => window.shifts"))
    assert shift < MOST


@pytest.mark.skipif(chromium() is None, reason="no Chromium or Chrome on this machine")
def test_a_jump_is_seen(watched):
    watched.goto("about:blank")
    watched.set_content(
        "<div data-testid='stMain'><h1>Title</h1>"
        "<div id='late'></div><p style='height: 500px'>Words that are read.</p></div>"
    )
    watched.add_script_tag(content=WATCH)
    watched.wait_for_timeout(300)
    watched.evaluate("() => { document.getElementById('late').style.height = '400px'; }")
    watched.wait_for_function("() => window.shifts.length > 0")
    assert cumulative(watched.evaluate("() => window.shifts")) > MOST


def test_a_table_of_known_height_fills_its_place(watched, app_url: str):
    """Part Pinned of Compare, where the page reserves the height before the table's script has
    loaded.
    """
    pins = quote('[{},{"tp":2}]')
    watched.goto(f"{app_url}/compare?part=Pinned&pins={pins}")
    watched.wait_for_selector(SETTLED)
    table = watched.get_by_test_id("stDataFrame").first.bounding_box()
    place = watched.get_by_test_id("stDataFrame").first.locator(
        "xpath=ancestor::*[@data-testid='stVerticalBlock'][1]"
    )
    assert abs(table["height"] - place.bounding_box()["height"]) <= 2.0
