"""Serving engines: every figure sourced, names as tables print them, the unknown as generic."""

from __future__ import annotations

import pytest

import hardware_db
from genz_core.errors import UnknownEngine
from hardware_db.system_schema import Fact

ENGINES = hardware_db.engine_names()


@pytest.mark.parametrize("name", ENGINES)
def test_every_figure_has_a_source_that_exists(name):
    record = hardware_db.engine_facts(name)
    values = [getattr(record, field) for field in type(record).model_fields]
    facts = [value for value in (*values, *record.extra.values()) if isinstance(value, Fact)]
    assert len(facts) >= 8
    assert {fact.source for fact in facts} <= set(record.sources)


@pytest.mark.parametrize("name", ENGINES)
def test_every_figure_reaches_the_profile_in_si_units(name):
    """The unit in a key of the YAML, converted here apart from the schema."""
    record, engine = hardware_db.engine_facts(name), hardware_db.load_engine(name)
    units = {"us": ("s", 1e-6), "ms": ("s", 1e-3), "gb": ("bytes", 1e9)}
    for key in type(record).model_fields:
        fact = getattr(record, key)
        if isinstance(fact, Fact):
            stem, _, end = key.rpartition("_")
            unit, scale = units.get(end, (end, 1.0))
            field = f"{stem}_{unit}" if stem else key
            assert getattr(engine, field) == pytest.approx(fact.value * scale), key


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_is_within_what_software_can_be(name):
    engine = hardware_db.load_engine(name)
    assert engine.name == name
    assert 0 < engine.kernel_floor_s < 1e-4 and 0 <= engine.host_step_s < 0.1
    assert 0.5 < engine.memory_fraction <= 1.0 and engine.kv_block_tokens >= 1


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("vLLM 0.6.3", "vllm"),
        ("TensorRT-LLM", "trtllm"),
        ("SGLang 0.4.6.post1", "sglang"),
        ("llama.cpp (llama-bench)", "llama.cpp"),
        ("HF Transformers 4.35 [fp16+fa2]", "hf"),
        ("", "generic"),
        ("an engine nobody knows", "generic"),
    ],
)
def test_names_are_understood_as_tables_print_them(written, meant):
    assert hardware_db.load_engine(written).name == meant


def test_an_unknown_engine_is_said_to_be_unknown_where_it_matters():
    with pytest.raises(UnknownEngine, match=r"near: .*vllm"):
        hardware_db.engine_facts("vlm")


def test_what_only_some_engines_state_reaches_the_profile_in_seconds():
    facts = hardware_db.engine_facts("vllm")
    assert facts.profile().sampling_s == 0.0
    stated = {"sampling_us": Fact(value=40.0, source="fit", kind="measured")}
    assert facts.model_copy(update=stated).profile().sampling_s == pytest.approx(40e-6)
