"""Pinned scenarios: at most four, as text that restores a setup."""

import json

import pytest

from app.dashboard import pinned_scenarios
from app.question.question import Question
from app.scenario.setup import Setup, setup_from
from genz_core.errors import InvalidValue
from tests.app.pages import opened


def test_what_a_setup_changes_brings_it_back():
    setup = Setup(Question(tp=2, kv="fp8", peak=0.5, price=1.0))
    assert setup_from(json.loads(json.dumps(setup.changed()))) == setup


@pytest.mark.parametrize("changed", [{"no": 1}, {"tp": "x"}, {"model": 5}, {"peak": "x"}])
def test_a_pin_that_no_scenario_has_is_refused(changed: dict):
    with pytest.raises(InvalidValue):
        setup_from(changed)


def test_at_most_four_scenarios_are_pinned():
    app = opened(pins=json.dumps([{"batch": batch} for batch in range(2, 9)]))
    app.switch_page("views/compare.py").run()
    assert len(app.dataframe[0].value.columns) == 1 + pinned_scenarios.MOST
