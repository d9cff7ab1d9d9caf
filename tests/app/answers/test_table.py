"""Rows as text: aligned, Markdown, CSV and JSON of the same rows."""

import json
import math

import pytest

from app.answers.table import TableFormat, folded, render, to_csv, to_json
from app.question.query import ask
from app.scenario.results import serve

ROWS = [
    {"name": "a-b", "seconds": 0.012345678, "runs": 3, "tags": ["x", "y"]},
    {"name": "c", "seconds": math.nan, "runs": 12, "tags": []},
]


def test_a_terminal_table_aligns_numbers_right_and_words_left():
    assert render(ROWS, TableFormat.text).splitlines() == [
        "name  seconds  runs  tags",
        "a-b   0.01235     3  x, y",
        "c                12",
    ]


def test_a_markdown_table_has_a_rule_under_its_heading():
    heading, rule, first, _ = render(ROWS, TableFormat.markdown).splitlines()
    assert heading == "| name | seconds | runs | tags |" and set(rule) <= set("|-: ")
    assert first == "| a-b | 0.01235 | 3 | x, y |"


def test_csv_and_json_keep_every_digit_and_leave_out_what_is_no_number():
    assert to_csv(ROWS).splitlines()[1:] == [
        "a-b,0.012345678,3,\"['x', 'y']\"",
        "c,,12,[]",
    ]
    first, second = json.loads(render(ROWS, TableFormat.json))
    assert first == ROWS[0] and second["seconds"] is None


def test_what_is_equal_in_all_rows_is_said_once_to_people_and_kept_in_files():
    rows = [{"model": "a", "tp": tp, "none": math.nan} for tp in (1, 2)]
    said = render(rows, TableFormat.text, once=True)
    assert said.splitlines() == ["in all rows: model a, none", "", "tp", " 1", " 2"]
    assert render(rows[:1], TableFormat.text, once=True) == render(rows[:1], TableFormat.text)
    assert render(rows, TableFormat.csv, once=True) == to_csv(rows)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_no_json_holds_a_number_that_parsers_refuse(value: float):
    assert json.loads(to_json({"deep": [{"er": value}]})) == {"deep": [{"er": None}]}


@pytest.mark.parametrize(
    ("rate", "throughput"), [(4.0, "set by the load"), (400.0, "not validated")]
)
def test_a_reader_sees_no_interval_where_the_load_sets_the_throughput_or_is_not_sustained(
    rate: float, throughput: str
) -> None:
    given = {"model": "meta-llama/Llama-3.1-8B", "system": "h100", "rate": rate}
    row = folded(serve(ask("serve", given), on_error="status").rows[0])
    assert row["output_tokens_per_s 80 %"] == row["usd_per_million_tokens 80 %"] == throughput
    assert (row["ttft 80 %"] == "") is math.isinf(row["ttft_s"]) is (row["status"] == "overloaded")


def test_users_that_wait_are_counted_in_the_message():
    given = {"model": "meta-llama/Llama-3.1-8B", "system": "h100", "concurrency": [16, 4096]}
    few, many = serve(ask("serve", given)).rows
    pool = serve(ask("serve", {**given, "concurrency": 32, "prefill_workers": 1})).rows[0]
    assert "run at once" not in pool["message"]
    assert "run at once" not in few["message"]
    said = f"about {many['capacity']:,.0f} of 4,096 users run at once (more do not fit in memory)"
    assert said in many["message"]


def test_users_that_wait_for_a_prefill_pool_are_counted_and_it_is_named():
    given = {"model": "meta-llama/Llama-3.1-8B", "system": "h100", "isl": 4096, "osl": 64}
    row = serve(ask("serve", {**given, "concurrency": 256, "prefill_workers": 1})).rows[0]
    assert row["running"] < row["capacity"]
    said = f"about {row['running']:,.0f} of 256 users run at once (the prefill pool or its link"
    assert row["message"].startswith(said)


@pytest.mark.parametrize("dp", [1, 2])
def test_users_that_wait_for_a_place_in_the_engine_are_told_which_limit_it_is(dp: int):
    given = {"model": "meta-llama/Llama-3.1-8B", "system": "h100", "concurrency": 200}
    row = serve(ask("serve", {**given, "dp": dp, "max_num_seqs": 64})).rows[0]
    each = " on each of 2 ranks" if dp == 2 else ""
    said = f"about {64 * dp} of 200 users run at once (max_num_seqs is 64{each})"
    assert said in row["message"] and row["running"] == pytest.approx(64 * dp, rel=0.01)


def test_users_that_wait_for_the_tokens_of_steps_are_told_how_many_these_are():
    given = {"model": "meta-llama/Llama-3.1-8B", "system": "h200", "isl": 4096, "osl": 32}
    row = serve(ask("serve", {**given, "concurrency": 128, "length_ratio": 1.0})).rows[0]
    assert row["running"] == pytest.approx(64, rel=0.01)
    assert row["message"].startswith(
        "about 64 of 128 users run at once (max_num_batched_tokens is 8,192, and a prompt has "
        "about 4,096 tokens to prefill), and TTFT includes the wait of the others"
    )


def test_whole_prompts_that_limit_the_users_are_named_once():
    """A budget with room for a prompt and 50 answers, fewer than the memory holds."""
    given = {"model": "meta-llama/Llama-3.1-8B", "system": "h200", "isl": 8000, "osl": 400}
    limits = {"engine": "trtllm", "max_num_batched_tokens": 8050, "length_ratio": 1.0}
    row = serve(ask("serve", {**given, **limits, "concurrency": 400})).rows[0]
    assert row["message"].startswith("without chunked prefill, a prompt waits")
    assert "users run at once" not in row["message"]


def test_fewer_requests_than_users_are_as_many_users_that_start_together():
    given = {"model": "meta-llama/Llama-3.1-8B", "system": "h100", "burst_start": True}
    few = serve(ask("serve", {**given, "concurrency": 100, "requests": 5})).rows[0]
    five = serve(ask("serve", {**given, "concurrency": 5, "requests": 5})).rows[0]
    assert (few["ttft_s"], few["tpot_s"]) == (five["ttft_s"], five["tpot_s"])
