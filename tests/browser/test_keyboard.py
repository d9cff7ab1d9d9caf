"""The dashboard by keyboard alone: the focus is visible, and every control can be reached."""

from __future__ import annotations

import json

import pytest

from tests.browser.conftest import settled

#: How an element and its enclosing boxes are framed.
FRAMES = """focused => {
    const frames = [];
    for (let one = focused, up = 0; one && up < 4; one = one.parentElement, up++) {
        const style = getComputedStyle(one);
        frames.push([style.outlineStyle, style.outlineColor, style.boxShadow, style.borderColor,
                     style.backgroundColor].join(' '));
    }
    return frames.join();
}"""
#: The name of the focused element for a screen reader.
NAMED = """() => {
    const one = document.activeElement;
    const label = one.labels && one.labels.length ? one.labels[0].textContent : '';
    return one.getAttribute('aria-label') || label || one.textContent || '';
}"""

#: Draw the component of the completions again, as a run of the page's script does.
REDRAWN = """async () => {
    const list = document.getElementById('question-words');
    const script = performance.getEntriesByType('resource').find(
        one => one.name.includes('completion'));
    const draw = (await import(script.name)).default;
    const data = {box: 'question_line', opener: 'question_type', words: ['users']};
    draw({parentElement: list.parentElement, data});
}"""

#: Let the component forget the next letter, as if it was typed between two drawings of it; React
#: hears of the letter, else it would put the box back.
UNSEEN = """() => {
    const box = document.querySelector('.st-key-question_line input');
    const {read} = box.dataset;
    window.addEventListener('input', () => {
        box.dataset.read = read;
        box.setAttribute('aria-expanded', 'false');
        document.getElementById('question-words').replaceChildren();
    }, {once: true});
}"""

#: Presses of Tab after which a page counts as impossible to traverse.
MOST = 120


#: What the box of the question holds, where the focus is, and the completions.
BOX = """() => {
    const box = document.querySelector('.st-key-question_line input');
    const lists = [...document.querySelectorAll('#question-words')].map(one => one.outerHTML);
    return [box && box.value, box && box.ariaExpanded, document.activeElement.outerHTML, lists];
}"""


def offered(page, word: str):
    """The completion `word` once it is shown."""
    option = page.get_by_role("option", name=word, exact=True)
    try:
        option.wait_for()
    except Exception as error:
        raise AssertionError(f"{word!r} is not offered: {page.evaluate(BOX)}") from error
    return option


def opened_box(page) -> None:
    """Open the box of the question by its button."""
    page.get_by_role("button", name="Type a question").click()
    focused_box(page)


def focused_box(page):
    """The box of the question once it has the focus."""
    page.wait_for_function("() => document.activeElement.getAttribute('aria-label') === 'Question'")
    return page.get_by_label("Question", exact=True)


def is_seen(page) -> bool:
    """Whether the focused element is framed differently than without the focus."""
    focused = page.evaluate_handle("document.activeElement").as_element()
    page.wait_for_timeout(300)  # frames change gradually
    framed = focused.evaluate(FRAMES)
    focused.evaluate("one => one.blur()")
    page.wait_for_timeout(300)
    plain = focused.evaluate(FRAMES)
    focused.focus()
    return framed != plain


def tabbed_to(page, name: str, *, exactly: bool = False, most: int = MOST) -> None:
    """Press Tab until what has the focus is called so, at most so often; Escape leaves a table."""
    passed = []
    for _ in range(most):
        if page.evaluate("document.activeElement.tagName") == "CANVAS":
            page.keyboard.press("Escape")
        page.keyboard.press("Tab")
        called = page.evaluate(NAMED).strip()
        passed.append(called)
        if called == name or (not exactly and name in called and len(called) < 50):
            return
    raise AssertionError(f"{name!r} is not reached by Tab: {passed}")


def typed(page, words: str) -> None:
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type(words)
    page.keyboard.press("Enter")


@pytest.mark.slow
def test_model_and_engine_are_reached_and_changed(open_page):
    page = open_page("", batch=2)
    tabbed_to(page, "Model", exactly=True)
    assert is_seen(page)
    typed(page, "Qwen/Qwen3-8B")
    page.wait_for_selector("h1:has-text('Qwen/Qwen3-8B')")
    settled(page)
    tabbed_to(page, "Engine", exactly=True)
    assert is_seen(page)
    typed(page, "vllm")
    page.wait_for_function("() => location.search.includes('engine=vllm')")


def test_the_strip_is_reached_typed_in_and_answered_within_ten_tabs(open_page):
    page = open_page()
    page.wait_for_selector(".st-key-question_type button")
    page.wait_for_function("() => window.tabBeginsAtQuestion")
    tabbed_to(page, "Type a question", most=10)
    page.keyboard.press("Enter")
    box = focused_box(page)
    page.keyboard.type("qwen3 8b h200 vllm 23 us")
    option = offered(page, "users")
    page.keyboard.press("ArrowDown")
    while option.get_attribute("aria-selected") != "true":
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert box.input_value() == "qwen3 8b h200 vllm 23 users "
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('Qwen3-8B')")
    assert "concurrency=23" in page.url


def test_completions_stay_open_while_the_page_is_drawn_again(open_page):
    page = open_page()
    opened_box(page)
    page.keyboard.type("23 us")
    option = offered(page, "users")
    page.evaluate(REDRAWN)
    assert option.is_visible()


def test_a_letter_typed_while_the_page_is_drawn_again_is_completed(open_page):
    page = open_page()
    opened_box(page)
    page.keyboard.type("23 u")
    page.evaluate(UNSEEN)
    page.keyboard.type("s")
    page.evaluate(REDRAWN)
    offered(page, "users")


@pytest.mark.slow
def test_another_page_is_reached_and_opened(open_page):
    page = open_page("", batch=2)
    tabbed_to(page, "Explain")
    assert is_seen(page)
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('Explain')")
    assert "batch=2" in page.url


@pytest.mark.slow
def test_a_tooltip_opens_and_an_export_is_saved(open_page):
    page = open_page("explain", part="Breakdown", batch=2)
    page.wait_for_selector(".js-plotly-plot .main-svg")
    tabbed_to(page, "Model", exactly=True)
    page.keyboard.press("Shift+Tab")  # the help of a box is there once the box has the focus
    assert "Help" in page.evaluate(NAMED)
    assert page.wait_for_selector('[data-testid="stTooltipContent"]').text_content()
    page.keyboard.press("Escape")
    tabbed_to(page, "Export")
    assert is_seen(page)
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Question (JSON)")
    tabbed_to(page, "Question (JSON)")
    with page.expect_download() as saving:
        page.keyboard.press("Enter")
    assert json.loads(saving.value.path().read_text(encoding="utf-8"))["batch"] == 2
