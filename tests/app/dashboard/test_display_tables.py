"""Tables in display units: no row is lost, and changes are shown beside values."""

import pandas as pd
import pytest

from app.dashboard import caches, display_tables
from app.question.question import Question
from app.scenario import operator_intervals
from app.scenario.setup import Setup
from app.scenario.summary import facts
from tests.app.charts.figures import ESTIMATE


def test_the_operator_table_leaves_out_only_what_takes_no_time():
    raw = operator_intervals.operator_table(ESTIMATE.decode)
    shown = display_tables.operator_rows(raw, "decode")
    assert shown["predicted [µs]"].sum() == pytest.approx(sum(raw["predicted_s"]) * 1e6)
    assert shown["predicted [µs]"].is_monotonic_decreasing
    assert (shown["bound [µs]"] <= shown["predicted [µs]"] * (1 + 1e-9)).all()


def test_a_page_shows_three_digits_and_no_more():
    raw = operator_intervals.operator_table(
        caches.priced(Setup(Question(batch=4096, isl=8192))).prefill
    )
    shown = display_tables.rounded(display_tables.operator_rows(raw, "prefill"))
    times = shown["predicted [µs]"]
    assert times.max() > 100_000
    assert all(float(f"{time:.3g}") == time for time in times)
    assert all(float(f"{share:.2g}") == share for share in shown["share"])


def test_a_comparison_puts_the_change_beside_the_value():
    scenarios = {"A": Setup(), "B": Setup(Question(bandwidth=2.0))}
    rows = {
        name: facts(caches.deployed(one), caches.priced(one)) for name, one in scenarios.items()
    }
    table = {name: display_tables.row_figures(one.row()) for name, one in rows.items()}
    row = display_tables.comparison_numbers(table).set_index("figure").loc["TPOT, bound"]
    assert row["B"] == pytest.approx(row["A"] / 2)
    words = display_tables.comparison_words(table).set_index("figure")["B"]
    assert words["TPOT, bound"].endswith("(−50\u00a0%)")
    assert "[not validated]" in words["TPOT"]  # nothing was measured at twice the bandwidth
    assert "[" not in words["TPOT, bound"]


def test_a_table_of_times_holds_no_formula_for_the_button_that_saves_it():
    shown = display_tables.in_unit_of_time(
        pd.DataFrame({"name": ["=HYPERLINK(1)", "gemm", None], "time_s": [1e-6, 2e-6, 3e-6]})
    )
    assert shown["name"].tolist()[:2] == ["'=HYPERLINK(1)", "gemm"]
    assert pd.isna(shown["name"][2])
    assert shown["time [µs]"].tolist() == pytest.approx([1.0, 2.0, 3.0])


def test_the_columns_of_operators_fit_on_a_page_and_the_first_three_on_a_phone():
    """Their last one, which says what limits an operator, was once cut."""
    chosen, page, phone = 34, 456, 342  # the column of checkboxes, the table's own width [px]
    widths = [
        display_tables.operator_columns()[name]["width"] for name in display_tables.OPERATORS_SHOWN
    ]
    assert chosen + sum(widths) <= page and chosen + sum(widths[:3]) <= phone
    assert display_tables.OPERATORS_SHOWN[2] == "limited by"
