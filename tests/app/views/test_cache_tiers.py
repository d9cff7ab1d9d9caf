"""Page Explain, part Cache tiers: hits, first tokens and dollars with and without each tier."""

from __future__ import annotations

import pytest

from app.charts import simulation as charts
from app.dashboard.panels import cache_tiers as panel
from app.question.query import ask
from app.scenario.setup import Setup
from app.simulation.result import simulate
from app.simulation.tier_worth import worth_of_setup
from app.wording import quantities
from genz_core.common.progress import never, silent
from tests.app.charts.figures import both_looks, checked
from tests.app.pages import cards, opened

LLAMA = "meta-llama/Llama-3.1-8B"
SMALL = {
    "model": LLAMA, "rate": 1, "isl": 3000, "osl": 16, "turns": 3, "think_s": 5, "requests": 60,
    "host_cache_gib": 20, "disk_cache_gib": 100,
}  # fmt: skip


@pytest.fixture(autouse=True)
def data(own_data):
    """The user's data folder is the test's own."""


@pytest.fixture(scope="module")
def worth():
    return simulate(ask("simulate", SMALL), worth=True).worth


def test_a_question_without_tiers_is_told_what_to_give():
    app = opened("explain", part="Cache tiers", model=LLAMA)
    assert not app.exception and "set *Host cache*" in app.info[0].value


def test_the_part_shows_what_python_answers(worth):
    app = opened("explain", part="Cache tiers", **{n: str(v) for n, v in SMALL.items()})
    assert not app.exception and app.button("cache_tiers_start")
    setup = Setup(ask("simulate", SMALL).question)
    work = (setup, setup.scenario, {})
    app.session_state[panel.RESULT] = worth_of_setup(work, silent, never)
    app = app.run()
    assert not app.exception
    shown = cards(app)
    assert shown["Found, all tiers"] == quantities.percent(worth.case_rows[0]["cached_share"])
    tables = [frame.value for frame in app.dataframe]
    assert any("Net [$/h]" in table and list(table["Tier"]) == ["host", "disk"] for table in tables)


@both_looks
def test_the_bars_are_the_shares_of_each_tier(worth, look):
    figure = checked(charts.hits(worth.case_rows, "case", look))
    totals = [sum(trace.y[at] for trace in figure.data) for at in range(4)]
    assert totals == pytest.approx([row["cached_share"] for row in worth.case_rows])
    first = checked(charts.first_tokens(worth.case_rows, "case", look))
    assert list(first.data[0].y) == [row["ttft_mean_s"] for row in worth.case_rows]
