"""What page Upload says of the checks of a measurement."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from profilers.comparison.account import Check


def _draw() -> None:
    from app.dashboard.panels.run_facts import show_sums
    from profilers.comparison.account import Check

    show_sums([Check(f"sum {n}", "failed", 2.0, 1.0, "s") for n in (1, 2, 3)])


def test_failed_checks_stand_in_one_box():
    app = AppTest.from_function(_draw).run()
    assert not app.exception
    [box] = app.warning
    assert all(f"- sum {number}" in box.value for number in (1, 2, 3))


def test_a_failed_check_without_a_known_cause_names_none():
    assert "cause" not in Check("sum", "failed", 2.0, 1.0, "s").sentence
    assert Check("sum", "failed", 2.0, 1.0, why="a clock").sentence.endswith(
        "likely cause: a clock"
    )
