"""The first view of every page is calm: few controls, few words.

A control is what the key Tab stops at, but for the button that folds the sidebar: browsers without
a pointer always show it, others under the pointer.  Words are those that stand in the view but in
charts, icons and the cells of tables.
"""

from __future__ import annotations

import pytest

from tests.browser.conftest import SETTLED
from tests.browser.test_accessibility import paths

pytestmark = pytest.mark.browser

MOST_CONTROLS, MOST_WORDS = 30, 150
#: What stands in the first view: {controls: their names, words}.
FIRST_VIEW = """() => {
    const seen = one => {
        const r = one.getBoundingClientRect();
        return r.width > 0 && r.height > 0 && r.top < innerHeight && r.bottom > 0
            && r.left < innerWidth && r.right > 0
            && one.checkVisibility({opacityProperty: true, visibilityProperty: true});
    };
    const focusable = 'a[href], button, input, textarea, summary, [tabindex]';
    const controls = [...document.querySelectorAll(focusable)].filter(
        one => one.tabIndex >= 0 && !one.disabled && seen(one) && !one.matches('main, section')
            && !one.closest('[data-testid="stSidebarCollapseButton"]'));
    const names = controls.map(one => one.getAttribute('aria-label') || one.textContent.trim());
    const drawn = 'svg, script, style, noscript, canvas, [role="img"], [data-testid$="Icon"],'
        + '[data-testid="stIconMaterial"]';
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const words = [];
    while (walker.nextNode()) {
        const {parentElement: holder, textContent} = walker.currentNode;
        if (!holder.closest(drawn) && textContent.trim() && seen(holder))
            words.push(...textContent.trim().split(/\\s+/));
    }
    return {controls: names, words};
}"""


@pytest.mark.by_day(3)
@pytest.mark.parametrize("path", paths())
def test_the_first_view_of_a_page_is_calm(open_page, path: str):
    page = open_page(path)
    page.wait_for_function("() => !document.querySelector('[data-testid=stSkeleton]')")
    page.wait_for_selector(SETTLED)
    view = page.evaluate(FIRST_VIEW)
    assert len(view["controls"]) <= MOST_CONTROLS, " | ".join(view["controls"])
    assert len(view["words"]) <= MOST_WORDS, " ".join(view["words"])
    assert len(view["controls"]) > 10 and len(view["words"]) > 30  # it was looked at
