"""Time to read the figures of 100,000 priced configurations.

Run with ``pytest -m benchmark tests/benchmarks/test_reading_speed.py``; seconds of processor time.
"""

from __future__ import annotations

import time

import numpy as np
import pytest
import ridgeline

from app.scenario.results import Estimate

pytestmark = pytest.mark.benchmark(timer=time.process_time)
SIZE = 100_000


@pytest.fixture(scope="module")
def priced() -> Estimate:
    rng = np.random.default_rng(0)
    sizes = {"batch": rng.integers(1, 257, SIZE), "isl": rng.integers(1, 8193, SIZE)}
    return ridgeline.estimate("meta-llama/Llama-3.1-8B", engine="vllm", on_error="status", **sizes)


def unread(priced: Estimate) -> Estimate:
    """The same estimate, with no figure computed yet."""
    return Estimate(priced.resolved, priced.engine_estimate, priced.scalar, priced.varied)


def test_the_first_figure_computes_all_columns(benchmark, priced: Estimate):
    found = benchmark(lambda: unread(priced).tpot_s)
    assert found.shape == (SIZE,) and benchmark.stats["min"] < 0.5


def test_another_figure_is_there(benchmark, priced: Estimate):
    assert benchmark(lambda: priced.e2e_high_s).shape == (SIZE,)
    assert benchmark.stats["min"] < 1e-3


def test_a_repr_reads_eight_rows(benchmark, priced: Estimate):
    assert f"{SIZE} rows" in benchmark(lambda: repr(priced))
    assert benchmark.stats["min"] < 1e-2


def test_a_data_frame_has_every_row(benchmark, priced: Estimate):
    assert len(benchmark(priced.to_dataframe)) == SIZE
    assert benchmark.stats["min"] < 1.0


def test_rows_for_json(benchmark, priced: Estimate):
    assert len(benchmark(lambda: priced.rows)) == SIZE
    benchmark.extra_info["rows_per_s"] = SIZE / benchmark.stats["min"]
