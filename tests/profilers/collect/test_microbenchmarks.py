"""Microbenchmarks: cold operands, medians of interleaved rounds, points that a fit accepts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from genz_core.common.progress import Cancelled
from genz_core.errors import MeasurementError
from genz_core.latency.measured_operators import bound_s
from genz_core.systems import System
from profilers.collect import bench, cases
from profilers.collect import microbenchmarks as micro
from profilers.collect.clock import (
    Clock,
    contention,
    contention_note,
    refuse_overload,
    set_threads,
    use_threads,
)
from profilers.collect.measured_model import pick_device


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch) -> Callable[..., micro.Suite]:
    """Runs some cases with operands from a small pool, because their times are not checked."""
    monkeypatch.setattr(bench, "_LEAST_POOL_BYTES", {"cpu": 2**24})
    monkeypatch.setattr(bench, "_CACHES", 0)

    def run(*chosen: bench.Case) -> micro.Suite:
        return micro.run_suite(pick_device("cpu"), chosen, budget_s=5.0)

    return run


def test_a_suite_of_every_kind_gives_points_of_every_kind(suite) -> None:
    done = suite(
        cases.gemm(2, 96, 192),
        cases.gemm(2, 96, 192, "fp32"),
        cases.prefill_attention(1, 40, 4, 2, 32),
        cases.decode_attention(2, 40, 4, 2, 32),
        cases.moe(6, 4, 2, 64, 96),
        cases.add(4096),
    )
    kinds = {(points.operator, points.fmt) for points in done.operator_points()}
    assert kinds == {
        ("gemm", "bf16"),
        ("prefill_attention", "bf16/bf16"),
        ("decode_attention", "bf16/bf16"),
        ("moe", "bf16"),
        ("pointwise", "default"),
    }
    assert all(result.median_s > 0 for result in done.results)
    assert {row["format"] for row in done.rows() if row["operator"] == "gemm"} == {"bf16", "fp32"}


def test_keys_that_heads_of_a_cpu_share_cross_memory_once(suite) -> None:
    """Eight query heads read the keys of two; the bound counts the memory traffic of those two."""
    done = suite(cases.decode_attention(3, 640, 8, 2, 64))
    (entry,) = done.operator_points()
    slow = System(
        "s", "S", "v", "cpu", "f", {"bf16": 1e15}, 1e9, 1e9, compute_units=1, clock_hz=1e9
    )
    assert entry.op().dims["kv_heads"] == 8
    keys_and_values, queries_and_outputs = 2 * 3 * 640 * 2 * 64, 2 * 3 * 8 * 64
    assert bound_s(entry, slow) == pytest.approx(2 * (keys_and_values + queries_and_outputs) / 1e9)


def test_rows_count_flops_and_bytes_of_a_product(suite) -> None:
    row = suite(cases.gemm(3, 96, 192)).rows()[0]
    assert row["flops_per_s"] * row["time_s"] == pytest.approx(2 * 3 * 96 * 192)
    assert row["bytes_per_s"] * row["time_s"] == pytest.approx(2 * (96 * 192 + 3 * 192 + 3 * 96))


def test_the_pool_hands_out_other_memory_each_time_until_it_is_used_up() -> None:
    pool = bench.Bench.on(pick_device("cpu"))
    first, second = pool.cold(64, 64), pool.cold(64, 64)
    assert first.data_ptr() != second.data_ptr()
    pieces = pool.pool.numel() // 4096
    for _ in range(pieces - 2):
        pool.cold(64, 64)
    assert pool.cold(64, 64).data_ptr() == first.data_ptr()


def test_the_pool_is_larger_than_the_last_level_cache() -> None:
    from profilers.collect.machine import cpu

    pool = bench.Bench.on(pick_device("cpu"))
    assert pool.pool.numel() * 2 >= 4 * (cpu().l3_bytes or 0)


def test_a_case_that_the_build_cannot_run_is_left_out_and_named(suite) -> None:
    def broken(_pool: bench.Bench) -> bench.Run:
        raise NotImplementedError("no such kernel")

    case = bench.Case("moe", "bf16", {}, 1.0, 1.0, broken)
    done = suite(cases.add(64), case)
    assert [result.operator for result in done.results] == ["pointwise"]
    assert done.facts["left_out"] == "moe bf16: no such kernel"
    with pytest.raises(MeasurementError, match="no such kernel"):
        suite(case)


def test_a_stopped_suite_says_where() -> None:
    with pytest.raises(Cancelled) as stopped:
        micro.run_suite(pick_device("cpu"), [cases.add(64)], cancelled=lambda: True)
    assert stopped.value.at == "round 1 of the microbenchmarks"


def test_the_experts_multiply_what_a_plain_loop_multiplies() -> None:
    import torch

    rows, weights = torch.randn(6, 16).bfloat16(), torch.randn(3, 16, 8).bfloat16()
    ends = torch.tensor([2, 2, 6], dtype=torch.int32)
    expected = torch.cat([rows[:2] @ weights[0], rows[2:2] @ weights[1], rows[2:] @ weights[2]])
    assert torch.allclose(cases._grouped(rows, weights, ends).float(), expected.float(), atol=0.1)


def test_no_standard_product_has_a_power_of_two_for_a_side() -> None:
    products = [c for c in cases.standard_cases(pick_device("cpu")) if c.operator == "gemm"]
    sides = {int(case.dims[axis]) for case in products for axis in "nk"}
    assert len(products) > 20 and len(sides) >= 5
    assert not [side for side in sides if side % 96 or side & (side - 1) == 0]


def test_one_thread_on_a_cpu_is_timed_by_its_processor_time() -> None:
    import time

    clock = Clock.for_device(pick_device("cpu"))
    assert clock.basis == "cpu"
    assert clock.time(lambda: time.sleep(0.05)) < 0.02


@pytest.mark.parametrize("threads", [-1, 10_000])
def test_threads_that_are_not_there_are_refused(threads: int) -> None:
    with pytest.raises(MeasurementError, match="threads: give 1 to"):
        set_threads(threads)


def test_two_suites_join_case_by_case(suite) -> None:
    first, second = suite(cases.add(64), cases.add(128)), suite(cases.add(64))
    both = first.joined(second)
    assert [result.dims for result in both.results] == [{"bytes": 384.0}]
    assert both.results[0].samples_s == first.results[0].samples_s + second.results[0].samples_s


@pytest.mark.parametrize(
    ("threads", "busy_share", "expected"),
    [(1, 0.5, 2.0), (4, 2.0, 2.0), (1, 1.0, 1.0), (1, 1.2, 1.0)],
)
def test_contention_is_wall_time_over_the_processor_time_of_a_thread(
    monkeypatch: pytest.MonkeyPatch, threads: int, busy_share: float, expected: float
) -> None:
    """A clock on which the process gets that many cores; more than its threads count as all."""
    wall = itertools.count(step=0.125)
    last = 0.0

    def perf_counter() -> float:
        nonlocal last
        last = next(wall)
        return last

    fake = SimpleNamespace(perf_counter=perf_counter, process_time=lambda: busy_share * last)
    monkeypatch.setattr("profilers.collect.clock.time", fake)
    assert contention(threads) == pytest.approx(expected)


def test_cores_that_others_hold_are_refused_beyond_a_third(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuse_overload(1.3, 2)
    with pytest.raises(MeasurementError, match=r"1\.62 times the processor time"):
        refuse_overload(1.62, 2)
    assert "1.62" in contention_note(1.62) and "other programs" in contention_note(1.62)
    assert "free" in contention_note(1.0)


@pytest.mark.parametrize(("asked", "busy", "threads"), [(0, 2.0, 1), (1, 2.0, 1)])
def test_shared_cores_leave_a_run_one_thread(
    monkeypatch: pytest.MonkeyPatch, asked: int, busy: float, threads: int
) -> None:
    import torch

    measured = []
    monkeypatch.setattr(
        "profilers.collect.clock.contention", lambda count: measured.append(count) or busy
    )
    assert use_threads(torch.device("cpu"), asked) == busy
    assert torch.get_num_threads() == threads == measured[-1], "contention of those that run"
