"""Time of pages in a browser; on a quiet machine.

Run with ``pytest -m benchmark tests/benchmarks/test_page_timings.py``.
"""

from __future__ import annotations

import statistics

import pytest

from tests.benchmarks.page_timings import (
    CASES,
    MOST_CHANGE_S,
    MOST_FIRST_S,
    MOST_P50_S,
    MOST_P95_S,
    PREDICTING,
    percentile,
    run,
)
from tests.browser.conftest import chromium

pytestmark = pytest.mark.benchmark


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.page)
def test_a_page_answers_while_one_waits(case):
    pytest.importorskip("playwright.sync_api")
    if chromium() is None:
        pytest.skip("no Chromium or Chrome on this machine")
    (timing,) = run([case])
    assert statistics.median(spent.wall_s for spent in timing.first) < MOST_FIRST_S
    for spent in timing.changes.values():
        assert statistics.median(one.wall_s for one in spent) < MOST_CHANGE_S


@pytest.mark.parametrize("case", PREDICTING, ids=lambda case: case.page or "overview")
def test_a_click_changes_the_chart_at_once(case):
    pytest.importorskip("playwright.sync_api")
    if chromium() is None:
        pytest.skip("no Chromium or Chrome on this machine")
    (timing,) = run([case])
    assert statistics.median(spent.wall_s for spent in timing.first) < MOST_FIRST_S
    for spent in timing.changes.values():
        wall = sorted(one.wall_s for one in spent)
        assert percentile(wall, 0.5) < MOST_P50_S
        assert percentile(wall, 0.95) < MOST_P95_S
