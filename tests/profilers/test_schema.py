"""One table for every tool: its columns are fixed, and unknown values stay unknown."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genz_core.errors import ReportError
from profilers.schema import (
    COPY_COLUMNS,
    HOST_COLUMNS,
    KERNEL_COLUMNS,
    OPERATOR_COLUMNS,
    RANGE_COLUMNS,
    PhaseTiming,
    kernel_table,
    table,
)
from profilers.timeline import time_spans


def test_a_table_has_the_columns_and_types_of_its_list():
    kernels = kernel_table({"name": ["a", "b"], "duration_s": [1.0, 2.0]})
    assert {name: str(dtype) for name, dtype in kernels.dtypes.items()} == dict(KERNEL_COLUMNS)


@pytest.mark.parametrize(
    "columns", [KERNEL_COLUMNS, COPY_COLUMNS, RANGE_COLUMNS, HOST_COLUMNS, OPERATOR_COLUMNS]
)
def test_a_table_of_nothing_has_all_its_columns(columns):
    empty = table(columns, {})
    assert list(empty.columns) == list(columns)
    assert len(empty) == 0


def test_what_a_report_does_not_say_is_unknown():
    row = kernel_table({"name": ["a"]}).iloc[0]
    known = {"name": "a", "count": 1}
    for column in KERNEL_COLUMNS:
        assert row[column] == known[column] if column in known else pd.isna(row[column])


def test_a_column_that_the_list_lacks_is_refused():
    with pytest.raises(ReportError, match="no such column: time_ms"):
        kernel_table({"name": ["a"], "time_ms": [1.0]})


def test_columns_of_unequal_length_are_refused():
    with pytest.raises(ReportError, match="unequal length"):
        kernel_table({"name": ["a"], "duration_s": [1.0, 2.0]})


def test_values_of_the_wrong_type_are_refused():
    with pytest.raises(ReportError, match="wrong type"):
        kernel_table({"duration_s": ["soon"]})


@pytest.mark.parametrize("column", ["duration_s", "count", "flops", "dram_bytes"])
def test_negative_amounts_are_refused(column):
    with pytest.raises(ReportError, match=f"negative {column}"):
        kernel_table({column: [-1]})


def test_a_phase_timing_tells_mean_spread_and_percentiles():
    timing = PhaseTiming("decode", (1.0, 2.0, 3.0, 4.0))
    assert (timing.mean_s, timing.median_s) == (2.5, 2.5)
    assert timing.std_s == pytest.approx(math.sqrt(5 / 3))
    assert timing.percentile_s(100) == 4.0
    assert math.isnan(PhaseTiming("decode", (1.0,)).std_s)
    assert math.isnan(PhaseTiming("decode", ()).mean_s)


spans = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=30)


@given(spans)
def test_the_union_of_intervals_counts_every_instant_once(some):
    start = np.array([s for s, _ in some], dtype=np.int64)
    end = np.array([s + length for s, length in some], dtype=np.int64)
    instants = {t for s, length in some for t in range(s, s + length)}
    assert time_spans.union(start, end) == len(instants)


@given(spans, st.lists(st.tuples(st.integers(0, 60), st.integers(0, 5)), max_size=20))
def test_the_innermost_range_is_the_one_that_encloses_the_call_most_closely(some, calls):
    """Ranges nest like pushes and pops: they are cut at the end of the enclosing one."""
    nested: list[tuple[int, int]] = []
    around: list[int] = []
    for start, length in sorted(set(some), key=lambda span: (span[0], -span[1])):
        while around and around[-1] <= start:
            around.pop()
        end = min([start + length, *around[-1:]])
        if end > start and (start, end) not in nested:
            nested.append((start, end))
            around.append(end)
    start = np.array([s for s, _ in nested], dtype=np.int64)
    end = np.array([e for _, e in nested], dtype=np.int64)
    thread = np.zeros(len(nested), dtype=np.int64)
    parent = time_spans.parents(thread, start, end)
    call_start = np.array([c for c, _ in calls], dtype=np.int64)
    call_end = np.array([c + length for c, length in calls], dtype=np.int64)
    its_thread = np.zeros(len(calls), dtype=np.int64)
    found = time_spans.innermost((thread, start, end, parent), (its_thread, call_start, call_end))
    for row, (call, length) in zip(found.tolist(), calls, strict=True):
        enclosing = [i for i, (s, e) in enumerate(nested) if s <= call and e >= call + length]
        closest = min(enclosing, key=lambda i: nested[i][1] - nested[i][0], default=-1)
        if length:  # an instant on a boundary belongs to both neighbours
            assert row == closest
        else:
            assert row in [*enclosing, -1]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 20)), max_size=25))
def test_ranges_that_nest_and_ranges_that_do_not_find_the_same_parents(some):
    """If ranges nest, a faster method by depth is used; it agrees with the plain one."""
    thread, start, length = (np.array([s[i] for s in some], dtype=np.int64) for i in range(3))
    end = start + length
    order = np.lexsort((-end, start, thread))
    nested = time_spans._nested_parents(thread[order], start[order], end[order])
    if nested is not None:
        plain = time_spans._open_parents(
            np.arange(len(some)), *(c[order] for c in (thread, start, end))
        )
        assert nested.tolist() == plain.tolist()


def test_ranges_nested_without_end_are_bounded():
    depth = 5000
    start, end = np.arange(depth), np.arange(depth) * -1 + 100_000
    thread = np.zeros(depth, dtype=np.int64)
    parent = time_spans.parents(thread, start, end)
    calls = (np.zeros(1, np.int64), np.array([90_000]), np.array([90_001]))
    assert time_spans.innermost((thread, start, end, parent), calls)[0] >= -1
