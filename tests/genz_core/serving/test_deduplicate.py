"""Loads that are priced once: the same figures as one by one."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import hardware_db
import model_registry
from genz_core.serving import Traffic, serve
from genz_core.serving.deduplicate import Kinds
from genz_core.types import Parallelism


@given(hnp.arrays(float, (3, 12), elements=st.sampled_from([0.0, 1.0, 2.5])))
def test_a_kind_holds_those_that_agree_in_every_number(numbers):
    kinds = Kinds.told_by(numbers)
    assert np.array_equal(numbers[:, kinds.first[kinds.of]], numbers)
    assert len(np.unique(numbers, axis=1).T) == kinds.first.size


@pytest.mark.parametrize("name", ["Qwen/Qwen3-30B-A3B", "meta-llama/Llama-3.1-8B"])
@pytest.mark.parametrize("loop", ["concurrency", "rate_per_s"])
def test_loads_that_repeat_side_by_side_are_served_as_each_alone(name, loop):
    model, system = model_registry.load(name), hardware_db.load("h100")
    tp, pp = np.array([1.0, 1, 2, 2, 1, 2]), np.array([1.0, 1, 1, 1, 2, 2])
    users, limit = np.array([8.0, 64, 64, 64, 8, 3]), np.array([4.0, 4, 0, 0, 4, 0])
    load = users if loop == "concurrency" else users / 10
    lengths = {"isl": 1000, "osl": 100}

    def served(**more):
        split = Parallelism(tp=more.pop("tp"), pp=more.pop("pp"))
        return serve(model, system, Traffic(**lengths, **more), split, on_error="status")

    together = served(tp=tp, pp=pp, max_num_seqs=limit, **{loop: load})
    for at in range(users.size):
        alone = served(tp=tp[at], pp=pp[at], max_num_seqs=limit[at], **{loop: load[at]})
        for field in fields(together):
            whole, part = getattr(together, field.name), getattr(alone, field.name)
            if isinstance(whole, np.ndarray) and whole.dtype.kind == "f":
                np.testing.assert_allclose(
                    whole[at], np.ravel(part)[0], rtol=1e-9, err_msg=field.name
                )
