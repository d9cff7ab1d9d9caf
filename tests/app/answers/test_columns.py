"""Every column of an answer is declared once, with the unit that its name ends in."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from app.answers.column import ends
from app.answers.columns import COLUMNS
from app.answers.latencies import LATENCIES
from app.dashboard import load_curves
from app.question.parameters import PARAMETERS
from app.question.question import Question
from app.scenario.setup import Setup
from docs.hooks.columns import GIVEN

#: Name suffixes by unit; a statistic or an interval's end may precede or follow them.
SUFFIXES: Mapping[str, str] = {
    "s": r"(?<!per)_s$|^seconds$|_seconds$",
    "bytes": r"_bytes(_per_device)?$",
    "tok/s": r"tokens_per_s(_per_device)?$|^interactivity$",
    "seq/s": r"^sequences_per_s(_per_device)?$",
    "req/s": r"requests_per_s$|^rate(_per_s)?$",
    "h": r"_hours$",
    "$": r"^usd(_per_(million_tokens|mtok|month))?$",
    "$/h": r"usd_per_hour$",
    "J": r"^joules_per_token$",
    "tokens": r"(?<!million)_tokens$|^[io]sl$",
    "share": r"_share$|^share|^(utilisation|probability(_alone)?|kv_use|all_there)$",
}


@pytest.fixture(scope="module")
def printed() -> dict[str, set[str]]:
    """Columns by the verb that gives them, and those of the load curves of a page."""
    curve = load_curves.curve(Setup(Question(engine="vllm")), "rate")
    return {**{verb: set(names()) for verb, names in GIVEN.items()}, "curve": set(curve)}


def test_every_column_that_is_printed_is_declared(printed: dict[str, set[str]]):
    unknown = {verb: names - set(COLUMNS) for verb, names in printed.items()}
    assert not any(unknown.values()), unknown


def test_every_declared_column_is_given_by_a_verb(printed: dict[str, set[str]]):
    unused = set(COLUMNS).difference(PARAMETERS, *(printed[verb] for verb in GIVEN))
    assert not unused


@pytest.mark.parametrize("unit", SUFFIXES)
def test_a_name_ends_in_the_unit_that_is_declared(unit: str):
    figures = {name: column for name, column in COLUMNS.items() if name not in PARAMETERS}
    for name, column in figures.items():
        plain = column.base or name
        assert bool(re.search(SUFFIXES[unit], plain)) == (column.unit == unit), name


def test_what_a_latency_has_is_declared_of_it():
    for latency in LATENCIES.values():
        for column in latency.columns():
            assert COLUMNS[column.name] == column
            assert column.unit == "s" and column.smaller and column.head.startswith(latency.head)


def test_ends_of_an_interval_are_of_the_figure_between_them():
    based = {column.base for column in COLUMNS.values() if column.base}
    assert {"ttft_s", "output_tokens_per_s", "usd_per_million_tokens"} <= based
    for name in based:
        low, high = (COLUMNS[end] for end in ends(name))
        assert (low.statistic, high.statistic) == ("low", "high")
        assert {low.unit, high.unit} == {COLUMNS[name].unit}


def test_a_column_has_a_head_and_one_sentence_of_help():
    for column in COLUMNS.values():
        assert column.head and re.fullmatch(r'["A-Z0-9].+\.', column.help), column


def test_a_title_names_the_unit_once():
    assert COLUMNS["ttft_p95_s"].title == "TTFT p95 [s]"
    assert COLUMNS["usd_per_hour"].title == "$/h"
    assert COLUMNS["utilisation"].title == "Utilisation"


def test_a_value_and_an_interval_are_said_in_their_unit():
    rate, cost = COLUMNS["output_tokens_per_s"], COLUMNS["usd_per_million_tokens"]
    assert rate.words(1273.4) == "1,270 tok/s" and rate.span(100, 220) == "100 to 220 tok/s"
    assert cost.span(0.5, 1.25) == "$0.500 to $1.25"
    assert COLUMNS["ttft_s"].span(float("nan"), float("nan")) == "not validated"
    assert COLUMNS["rate"].words(2.5) == "2.5 req/s"
