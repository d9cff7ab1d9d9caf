"""`load` builds described models and traces others; `traced` always traces."""

import pytest

import model_registry
from genz_core.errors import UnsupportedModel
from genz_core.graphs import Model
from genz_core.types import Parallelism, Precision
from model_registry.tracing import TracedModel
from tests.model_registry.tracing_cases import STEPS, tiny

DIFF = {**tiny("llama"), "model_type": "diffllama"}


def require_transformers() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers", minversion="5.0")


@pytest.mark.slow
def test_a_type_that_no_builder_describes_loads_as_its_trace() -> None:
    require_transformers()
    model = model_registry.load(DIFF, weights="fp8", kv="fp8")
    formats = {op.name: op.weights for op in model.graph(STEPS["decode"], Parallelism()).ops}
    assert formats["gate_up_proj"] == "fp8" and formats["lm_head"] == "bf16"
    assert model.precision.kv == "fp8"
    assert model.notes[0].startswith("weights: fp8")
    assert "traced from DiffLlamaForCausalLM" in model.notes


def test_a_key_that_a_builder_refuses_is_not_traced_around() -> None:
    with pytest.raises(UnsupportedModel, match="moonbeams"):
        model_registry.load({**tiny("llama"), "moonbeams": 7})


def test_a_type_that_nobody_knows_is_refused_with_both_reasons() -> None:
    require_transformers()
    with pytest.raises(UnsupportedModel, match=r"near: llama.*nor can it be traced: .*no class"):
        model_registry.load({**tiny("llama"), "model_type": "lama"})


def test_a_trace_that_is_asked_for_keeps_the_formats_that_a_name_announces() -> None:
    require_transformers()
    model = model_registry.traced("Qwen/Qwen3-0.6B-AWQ")
    assert isinstance(model, TracedModel)
    assert "int4" in model.precision.weights.values()
    assert model.notes[0] == (
        "Qwen/Qwen3-0.6B-AWQ has the architecture of Qwen/Qwen3-0.6B; "
        "weights in int4, as the name says"
    )


# ------------------------------------------------------------------------------- as a Model


def laid(model: Model) -> list[tuple[str, str, str]]:
    """Name and formats of every operator of a decode step."""
    ops = model.graph(STEPS["decode"], Parallelism()).ops
    return [(op.name, op.weights, op.kv) for op in ops]


@pytest.mark.parametrize("origin", ["builder", "trace"])
def test_a_model_in_another_precision_is_the_model_loaded_in_it(origin: str) -> None:
    if origin == "trace":
        require_transformers()
    opened = model_registry.load if origin == "builder" else model_registry.traced
    plain, quantised = opened(tiny("llama")), opened(tiny("llama"), weights="fp8", kv="fp8")
    again = plain.with_precision(quantised.precision)
    assert type(again) is type(plain)
    assert laid(again) == laid(quantised) != laid(plain)
    assert again.precision == quantised.precision
    assert (again.name, again.source, again.notes) == (plain.name, plain.source, plain.notes)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Qwen/Qwen3-0.6B", "config.json of Qwen/Qwen3-0.6B"),
        ({**tiny("llama"), "_source": "a paper"}, "a paper"),
        (tiny("llama"), ""),
    ],
    ids=["shipped", "given", "unnamed"],
)
def test_a_model_says_who_published_its_config(source: object, expected: str) -> None:
    assert model_registry.load(source).source.partition(",")[0] == expected


def test_a_trace_says_that_it_is_one() -> None:
    require_transformers()
    assert model_registry.traced(tiny("llama")).source == "trace"


def test_formats_by_layer_reach_the_operators_of_a_model_given_a_precision() -> None:
    mixed = Precision({"default": "fp8"}, by_layer={(0, "mlp.down"): "bf16"})
    model = model_registry.load(tiny("llama")).with_precision(mixed)
    ops = model.graph(STEPS["decode"], Parallelism()).ops
    downs = {op.layers: op.weights for op in ops if op.name == "down_proj"}
    assert downs == {(0,): "bf16", (1,): "fp8"}


def test_a_builder_prints_as_one_line_with_its_shape_and_formats() -> None:
    model = model_registry.load("deepseek-ai/DeepSeek-V3", weights="fp8", kv="bf16")
    text = repr(model)
    assert len(text) < 200 and "\n" not in text
    assert text.startswith("DescribedModel('deepseek-ai/DeepSeek-V3': 61 layers, hidden 7168")
    assert "weights bf16 and fp8_block, cache bf16" in text


def test_a_trace_prints_as_one_line_with_its_parameters() -> None:
    require_transformers()
    model = model_registry.traced(tiny("llama"))
    text = repr(model)
    assert len(text) < 200 and "\n" not in text
    assert text.startswith("TracedModel(") and f"{model.parameters:,.0f} parameters" in text


# ------------------------------------------------------------------------------- the catalogue


def test_describe_says_what_a_list_of_models_shows() -> None:
    facts = model_registry.describe("qwen3-0.6b-instruct")
    assert facts["name"] == "Qwen/Qwen3-0.6B" and facts["model_type"] == "qwen3"
    assert facts["parameters"] == 596_049_920 and facts["source"].startswith("config.json of")
