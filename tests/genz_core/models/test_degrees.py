"""Parallel degrees in the short notation of papers and scripts."""

from __future__ import annotations

import pytest

from genz_core.errors import InvalidParallelism
from genz_core.models.degrees import parse_degrees


@pytest.mark.parametrize(
    ("text", "degrees"),
    [
        ("TP{4}_EP{2}_PP{1}", {"tp": 4, "ep": 2, "pp": 1}),
        ("tp8-pp2", {"tp": 8, "pp": 2}),
        ("TP4 x DP2, CP{16}", {"tp": 4, "dp": 2, "cp": 16}),
        ("", {}),
    ],
)
def test_degrees_are_read_with_and_without_braces(text, degrees):
    assert parse_degrees(text) == degrees


@pytest.mark.parametrize(
    ("text", "part"),
    [("XP{2}", "XP{2}"), ("TP{0}", "TP{0}"), ("TP{2}_TP{4}", "TP{4}"), ("TP", "TP"), ("4", "4")],
)
def test_a_part_that_cannot_be_read_is_named(text, part):
    with pytest.raises(InvalidParallelism, match="cannot read") as raised:
        parse_degrees(text)
    assert repr(part) in str(raised.value)
