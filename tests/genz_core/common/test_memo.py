"""Cached results by the identity of their inputs."""

from __future__ import annotations

from genz_core.common.memo import ByIdentity


def test_the_same_objects_and_values_are_made_into_a_result_once():
    memo, made, key = ByIdentity[list](), [], {"equal": 1}

    def make():
        made.append(len(made))
        return [len(made)]

    assert memo.get(make, key) is memo.get(make, key)
    assert made == [0]
    assert memo.get(make, {"equal": 1}) == [2], "equal, but another object"
    assert memo.get(make, key, values=7) == [3], "the same object, but other values"


def test_the_result_that_was_used_longest_ago_is_dropped():
    memo, keys = ByIdentity[object](size=2), [object() for _ in range(3)]
    first, second = (memo.get(object, key) for key in keys[:2])
    assert memo.get(object, keys[0]) is first
    memo.get(object, keys[2])
    assert memo.get(object, keys[0]) is first
    assert memo.get(object, keys[1]) is not second
