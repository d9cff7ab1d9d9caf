"""A declaration checks its values: types, limits and choices, each with its own message."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.question.parameters import ALIASES, PARAMETERS, PARTS
from app.question.question import Question
from genz_core.errors import InvalidValue
from genz_core.limits import LIMITS
from tests.app.question.samples import NUMBERS


@given(st.sampled_from(NUMBERS), st.floats() | st.integers())
def test_a_number_is_taken_exactly_within_its_limits(one, value):
    inside = one.least < value if one.above else one.least <= value
    inside = inside and value <= one.most and abs(value) != float("inf")
    if inside and (one.kind == "number" or float(value).is_integer()):
        assert one.checked(value) == value
        assert isinstance(one.checked(value), int if one.kind == "whole" else float)
    else:
        with pytest.raises(InvalidValue, match=f"^{one.name} = "):
            one.checked(value)


@pytest.mark.parametrize("value", [True, "8", [8], {"a": 1}, object(), 10**400, "x" * 1000])
def test_what_is_no_number_is_refused_and_shown_in_short(value):
    if value == "8":  # a text that contains a number is accepted as one
        assert PARAMETERS["tp"].checked(value) == 8
        return
    with pytest.raises(InvalidValue) as said:
        PARAMETERS["tp"].checked(value)
    assert str(said.value).startswith("tp = ") and len(str(said.value)) < 160


def test_sizes_have_the_limits_of_all_tables():
    for name in ("isl", "osl", "batch", "concurrency", "tp", "max_num_seqs", "recv_interval"):
        assert PARAMETERS[name].most == LIMITS[name].most
    assert PARAMETERS["max_num_seqs"].checked(0) == 0, "the engine's default"
    with pytest.raises(InvalidValue, match=r"isl = 0: give a whole number from 1 to 100,000,000"):
        PARAMETERS["isl"].checked(0)


@pytest.mark.parametrize("typed", ["least-loaded", "LEAST_LOADED", "least_loaded"])
def test_a_choice_is_known_however_it_is_written(typed: str):
    assert PARAMETERS["router"].checked(typed) == "least_loaded"


def test_an_unknown_choice_names_all():
    with pytest.raises(InvalidValue, match="choose least_loaded, round_robin, prefix"):
        PARAMETERS["router"].checked("random")
    assert PARAMETERS["speculation"].checked("none") == ""


def test_a_text_is_a_text():
    with pytest.raises(InvalidValue, match="kv = 5: give a text"):
        PARAMETERS["kv"].checked(5)
    with pytest.raises(InvalidValue, match=r"kv = \['fp8'\]: give a text"):
        PARAMETERS["kv"].checked(["fp8"])
    assert PARAMETERS["price"].checked(2.5) == PARAMETERS["price"].checked("2.5"), "one question"


def test_a_list_of_texts_and_a_list_of_numbers():
    assert PARAMETERS["target"].checked("tpot < 1s, ttft < 2s") == ("tpot < 1s", "ttft < 2s")
    hours = [0.5] * 23 + [1]
    assert PARAMETERS["day"].checked(hours) == ("0.5",) * 23 + ("1",), "equal hours are kept"
    assert PARAMETERS["day"].checked(",".join(map(str, hours))) == PARAMETERS["day"].checked(hours)
    with pytest.raises(InvalidValue, match="target = 5: give a list of texts"):
        PARAMETERS["target"].checked(5)


def test_a_question_is_flat_frozen_and_a_key():
    assert [entry.name for entry in dataclasses.fields(Question)] != []
    assert {entry.name for entry in dataclasses.fields(Question)} == set(PARAMETERS)
    names = [entry.name for part in PARTS for entry in dataclasses.fields(part)]
    assert len(names) == len(set(names)) == len(PARAMETERS)
    one, same = (Question(isl=64, target=["tpot < 20ms"], price={"h200": 3.5}) for _ in range(2))
    assert one == same and hash(one) == hash(same)
    assert Question(isl=64) != Question(isl=65)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.isl = 65


def test_an_option_and_other_names():
    assert PARAMETERS["max_num_seqs"].option == "--max-num-seqs"
    assert ALIASES["gpu_memory_utilization"] == ALIASES["mem_fraction_static"] == "memory_fraction"
