"""Text of reports: readable times, shares and counts, and tables that stay aligned."""

import math

import pytest

from app.answers.table import TableFormat, render
from profilers.report_text import count, markdown_table, percent, seconds, shortened


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0127, "12.7 ms"), (1.0, "1 s"), (0.9999, "1 s"), (3.2e-6, "3.2 µs"), (5e-10, "0.5 ns"),
        (12345.0, "12,345 s"), (math.nan, "unknown"), (math.inf, "unknown"),
    ],
)  # fmt: skip
def test_a_time_has_three_digits_and_a_unit(value: float, text: str):
    assert seconds(value) == text


@pytest.mark.parametrize(
    ("share", "text"), [(0.43, "43 %"), (1.0, "100 %"), (0.0042, "0.4 %"), (math.nan, "unknown")]
)
def test_a_share_is_in_percent_and_a_small_one_keeps_a_digit(share: float, text: str):
    assert percent(share) == text


def test_a_count_has_its_thousands_separated():
    assert count(1234567.4) == "1,234,567"


def test_a_name_is_one_line_of_bounded_length():
    assert shortened("void\n  gemm<int>") == "void gemm<int>"
    assert shortened("x" * 100, 10) == "x" * 9 + "…"


def test_commands_and_artifacts_write_the_same_markdown():
    table = markdown_table(["name", "runs"], [["gemm", "3"], ["norm", "12"]])
    assert table == "| name | runs |\n| --- | --- |\n| gemm | 3 |\n| norm | 12 |"
    rows = [{"name": "gemm", "runs": 3}, {"name": "norm", "runs": 12}]
    assert render(rows, TableFormat.markdown) == table
