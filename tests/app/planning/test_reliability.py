"""The table of how often targets are met is right where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from app.planning.reliability import BOTH, FACTORS, chances, document, scores, table


def records(spread, told, size=4000):
    """Runs whose measured over predicted is lognormal with one spread, and stated with another."""
    generator = np.random.default_rng(1)
    end = np.exp(1.2815515655446004 * told)
    return [
        {"id": str(row), "metric": metric, "status": "ok", "predicted_s": 2.0,
         "measured_s": 2.0 * float(np.exp(spread * generator.standard_normal())),
         "low_s": 2.0 / end, "high_s": 2.0 * end}
        for metric in ("ttft_s", "tpot_s")
        for row in range(size)
    ]  # fmt: skip


def test_intervals_that_tell_the_truth_give_probabilities_that_come_true():
    pairs = chances(records(0.2, 0.2))
    assert set(pairs) == {"ttft_s", "tpot_s", BOTH}
    for row in table(pairs):
        assert row["met %"] == pytest.approx(row["mean probability %"], abs=3.0)
    for row in scores(pairs):
        assert row["largest gap %"] < 3.0
        assert row["score"] < row["score of the base rate"]


def test_intervals_that_are_too_narrow_show_as_a_gap():
    for row in scores(chances(records(0.5, 0.1))):
        assert row["largest gap %"] > 10.0


def test_rows_without_an_interval_or_that_cannot_run_do_not_count():
    few = records(0.2, 0.2, 3)
    few[0]["low_s"] = float("nan")
    few[1]["status"] = "out_of_memory"
    pairs = chances(few)
    assert pairs["ttft_s"][0].size == len(FACTORS)
    assert pairs[BOTH][0].size == len(FACTORS)
    assert "| " in document(few, "2026-01-01")
