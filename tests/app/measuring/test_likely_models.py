"""Which shipped model ran, inferred from its products, or from a file's name and its layers."""

import pytest

import model_registry
from app.measuring.likely_models import likely_models
from genz_core.types import Parallelism, Step
from profilers.phases.what_ran import Fact, WhatRan

MODELS = (
    "Qwen/Qwen1.5-0.5B", "Qwen/Qwen3-8B", "Qwen/Qwen3-32B", "meta-llama/Llama-3.1-70B",
    "openai/gpt-oss-20b", "mistralai/Mixtral-8x7B-v0.1",
)  # fmt: skip


def fact(value):
    return Fact(value, "the test")


def ran(name: str, tp: int = 1) -> WhatRan:
    """The facts that a run of a model would reveal by its shapes."""
    model = model_registry.load(name)
    ops = model.graph(Step.prefill(1.0, 8.0), Parallelism(tp=tp)).ops
    products = {
        (int(op.dims["n"]), int(op.dims["k"])) for op in ops
        if {"n", "k"} <= set(op.dims) and op.count > 1
    }  # fmt: skip
    return WhatRan(
        ranks=fact(tp), hidden=fact(model.spec.hidden), layers=fact(len(model.spec.layers)),
        layers_exact=True, products=tuple(sorted(products)),
    )  # fmt: skip


@pytest.mark.by_day(4)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("tp", [1, 2])
def test_a_model_is_among_those_that_its_own_products_tell(name: str, tp: int):
    assert name in likely_models(ran(name, tp), [])


def test_a_model_all_of_whose_products_ran_comes_before_one_with_more():
    first = likely_models(ran("mistralai/Mixtral-8x7B-v0.1"), [])[0]
    assert first == "mistralai/Mixtral-8x7B-v0.1", "Jamba has these and others"


def test_every_one_named_has_the_layers_and_the_width_that_ran():
    for name in likely_models(ran("Qwen/Qwen3-8B"), []):
        spec = model_registry.load(name).spec
        assert (len(spec.layers), spec.hidden) == (36, 4096)


def test_one_product_that_a_model_has_not_rules_it_out():
    facts = ran("Qwen/Qwen3-8B")
    other = WhatRan(hidden=facts.hidden, layers=facts.layers, layers_exact=True,
                    products=(*facts.products, (777, 4096)))  # fmt: skip
    assert "Qwen/Qwen3-8B" not in likely_models(other, [])


def test_without_shapes_the_name_of_the_file_tells_where_the_layers_agree():
    graph = WhatRan(layers=fact(36))
    assert likely_models(graph, ["mi300x_qwen3-8b_decode"]) == ["Qwen/Qwen3-8B"]
    assert likely_models(graph, ["a_trace"]) == []
    assert likely_models(graph, ["qwen1.5-0.5b"]) == []


def test_another_hidden_size_rules_out_a_model_whatever_its_file_is_called():
    """GPT-2's config names its width differently, so 2,880 was once taken for a model of width
    1,280.
    """
    wide = WhatRan(hidden=fact(2880), layers=fact(36))
    assert likely_models(wide, ["openai-community gpt2-large"]) == ["openai/gpt-oss-120b"]
    right = WhatRan(hidden=fact(1280), layers=fact(36))
    assert "openai-community/gpt2-large" in likely_models(right, ["openai-community gpt2-large"])
