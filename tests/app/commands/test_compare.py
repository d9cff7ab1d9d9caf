"""`compare`: which measurements lie inside, in words and numbers."""

import json
import re

from genz_core.errors import InvalidValue
from tests.app.pages import DECODE, QWEN


def test_words_and_numbers_tell_which_measurements_lie_inside(printed):
    call = ("compare", DECODE, "--model", "Qwen/Qwen3-8B", "--system", "epyc-9654")
    words, document, table = (
        printed(*call, *more) for more in ((), ("--json",), ("--format", "csv"))
    )
    assert {"80 %", "inside 80 %"} <= set(re.split(r"  +", words.splitlines()[1]))
    judged = [row for row in json.loads(document)["classes"] if row["inside"] is not None]
    assert len(judged) > 2
    for row in judged:
        assert row["inside"] is (row["low_s"] <= row["measured_s"] <= row["high_s"])
    assert table.splitlines()[1].split(",")[2:6] == ["predicted_s", "low_s", "high_s", "measured_s"]


def test_a_report_without_phases_is_refused_with_the_option_that_names_one(ridgeline, answer):
    call = ("compare", QWEN, "--model", "Qwen/Qwen1.5-0.5B")
    refused = ridgeline(*call)
    assert isinstance(refused.exception, InvalidValue)
    assert "--as prefill" in str(refused.exception)
    (phase,) = answer(*call, "--as", "prefill")["phases"]
    assert phase["phase"] == "prefill" and phase["measured_s"] > 0
