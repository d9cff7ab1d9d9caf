"""Likely causes of large errors: the rule that applies to a pair of figures."""

import pytest

from app.accuracy import likely_causes, measured_points
from app.accuracy.tables import columns_of


def run(metric: str, ratio: float, **facts: object) -> dict:
    """A record predicted at `ratio` times its measurement."""
    row = {"metric": metric, "predicted_s": ratio, "measured_s": 1.0, "status": "ok"}
    return row | {"model": "gpt2", "origin": "public_benchmark", **facts}


@pytest.mark.parametrize(
    ("row", "other", "words"),
    [
        (run("tpot_s", 5.0), run("ttft_s", 0.01), "fewer requests ran than were open"),
        (run("ttft_s", 0.01), run("tpot_s", 5.0), "fewer requests ran than were open"),
        (run("tpot_s", 8.0), run("ttft_s", 90.0), "may not have run"),
        (run("ttft_s", 0.05), run("tpot_s", 1.0), "long queueing"),
        (run("tpot_s", 2.0, model="deepseek-ai/DeepSeek-R1"), None, "multi-token prediction"),
        (run("tpot_s", 2.0), None, "not understood"),
        (run("tpot_s", 0.4, origin="vendor_grid"), None, "vendor's grid"),
        (run("tpot_s", 2.0, status="out_of_memory"), None, "does not fit"),
    ],
)
def test_a_suspicion_follows_from_both_figures_of_a_run(row: dict, other: dict | None, words: str):
    assert words in likely_causes.suspicion(row, other)


def labelled(at: int, ratio: float, source: str) -> dict:
    return run(
        "decode", ratio, id=f"run {at}", source=source, system="h100", engine="vllm",
        weights="bf16", phase="decode",
    )  # fmt: skip


def test_points_of_one_label_that_lean_alike_are_suspected_together_and_others_apart():
    leaning = [labelled(at, 0.5, "paper") for at in range(4)]
    alone = labelled(9, 0.5, "another paper")
    suspected = likely_causes.suspected_records(columns_of([*leaning, alone]), [leaning[0], alone])
    assert "share this bias" in suspected[0]["suspected"]
    assert suspected[1]["suspected"] == "not understood"
    assert "suspected" not in leaning[0]


def test_the_worst_are_the_furthest_in_ratio_and_not_in_difference():
    records = columns_of([{"error": error} for error in (0.1, 1.0, -0.6, float("nan"))])
    assert [row["error"] for row in measured_points.worst(records, 2)] == [-0.6, 1.0]
