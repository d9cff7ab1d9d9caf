"""Names and values become a question: aliases, typed values, one load, arrays, objects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardware_db
from app.question.parameters import PARAMETERS
from app.question.query import Query, UnknownParameter, ask
from app.question.question import LOADS, STANDARD, Question, nominal_lengths
from app.question.verbs import VERBS, parameters_of
from genz_core.errors import InvalidValue
from tests.app.question.samples import MODEL
from tests.draws import cases


def query(verb: str, **given_) -> Query:
    return ask(verb, {"model": MODEL, **given_})


def refusal(verb: str, **given_) -> str:
    with pytest.raises(InvalidValue) as said:
        query(verb, **given_)
    return str(said.value)


def test_what_is_not_given_has_its_default_and_is_known_not_to_be_given():
    question = query("estimate", isl=64, osl=None)
    assert question.question == Question(model=MODEL, isl=64)
    assert question.given == {"model", "isl"} and question.size == 1


def test_a_model_must_be_named_where_no_measurement_does():
    for verb in ("estimate", "plan", "economics"):
        load = {} if VERBS[verb].default_load else {"rate": 1}
        with pytest.raises(InvalidValue, match=f"{verb} needs a model: name one"):
            ask(verb, load)
    assert not ask("compare", {}).given


# ------------------------------------------------------------------------------- names


def test_other_names_mean_the_same():
    own = query("serve", concurrency=4, max_num_seqs=8, shared_tokens=100, memory_fraction=0.8)
    other = query("serve", concurrency=4, **{"max-running-requests": 8}, shared_prompt=100,
                  gpu_memory_utilization=0.8)  # fmt: skip
    assert own == other


def test_one_parameter_is_given_once():
    words = "isl is given twice, once as input_len: give it once"
    assert refusal("serve", concurrency=4, isl=1, input_len=2) == words
    assert refusal("serve", concurrency=4, input_len=2, isl=1) == words


def test_a_number_or_a_list_is_no_name():
    with pytest.raises(InvalidValue, match=r"^model = 5: give a name$"):
        ask("estimate", {"model": 5})
    with pytest.raises(InvalidValue, match="give one name"):
        ask("estimate", {"model": [MODEL, MODEL]})
    assert refusal("estimate", system=5) == "system = 5: give a name"


class Unknown:
    def __repr__(self) -> str:
        return "an unknown thing"


@pytest.mark.parametrize("given_", [Unknown(), [MODEL, Unknown()]], ids=["alone", "in a list"])
def test_an_object_that_stands_for_no_name_is_refused_with_what_is_accepted(given_):
    said = refusal("plan", rate=1, system=given_)
    assert said.startswith("system = an unknown thing: give a name, a path, a mapping or what ")


def test_an_object_of_another_kind_says_where_it_belongs():
    h200 = hardware_db.load("h200")
    said = refusal("estimate", model=h200)
    assert said.startswith("model = System(") and said.endswith("; this one is given as system")
    assert "give a name or what ridgeline.engine returns" in refusal("estimate", engine=h200)
    mapping = "engine = {'a': 1}: give a name or what ridgeline.engine returns"
    assert refusal("estimate", engine={"a": 1}).startswith(mapping)


def test_an_unknown_name_says_which_are_near():
    with pytest.raises(UnknownParameter) as said:
        query("estimate", max_num_sequences=4)
    assert "max_num_seqs" in said.value.near and "did you mean" in str(said.value)
    assert "there are model, system" in refusal("estimate", zzzz=4)


def test_a_name_that_means_nothing_to_the_verb_is_refused_by_name():
    assert refusal("serve", concurrency=4, cp=2) == "cp does not apply to serve: leave it out"
    assert "seed does not apply to estimate" in refusal("estimate", seed=4)


# ------------------------------------------------------------------------------- loads


@pytest.mark.parametrize("verb", VERBS)
def test_exactly_one_load(verb: str):
    allowed = VERBS[verb].loads
    if "model" not in parameters_of(verb):  # counted steps of no deployment
        return
    for name in LOADS:
        if name not in allowed:
            assert f"{name} " in refusal(verb, **{name: 1})
    if len(allowed) > 1:
        two = {name: 1 for name in allowed[:2]}
        assert f"not {allowed[0]} and {allowed[1]}" in refusal(verb, **two)
    if not VERBS[verb].default_load:
        assert "no load is given" in refusal(verb)
    elif VERBS[verb].default_load == "batch":
        assert query(verb).question.kind == VERBS[verb].default_load


@pytest.mark.parametrize("values", [[1, 64], np.array([1.0, 64.0]), "1,64", (1, 64)])
def test_a_load_of_several_values_is_of_its_kind(values):
    found = query("serve", concurrency=values)
    assert found.question.kind == "concurrency"
    assert found.arrays["concurrency"].tolist() == [1.0, 64.0] and found.size == 2


# ------------------------------------------------------------------------------- values


def test_texts_are_read_as_people_type_them():
    found = query("serve", concurrency="64", isl="2Ki", osl="1e2", burst_start="yes", tp="1,2")
    question = found.question
    assert (question.concurrency, question.isl, question.osl) == (64, 2048, 100)
    assert question.burst_start is True and found.arrays["tp"].tolist() == [1.0, 2.0]


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=8))
@settings(max_examples=cases(30))
def test_lists_arrays_and_texts_of_numbers_are_the_same(values: list[int]):
    ways = [values, tuple(values), np.array(values), [str(value) for value in values]]
    arrays = [query("estimate", isl=way).arrays["isl"].tolist() for way in ways]
    assert all(found == list(map(float, values)) for found in arrays)


def test_arrays_are_of_one_length():
    said = refusal("estimate", batch=[1, 2, 3], isl=[1, 2])
    assert "one value per configuration; these have batch 3, isl 2" in said


@pytest.mark.parametrize("value", [[], [[1], [2]], [[1], [1, 2]], [1, None], ["a"], [True], [0]])
def test_a_list_that_cannot_be_is_refused_in_a_sentence(value):
    assert refusal("estimate", batch=value).startswith("batch = ")


def test_a_list_where_one_value_is_taken_is_refused():
    assert "images = [1, 2]: give one number" in refusal("estimate", images=[1, 2])
    assert "kv = ['fp8', 'bf16']: give a text" in refusal("estimate", kv=["fp8", "bf16"])


def test_a_search_takes_several_names_and_an_estimate_one():
    found = query("plan", rate=1, system=["h100", "h200"], kv="fp8,bf16", tp="1:8:x2")
    assert found.several == {"system": ("h100", "h200"), "kv": ("fp8", "bf16"),
                             "tp": (1, 2, 4, 8)}  # fmt: skip


def test_axes_of_a_sweep_are_of_any_lengths():
    found = query("sweep", batch=[1, 8, 64], tp={"from": 1, "to": 8, "step": "x2"}, engine="a,b")
    assert {name: len(values) for name, values in found.arrays.items()} == {"batch": 3, "tp": 4}
    assert found.several == {"engine": ("a", "b")}


def test_experts_are_spread_from_what_is_given():
    assert query("estimate", tp=8, moe_tp=2).question.ep == 4
    found = query("estimate", tp=[4, 8], moe_tp=2)
    assert found.arrays["ep"].tolist() == [2.0, 4.0]
    assert "does not divide tp x dp = 4" in refusal("estimate", tp=4, moe_tp=3)
    assert "ep" not in query("sweep", tp=[4, 8], moe_tp=2).arrays


# ------------------------------------------------------------------------------- objects


def test_objects_stand_for_their_names():
    system = hardware_db.load("h200")
    found = query("estimate", system=system)
    assert found.named("system") is system and found.question.system == "h200-sxm-141gb"
    assert found.named("engine") == ""


def test_a_text_opens_no_file_unless_the_caller_may(tmp_path: Path):
    from app.scenario.local_files import sources

    path = tmp_path / "own.yaml"
    path.write_text("id: own\n")
    assert not query("estimate", system=str(path)).objects
    found = ask("estimate", {"model": MODEL, "system": str(path)}, sources)
    assert found.objects == {"system": path}


# ------------------------------------------------------------------------------- lengths


def test_lengths_vary_by_a_tenth_about_what_was_asked_unless_a_ratio_is_stated():
    isl, osl, ratio = nominal_lengths(1000, 100, None)
    assert (isl, osl, ratio) == pytest.approx((1100, 110, 900 / 1100))
    assert nominal_lengths(1000, 100, 0.8) == (1000, 100, 0.8)
    mixed = nominal_lengths(1000, 100, np.array([np.nan, 1.0]))
    assert mixed[0].tolist() == pytest.approx([1100, 1000])
    assert mixed[2].tolist() == pytest.approx([900 / 1100, 1.0])


@given(st.integers(10, 10**6))
def test_the_mean_of_lengths_is_what_was_asked(mean: int):
    longest, _, ratio = nominal_lengths(mean, 1, None)
    assert (longest + longest * ratio) / 2 == pytest.approx(mean, abs=0.5)


def test_every_verb_takes_what_names_a_deployment():
    for verb in set(VERBS) - {"ops"}:
        assert {"model", "system", "engine", "weights", "kv", "tp"} <= set(parameters_of(verb))
    assert Question() == STANDARD and set(STANDARD.changed()) == set()
    assert set(PARAMETERS) >= set(parameters_of("simulate"))
