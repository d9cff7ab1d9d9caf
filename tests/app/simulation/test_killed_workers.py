"""Sweeps, plans and simulations over a cluster of which a worker is killed: nothing is lost.

The scheduler and its workers are programs of their own, as on several machines; one is ended by
SIGKILL as soon as a first piece of work is complete.
"""

from __future__ import annotations

import csv

import numpy as np
import pandas as pd
import pytest

from app.planning import sweep_file
from app.planning.search import price
from app.planning.sweep_axes import sweep_axes
from app.simulation import rows_file
from app.simulation.executor import Where
from tests.app.clusters import machines
from tests.app.planning.asking import asked

pytestmark = pytest.mark.slow
LLAMA = "meta-llama/Llama-3.1-8B"


def test_a_sweep_is_the_same_with_a_killed_worker(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep_file, "ROWS_A_PART", 500)
    axes = sweep_axes(
        {"model": LLAMA, "system": ["h100", "h200", "b200"], "tp": [1, 2, 4, 8],
         "batch": {"from": 1, "to": 50, "step": 1}, "isl": {"from": 16, "to": 800, "step": 16}}
    )  # fmt: skip
    sweep_file.sweep(axes, tmp_path / "here.parquet")
    with machines(tmp_path) as cluster:
        done = sweep_file.sweep(
            axes, tmp_path / "there.parquet", lambda *_: cluster.kill_one(),
            where=Where(cluster=cluster.address),
        )  # fmt: skip
        assert cluster.killed and cluster.workers[0].wait() == -9
    assert done is not None and done.rows == len(axes) == 30_000
    here, there = (pd.read_parquet(tmp_path / f"{name}.parquet") for name in ("here", "there"))
    pd.testing.assert_frame_equal(here, there)


def test_simulations_are_the_same_with_a_killed_worker(tmp_path):
    source = tmp_path / "in.csv"
    rows = [{"id": at, "model": LLAMA, "system": "h100", "engine": "vllm", "rate": 2 + at % 7,
             "requests": 60, "isl": 128, "osl": 32, "seed": at} for at in range(40)]  # fmt: skip
    with source.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    with machines(tmp_path) as cluster:
        there = rows_file.run_file(
            source, tmp_path / "there.csv", 0, cluster.address, lambda *_: cluster.kill_one()
        )
        assert cluster.killed and cluster.workers[0].wait() == -9
    here = rows_file.run_file(source, tmp_path / "here.csv", 2)
    assert there.complete and there.rows == here.rows


def test_a_plan_is_the_same_with_a_killed_worker(tmp_path):
    question = asked(LLAMA, systems="h100,h200,b200,mi300x", devices="1:64", rate=20,
                     simulate=False)  # fmt: skip
    here, left = price(question)
    with machines(tmp_path) as cluster:
        there, missing = price(
            question, lambda share, _: cluster.kill_one() if share else None,
            where=Where(cluster=cluster.address),
        )  # fmt: skip
        assert cluster.killed and cluster.workers[0].wait() == -9
    assert left == missing and (here.status == there.status).all()
    for name, column in here.columns.items():
        np.testing.assert_array_equal(column, there.columns[name], name)
