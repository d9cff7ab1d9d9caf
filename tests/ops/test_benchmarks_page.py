"""The page of benchmarks: its history, regressions, and that every part can be measured."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.benchmarks import measures
from tests.benchmarks.benchmarks_page import (
    Entry,
    all_measures,
    change,
    entries,
    last_values,
    page,
    read_history,
    this_machine,
    with_other_areas,
    written_history,
)
from tests.benchmarks.measures import Measure

TIME = Measure("Start-up", "import", "s", 2.0)
RATE = Measure("Sweeps", "sweep", "1/s", 50.0, less_is_better=False)


def earlier(metric: str, unit: str, value: float, machine: str = "") -> Entry:
    return Entry("2026-01-01", "0.1", machine or this_machine(), metric, unit, value)


def test_a_longer_time_and_a_lower_rate_are_worse():
    before = last_values(
        [earlier("import", "s", 1.0), earlier("sweep", "1/s", 100.0)], this_machine()
    )
    assert change(TIME, before) == pytest.approx(1.0)
    assert change(RATE, before) == pytest.approx(1.0)
    text = page([TIME, RATE], before, 0.25)
    assert text.count("**regression**") == 2 and "+100%" in text


def test_times_of_another_machine_are_no_yardstick_but_errors_are():
    history = [earlier("import", "s", 1.0, "another"), earlier("gemm", "%", 5.0, "another")]
    before = last_values(history, this_machine())
    assert change(TIME, before) is None
    error = Measure("Accuracy", "gemm", "%", 10.0)
    assert change(error, before) == pytest.approx(1.0)


def test_the_newest_entry_is_compared_and_what_is_better_is_no_regression():
    history = [earlier("import", "s", 1.0), earlier("import", "s", 4.0)]
    before = last_values(history, this_machine())
    assert change(TIME, before) == pytest.approx(-0.5)
    assert "**regression**" not in page([TIME], before, 0.25)


def test_a_history_is_read_as_it_was_written(tmp_path: Path):
    path = tmp_path / "benchmarks.csv"
    lines = [earlier("import", "s", 1.25), *entries([RATE])]
    written_history(path, lines)
    assert read_history(path) == lines and read_history(tmp_path / "none.csv") == []


def test_the_errors_that_ship_are_on_the_page_beside_those_of_others():
    measured = list(all_measures(True, "", ["accuracy"]))
    assert len({m.name for m in measured}) == len(measured) > 20
    assert all(m.unit == "%" and 0.0 < m.value < 500.0 for m in measured)
    text = page(measured, {}, 0.25)
    assert "Others on the same kind of rows" in text and "aiconfigurator" in text


def test_reports_and_requests_are_timed():
    found = [*measures.reports(1), *measures.simulations(50, 1)]
    assert len(found) >= 3 and all(m.value > 0.0 for m in found)


@pytest.mark.slow
def test_every_area_can_be_measured_in_short():
    areas = ["sweeps", "start-up", "pages", "memory"]
    # In a thread, because playwright keeps an event loop in this one after tests in a browser.
    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(lambda: list(all_measures(True, "", areas))).result()
    assert {m.area for m in found} >= {"Sweeps", "Start-up", "Memory"}
    assert all(m.value > 0.0 for m in found)


def test_areas_that_were_not_measured_stay_as_they_were():
    written = "# Benchmarks\n\nof a day\n\n## Accuracy\n\nold\n\n## Sweeps\n\nold\n"
    text = "# Benchmarks\n\nof today\n\n## Sweeps\n\nnew\n\n## Scale\n\nnew\n"
    after = with_other_areas(text, written)
    assert after == (
        "# Benchmarks\n\nof a day\n\n## Accuracy\n\nold\n\n## Sweeps\n\nnew\n\n## Scale\n\nnew\n"
    )
    assert with_other_areas(text, "") == text
