"""Intervals of pools and drafts, from runs that were not used for fitting."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest

from app.accuracy import kind_intervals
from app.accuracy.kind_intervals import Compared, coverage, ends, table
from app.accuracy.tables import path_of
from hardware_db.intervals import WIDEST, Kind, kind_interval


def compared(kind: str, values: list[float], isl: int = 1024, each: int = 1) -> list[Compared]:
    return [
        Compared(kind, (str(at // each),), isl, dict.fromkeys(kind_intervals.METRICS, value))
        for at, value in enumerate(values)
    ]


def test_an_interval_holds_the_prediction_and_eighty_of_a_hundred_runs():
    values = np.linspace(-0.2, 0.6, 101).tolist()
    low, high = ends(values)
    assert (low, high) == pytest.approx((-0.12, 0.52))
    assert ends([0.3, 0.4, 0.5])[0] == 0.0


def test_coverage_is_of_deployments_left_out():
    """One deployment with half of the runs and a large error lies outside the others' interval."""
    near, far = compared("pools", [0.01, -0.01] * 20), compared("pools", [3.0] * 40, each=40)
    mixed = [*near, *(Compared("pools", ("far",), 1024, one.log_ratio) for one in far)]
    assert coverage(mixed, "tpot_s") <= 0.5
    generator = np.random.default_rng(3)
    plain = compared("pools", generator.normal(0.0, 0.3, 600).tolist(), each=3)
    assert coverage(plain, "tpot_s") == pytest.approx(0.8, abs=0.03)


def test_few_runs_have_no_row():
    assert not table(compared("drafts", [0.1] * 5))
    rows = table(compared("drafts", [0.1, -0.1] * 20), "2026-01-31")
    assert [row["metric"] for row in rows] == list(kind_intervals.METRICS)
    assert rows[0]["low"] < 1.0 < rows[0]["high"] and rows[0]["date"] == "2026-01-31"


def test_the_table_that_ships_covers_eight_of_ten_runs():
    with path_of("engines", kind_intervals.KEPT).open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["kind"] for row in rows} == {"pools", "drafts"}
    for row in rows:
        count, share = int(row["points"]), float(row["coverage %"]) / 100.0
        assert abs(share - 0.8) < 3.0 * math.sqrt(0.8 * 0.2 / count)
        assert float(row["width"]) == pytest.approx(
            float(row["high"]) / float(row["low"]), rel=0.02
        )


def test_an_interval_that_says_nothing_is_none_and_prompts_have_their_own():
    isl = np.array([1000.0, 16_000.0])
    for metric in kind_intervals.METRICS:
        whole = kind_interval(metric, Kind("pools", isl), widest=math.inf)
        for at, tokens in enumerate(isl):
            one = kind_interval(metric, Kind("pools", tokens), widest=math.inf)
            assert (one.low, one.high) == (whole.low[at], whole.high[at])
            shown = kind_interval(metric, Kind("pools", tokens))
            assert (shown is None) == (one.high > WIDEST)
    assert kind_interval("tpot_s", Kind("unheard of", 1000)) is None
