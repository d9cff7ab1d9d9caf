"""Cells keep text as text: no formula in a spreadsheet, no additional column in Markdown."""

import math

import pytest

from genz_core.common.cells import markdown_cell, markdown_table, spreadsheet_cell


@pytest.mark.parametrize(
    "text", ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "＝1", "-inf", "-"]
)
def test_a_formula_is_a_text(text: str) -> None:
    assert spreadsheet_cell(text) == f"'{text}"


@pytest.mark.parametrize("value", [-1, -2.5, "-2.5", "+1e3", "gpt2", "a=b", "", 0, True])
def test_numbers_and_other_texts_stay(value: object) -> None:
    assert spreadsheet_cell(value) is value


@pytest.mark.parametrize("value", [None, math.nan])
def test_what_is_missing_is_empty(value: object) -> None:
    assert spreadsheet_cell(value) == ""


def test_a_cell_of_markdown_stays_one_cell() -> None:
    assert markdown_cell("a|b\nc\r\n d") == "a\\|b c d"


def test_a_table_of_markdown_has_a_line_a_row() -> None:
    table = markdown_table(["name", "runs"], [["gemm", "3"], ["a|b", "12"]])
    assert table == "| name | runs |\n| --- | --- |\n| gemm | 3 |\n| a\\|b | 12 |"
