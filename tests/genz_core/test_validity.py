"""Arrays of configurations: one length, repeated, checked, replaced if they cannot run."""

from __future__ import annotations

import numpy as np
import pytest

from genz_core.errors import InvalidParallelism, InvalidValue, OutOfMemory
from genz_core.types import Parallelism, Workload
from genz_core.validity import check, columns, length, raise_for_status, spread_out, stack


def test_numbers_and_arrays_come_to_one_length():
    load, split = Workload(batch=np.array([1, 2, 3]), isl=10), Parallelism(tp=2, moe_tp=4)
    numbers = columns(load, split)
    assert {len(column) for column in numbers.values()} == {3}
    assert numbers["isl"].tolist() == [10, 10, 10] and numbers["moe_tp"].tolist() == [4, 4, 4]
    assert "moe_tp" not in columns(load, Parallelism())
    one = columns(Workload(batch=[3], isl=np.float64(5.0)), Parallelism(tp=np.array([2])))
    assert [one[name].tolist() for name in ("batch", "isl", "tp")] == [[3.0], [5.0], [2.0]]
    assert length(1, np.ones(4)) == 4 and length(2.0) == 1


def test_rows_of_numbers_and_arrays_are_stacked():
    stacked = stack([1.0, np.array([2.0, 3.0]), np.array([4.0])], 2)
    assert stacked.tolist() == [[1, 1], [2, 3], [4, 4]]


def test_every_configuration_has_its_sizes_and_numbers_of_a_split_stay_numbers():
    load = Workload(np.array([1, 2]), 10)
    sizes, split = spread_out(load, Parallelism(tp=np.array([1, 2]), pp=4))
    assert sizes["batch"].tolist() == [1, 2] and sizes["isl"].tolist() == [10, 10]
    assert sizes["pp"].tolist() == [4, 4]
    assert split.tp.tolist() == [1, 2] and split.pp == 4


def test_configurations_that_cannot_run_are_marked_and_replaced(model):
    load = Workload(np.array([8, 9, 10]), 100, 10, cached=np.array([5, 5, 400]))
    checked = check(model, load, Parallelism(tp=np.array([1, 3, 2])))
    assert checked.status.tolist() == ["ok", "invalid_parallelism", "ok"]
    assert list(checked.complaints) == [1] and "tp=3" in checked.complaints[1]
    assert checked.workload.batch.tolist() == [8, 1, 10]
    assert checked.parallelism.tp.tolist() == [1, 1, 2]
    assert checked.workload.cached.tolist() == [5, 0, 99], "at most all but the last token"


def test_a_size_outside_its_range_is_named_as_the_caller_calls_it(model):
    with pytest.raises(InvalidValue, match=r"concurrency = 0\.5.*at least 1"):
        check(model, Workload(0.5), Parallelism(), batch_is="concurrency")
    with pytest.raises(InvalidValue, match=r"cached = -1.*at least 0"):
        check(model, Workload(cached=-1), Parallelism())


def test_the_first_code_that_is_not_ignored_raises_its_error():
    status = np.array(["ok", "out_of_memory", "invalid_parallelism"])
    with pytest.raises(OutOfMemory, match="configuration 1: reason 1"):
        raise_for_status(status, lambda at: f"reason {at}")
    with pytest.raises(InvalidParallelism, match="configuration 2: reason 2"):
        raise_for_status(status, lambda at: f"reason {at}", ignore=["out_of_memory"])
    raise_for_status(status[:1], str)
    raise_for_status(np.array(["overloaded"]), str)
