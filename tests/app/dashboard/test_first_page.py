"""What a newcomer sees: examples, the latest scenarios, and a button that dismisses both."""

from urllib.parse import parse_qsl, urlsplit

import pytest

from app.dashboard.panels import first_page
from tests.app.pages import cards, opened, setup_of


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path))


def examples(app) -> list[str]:
    links = [link.proto.url for link in app.get("link_button")]
    return [button.key for button in app.button if button.key == "example"] + links


def test_the_first_example_answers_its_question_under_load():
    app = opened()
    app = app.button("example").click().run()
    assert not app.exception and not app.error
    scenario = setup_of(app).scenario
    assert (scenario.model, scenario.engine) == ("openai/gpt-oss-120b", "vllm")
    assert scenario.concurrency == 64 and "Output throughput" in cards(app)
    assert not examples(app), "a scenario was chosen"


@pytest.mark.slow
@pytest.mark.parametrize(("at", "page", "title"), [(1, "plan", "Plan"), (2, "upload", "Upload")])
def test_the_other_examples_are_links_that_set_their_page_up(at: int, page: str, title: str):
    link = urlsplit(examples(opened())[at])
    assert link.path == page
    app = opened(page, **dict(parse_qsl(link.query)))
    assert not app.exception and not app.error
    assert app.title[0].value == title
    if page == "plan":
        assert setup_of(app).scenario.model == "Qwen/Qwen3-32B"
        assert setup_of(app).scenario.rate == 20.0
    else:
        assert "Kernel launches" in cards(app)


def test_doors_that_are_put_away_stay_away():
    app = opened()
    app = app.button("first_page_away").click().run()
    assert not examples(app) and not examples(opened())


def test_a_link_to_a_scenario_shows_that_and_no_examples():
    assert not examples(opened(batch=2))


def test_the_last_scenarios_are_a_click_away_and_a_moved_slider_is_one():
    for batch in (2, 4):
        opened(engine="vllm", batch=batch)
    opened(system="h200")
    app = opened()
    labels = [button.label for button in app.button if str(button.key).startswith("last_")]
    assert len(labels) == 2 and "h200" in labels[0] and "batch 4" in labels[1]
    app = app.button("last_1").click().run()
    assert setup_of(app).scenario.batch == 4 and setup_of(app).scenario.engine == "vllm"


@pytest.mark.by_day(1)
@pytest.mark.parametrize("text", ["", "[", "[1]", '{"scenarios": [{"tp": "x"}, 3]}', '{"away": 0}'])
def test_a_damaged_file_is_no_file(text: str):
    first_page._file().write_text(text, encoding="utf-8")
    app = opened()
    assert not app.exception and examples(app)
    assert not any(str(button.key).startswith("last_") for button in app.button)
