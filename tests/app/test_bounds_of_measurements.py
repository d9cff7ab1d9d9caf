"""No bound exceeds a measurement, for every shipped kernel and run."""

from __future__ import annotations

import numpy as np
import pytest

import hardware_db
from app.accuracy.measured_points import as_run, measured_rows
from app.scenario import points_file
from genz_core.errors import UnknownSystem
from genz_core.latency.measured_operators import OperatorPoints, bound_s
from hardware_db.tables import table

TOLERANCE = 1.02
METRICS = {"serving": ("ttft_s", "tpot_s"), "published": ("",)}


def named():
    rows = table("measurements", "beyond_bounds")
    assert all(row["reason"] for row in rows)
    return {(row["table"], row["id"], row["metric"]) for row in rows}


def points(row):
    sizes = dict(size.split("=") for size in row["shape"].split())
    dims = {name: np.array([float(value)]) for name, value in sizes.items()}
    measured = np.array([float(row["measured_s"])])
    # Benchmarks repeat the same operands, which may stay in the last-level cache.
    return OperatorPoints(row["operator"], row["fmt"], dims, measured, warm_cache=True)


@pytest.mark.slow
def test_no_bound_lies_above_a_measured_kernel():
    beyond, checked = [], 0
    for row in table("profiles", "held_out_points"):
        try:
            system = hardware_db.load(row["system"])
        except UnknownSystem:
            continue  # measured, but not a shipped system
        kernel = points(row)
        checked += 1
        if bound_s(kernel, system)[0] > TOLERANCE * kernel.measured_s[0]:
            beyond.append((row["operator"], row["system"], row["fmt"], row["shape"]))
    assert checked > 3000 and not beyond


@pytest.mark.parametrize("name", METRICS)
def test_no_bound_lies_above_a_measured_run_but_those_named_with_a_reason(name, priced_once):
    rows = measured_rows(name)
    beyond = set()
    estimates = points_file.price([as_run(row) for row in rows])
    for row, priced in zip(rows, estimates, strict=True):
        for metric in METRICS[name]:
            bound = priced[points_file.FIGURES[metric or row["phase"]].bound]
            measured = float(row[f"measured_{metric}" if metric else "measured_s"])
            if bound and float(bound) > TOLERANCE * measured:
                beyond.add((name, row["id"], metric or row["phase"]))
    assert beyond == {key for key in named() if key[0] == name}
