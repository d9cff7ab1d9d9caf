"""Five questions in a browser: answered, within the allowed number of clicks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.browser.conftest import SETTLED
from tests.browser.journeys import JOURNEYS, Journey, MachineBusy, Walk
from tests.dashboards import served

pytestmark = pytest.mark.browser

BY_NAME = {journey.name: journey for journey in JOURNEYS}
#: A regular expression that the answer to a question matches.
ANSWERS = {
    "predict": r"^TTFT [\d.]+ m?s, TPOT [\d.]+ ms$",
    "compare": r"^\$ per Mtok out: \S+ is best with \$[\d.]+, [\d.]+ % less than \S+",
    "decide": r"^fewest that do: \d+$",
    "upload": r"reach(es)? \d+ % of the .*, predicted \d+ %",
    "measure": r"predicted [\d.,]+ m?s, measured [\d.,]+ m?s",
}
MINUTES = ("measure",)


def walked(journey: Journey, page) -> str:
    walk = Walk(page)
    answer = journey.walk(walk)
    assert walk.clicks <= journey.most, walk.steps
    assert re.search(ANSWERS[journey.name], answer), answer
    return answer


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", [name for name in BY_NAME if name not in MINUTES])
def test_a_question_is_answered_in_few_clicks(open_page, name: str):
    page = open_page()
    page.set_viewport_size({"width": 1400, "height": 1000})
    walked(BY_NAME[name], page)


@pytest.mark.slow
def test_a_model_measured_here_stands_beside_its_prediction_in_few_clicks(browser, tmp_path: Path):
    """On an uncalibrated machine: first it is calibrated, then the model runs; minutes if it is
    quiet.
    """
    pytest.importorskip("transformers")
    data = {"RIDGELINE_DATA": str(tmp_path / "data")}
    with served(tmp_path, environment=data) as server:
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        # the server answers slowly while it calibrates the machine
        page.set_default_timeout(180_000)
        page.goto(server.url)
        page.wait_for_selector(SETTLED)
        try:
            walked(BY_NAME["measure"], page)
        except MachineBusy as busy:
            pytest.skip(str(busy))
        finally:
            page.close()


@pytest.mark.slow
def test_the_clicks_of_a_walk_are_the_presses_of_the_mouse(open_page):
    page = open_page()
    page.evaluate(
        "() => { window.presses = 0;"
        " addEventListener('mousedown', () => { window.presses += 1; }, true); }"
    )
    walk = Walk(page)
    walk.type("Model", "Qwen3-32B")
    walk.press("Simulate", role="radio")
    assert page.evaluate("() => window.presses") == walk.clicks == 2
