"""The module database on disk: stored, found, renewed, and refused if damaged."""

from dataclasses import replace
from datetime import date
from functools import cache

import pytest

from genz_core.errors import InvalidValue, UnknownName
from model_registry.modules import (
    class_entry,
    derive_class,
    missing_classes,
    model_entries,
    model_key,
    module_classes,
    read_entry,
    save_entry,
    store,
    validate_entry,
)
from model_registry.modules.entry import ModuleEntry
from tests.model_registry.shared_models import derived
from tests.model_registry.tracing_cases import tiny

pytestmark = pytest.mark.usefixtures("transformers", "own_cache")
RELU = "torch.nn.modules.activation.ReLU"


@cache
def relu() -> ModuleEntry:
    return derive_class(RELU)


def test_entries_survive_the_disk_and_are_found_by_their_bare_name() -> None:
    entry = relu()
    save_entry(entry)
    assert read_entry(RELU) == entry
    assert read_entry("ReLU") == entry
    with pytest.raises(UnknownName, match="near: "):
        read_entry("RELUU")


def test_the_database_answers_without_torch_where_it_has_the_class(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fresh = class_entry(RELU, again=True)
    monkeypatch.setattr("model_registry.modules.derivation.derive_class", None)
    assert class_entry(RELU) == fresh == relu()


def test_an_entry_of_another_version_is_derived_anew() -> None:
    entry = relu()
    save_entry(replace(entry, source="torch/nn/modules/activation.py:1 (torch 1.0.0)"))
    assert class_entry(RELU).source == entry.source


def test_a_person_who_validated_formulas_stays_named_while_they_are_the_same() -> None:
    entry = relu()
    assert entry.validated == {}
    save_entry(replace(entry, validated={"by": "A. Turing", "on": "2026-11-21"}))
    save_entry(entry)
    assert read_entry("ReLU").validated == {"by": "A. Turing", "on": "2026-11-21"}
    save_entry(replace(entry, formulas={**entry.formulas, "flops": entry.formulas["read_bytes"]}))
    assert read_entry("ReLU").validated == {}


def test_a_damaged_entry_is_said_in_one_sentence() -> None:
    path = save_entry(relu())
    path.write_text("{")
    with pytest.raises(InvalidValue, match="not an entry of the module database"):
        read_entry("ReLU")


@pytest.mark.slow
def test_modules_have_the_sizes_of_the_model_they_were_derived_in() -> None:
    flops = []
    for width in (96, 192):
        for entry in derived("llama", width):
            save_entry(entry)
        key = model_key({**tiny("llama"), "intermediate_size": width})
        flops.append(read_entry("LlamaMLP", key).formulas["flops"])
    at = {"batch": 1, "new_tokens": 1, "context": 8}
    assert flops[1](at) - flops[0](at) == 96 * (3 * 2 * 64 + 5)
    assert read_entry("Linear").symbols == ("batch", "new_tokens", "in_features", "out_features")


def test_a_second_derivation_of_a_model_comes_from_the_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = model_entries(tiny("llama"))
    monkeypatch.setattr("model_registry.modules.derivation.build_on_meta", None)
    again = model_entries(tiny("llama"))
    by_class = {entry.module: entry for entry in first}
    assert len(by_class) > 5 and {entry.module: entry for entry in again} == by_class


def test_entries_of_ones_own_stand_in_for_those_that_ship() -> None:
    shipped = store.entries_of_model("gpt2")
    own = replace(shipped[0], source="somewhere else")
    save_entry(own)
    assert sorted(e.module for e in store.entries_of_model("gpt2")) == sorted(
        e.module for e in shipped
    )
    assert own in store.entries_of_model("gpt2")


@pytest.mark.parametrize("key", ["**", "*", "gpt?", "../database/gpt2", ""])
def test_a_key_is_no_pattern_of_files(key: str) -> None:
    assert store.entries_of_model("gpt2")
    assert store.entries_of_model(key) == []


def test_a_class_that_a_model_has_not_is_near_only_to_those_it_has() -> None:
    with pytest.raises(UnknownName, match=r"near: GPT2MLP\. .*--model") as refusal:
        read_entry("LlamaMLP", "gpt2")
    assert "near: LlamaMLP" not in str(refusal.value)


def test_classes_that_the_database_lacks_are_named() -> None:
    classes = module_classes(tiny("llama"))
    assert "transformers.models.llama.modeling_llama.LlamaAttention" in classes
    assert missing_classes(tiny("llama")) == classes
    first, *others = derived("llama")
    save_entry(first)
    for entry in others:
        save_entry(replace(entry, source="of another version (transformers 1.0.0)"))
    assert missing_classes(tiny("llama")) == sorted(entry.module for entry in others)
    for entry in others:
        save_entry(entry)
    assert missing_classes(tiny("llama")) == []


def test_who_compared_the_formulas_is_written_beside_them() -> None:
    save_entry(relu())
    validate_entry("ReLU", "A. Reader", date(2026, 11, 22))
    assert read_entry(RELU).validated == {"by": "A. Reader", "on": "2026-11-22"}
    with pytest.raises(InvalidValue, match="say who"):
        validate_entry("ReLU", " ", date(2026, 11, 22))
