"""Sessions on a real server: none sees an error, each is answered; the result as a text."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dashboards import Served, served
from tests.ops import sessions
from tests.ops.visitor import Rerun, visit

PAGES = 9


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.mark.slow
def test_two_sessions_use_the_dashboard_without_an_error(server: Served):
    result = sessions.load_test(server, 2, 1 / 3)
    assert result.errors == []
    assert [rerun.kind for rerun in result.reruns].count("open") == 2 < len(result.reruns)
    assert all(rerun.page and rerun.received_bytes > 1000 for rerun in result.reruns)
    assert result.processor_s > 0 and result.growth < 1.0
    assert f"{len(result.reruns)} reruns, 95 % within" in sessions.section(result)


@pytest.mark.slow
def test_a_session_opens_every_page_and_changes_a_control_of_its_own(server: Served):
    with visit(server.url) as visitor:
        visitor.open("batch=4")
        for page in visitor.pages:
            visitor.turn_to(page)
        visitor.turn_to("Explain")
        slider = next(w for w in visitor.widgets if w.proto.label == "Batch")
        state = slider.other_state(random.Random(0), None)
        assert state is not None
        visitor.set(slider, state)
        assert f"roofline_batch={state.string_array_value.data[0]}" in visitor.query
    assert len({rerun.page for rerun in visitor.reruns}) == PAGES
    assert {rerun.errors for rerun in visitor.reruns} == {()}
    assert visitor.reruns[-1].kind == "control"


def test_an_exception_on_a_page_is_an_error_of_the_result():
    result = sessions.LoadTest(1, 1.0, [Rerun("page", "Memory", 0.2, 10, ("ValueError: 7",))])
    result.lost.append("ConnectionClosedError: 1006")
    assert result.errors == ["Memory: ValueError: 7", "ConnectionClosedError: 1006"]


def test_the_result_replaces_the_last_one_and_nothing_else_of_its_document():
    begun = sessions.written("# Operations\n\nText.\n", "first", "docs/x.md")
    assert begun.startswith("# Operations\n\nText.\n\n## Sessions at once\n\n<!-- python")
    more = f"{begun}\n## Limits\n\nFew.\n"
    renewed = sessions.written(more, "second", "docs/x.md")
    assert renewed == more.replace("first", "second")
    assert Path("docs/x.md").name in renewed
