"""Why a device is idle inside a step: examples on a timeline in microseconds."""

import numpy as np
import pytest

import profilers
from profilers.schema import (
    COPY_COLUMNS,
    HOST_COLUMNS,
    METRIC_COLUMNS,
    RANGE_COLUMNS,
    WAIT_COLUMNS,
    kernel_table,
    table,
)  # fmt: skip
from profilers.timeline.idle import step_clocks
from profilers.timeline.step_launches import step_launches

US = 1e-6


def clocks_of(*kernels, waits=()):
    """Clocks of a step of kernels (launch, start, duration[, class]) [us], and waits (from, to)."""
    launch, start, length = (np.array([k[at] for k in kernels], dtype=float) for at in range(3))
    frame = kernel_table(
        {
            "name": [f"kernel {at}" for at in range(len(kernels))],
            "start_s": start * US, "duration_s": length * US, "launch_s": launch * US,
            "operator_class": [k[3] if len(k) > 3 else "gemm" for k in kernels],
            "in_graph": [len(k) > 4 for k in kernels],
            "phase": ["decode"] * len(kernels),
            "step": np.zeros(len(kernels), dtype=np.int64),
        }
    )  # fmt: skip
    empty = (COPY_COLUMNS, RANGE_COLUMNS, HOST_COLUMNS, METRIC_COLUMNS)
    spans = np.array(waits, dtype=float).reshape(-1, 2) * US
    waited = table(WAIT_COLUMNS, {"start_s": spans[:, 0], "duration_s": spans[:, 1] - spans[:, 0]})
    report = profilers.Report(
        "torch-trace", "torch", None, "made", frame, *(table(c, {}) for c in empty), waits=waited
    )
    launches = step_launches([report], "decode")
    assert launches is not None
    found = step_clocks(launches, [report])
    assert found is not None
    assert found.busy_s + found.idle_s == pytest.approx(found.wall_s)
    assert sum(found.causes.values()) == pytest.approx(found.idle_s)
    return found


def test_short_kernels_launched_one_by_one_are_launch_bound():
    found = clocks_of((0, 5, 2), (10, 15, 2), (20, 25, 2))
    assert found.wall_s == pytest.approx(22 * US)
    assert found.idle_s == pytest.approx(16 * US)
    assert found.cause == "launch-bound"


def test_a_long_gap_before_a_late_launch_is_the_hosts():
    assert clocks_of((0, 5, 20), (500, 505, 2), (501, 507, 200)).cause == "host"


def test_a_gap_after_the_host_waited_is_a_synchronisation():
    found = clocks_of((0, 5, 100), (190, 200, 100), waits=[(10, 110)])
    assert found.causes == {"synchronisation": pytest.approx(95 * US)}


def test_a_wait_that_ended_long_before_is_no_cause():
    assert clocks_of((0, 5, 100), (190, 200, 100), waits=[(1, 3)]).cause == "host"


def test_a_kernel_launched_in_time_waited_on_the_device():
    assert clocks_of((0, 5, 10), (1, 30, 10)).cause == "device"


def test_gaps_inside_a_graph_are_the_graphs():
    assert clocks_of((0, 5, 10, "gemm", 1), (0, 17, 10, "gemm", 1)).cause == "graph"


def test_collectives_that_run_alone_are_exposed():
    found = clocks_of((0, 0, 10), (1, 5, 20, "communication"), (2, 15, 5))
    assert found.idle_s == pytest.approx(0.0, abs=1e-12)
    assert found.exposed_communication_s == pytest.approx(10 * US), "10 to 15 and 20 to 25"


def test_a_step_without_a_timeline_has_no_clocks(report_of):
    report = report_of("csv/llm-perf-opt/decode_cuda_gpu_kern_sum.csv")
    launches = step_launches([report], "decode")
    assert launches is None or step_clocks(launches, [report]) is None


def test_idle_time_of_no_launches_known_is_of_unknown_cause():
    found = clocks_of((np.nan, 5, 10), (np.nan, 30, 10))
    assert found.cause == "unknown"


def test_a_stray_launch_long_before_a_step_is_no_part_of_it():
    found = clocks_of((0, 0, 1), (900, 1000, 100), (1000, 1100, 100), (1100, 1200, 100))
    assert found.wall_s == pytest.approx(300 * US)
