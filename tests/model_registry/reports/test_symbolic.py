"""A model's operators from its structure to formulas and figures."""

import json
from pathlib import Path
from typing import Any

import pytest

from genz_core.errors import InvalidValue
from genz_core.types import Group, Parallelism, Step
from model_registry.finding.loading import load
from model_registry.modules import save_entry
from model_registry.reports.symbolic import (
    analysed,
    graph_total,
    missing_modules,
    populated,
    structure,
)
from tests.model_registry.shared_models import derived
from tests.model_registry.tracing_cases import tiny

pytestmark = pytest.mark.usefixtures("transformers")


@pytest.mark.parametrize("origin", ["builder", "trace"])
def test_structure_says_where_it_is_from_and_what_it_holds(origin: str) -> None:
    facts = structure("Qwen/Qwen3-0.6B", trace=origin == "trace")
    assert facts["source"] == origin
    assert facts["parameters"] == 596_049_920
    assert facts["layer_count"] == 28
    indices = sorted({at for group in facts["layers"] for at in group["indices"]})
    assert indices == list(range(28))
    assert json.loads(json.dumps(facts)) == facts


def test_modules_that_the_database_lacks_are_those_that_the_model_runs(own_cache: Path) -> None:
    lacking = missing_modules(tiny("llama"))
    assert lacking == sorted({entry.module for entry in derived("llama")})
    for entry in derived("llama"):
        save_entry(entry)
    assert missing_modules(tiny("llama")) == []


AT = {"batch": 3, "new_tokens": 6, "context": 77}


@pytest.mark.parametrize("name", ["Qwen/Qwen3-30B-A3B", "deepseek-ai/DeepSeek-V3"])
def test_bytes_an_element_are_set_as_formats_set_them(name: str) -> None:
    formats = {"weights": "bf16", "moe_weights": "bf16", "kv": "bf16", "activations": "bf16"}
    graph = load(name, **formats).graph(Step((Group(3.0, 6.0, 77.0),)), Parallelism())
    two = analysed(name, **AT, w_bytes=2.0, a_bytes=2.0, kv_bytes=2.0)["total"]
    for figure in ("flops", "weight_bytes", "input_bytes", "output_bytes", "kv_read_bytes"):
        assert two[figure] == pytest.approx(graph_total(graph, figure), rel=1e-12)
    half = analysed(name, **AT, w_bytes=1.0, a_bytes=2.0, kv_bytes=0.5)["total"]
    assert half["kv_read_bytes"] == pytest.approx(two["kv_read_bytes"] / 4.0)
    assert two["weight_bytes"] / 2.0 <= half["weight_bytes"] < 0.51 * two["weight_bytes"]
    assert half["flops"] == two["flops"]


@pytest.mark.parametrize("wrong", [{"w_bytes": 0.0}, {"kv_bytes": float("nan")}, {"x_bytes": 1.0}])
def test_bytes_that_no_format_has_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidValue, match="up to 8 bytes"):
        analysed("gpt2", **wrong)


def evaluated(operator: dict[str, Any]) -> dict[str, float]:
    """The formulas of an operator evaluated with values and its own bytes."""
    values = {**AT, **operator["bytes"]}
    return {name: eval(text.format(**values)) for name, text in operator["formulas"].items()}


@pytest.mark.parametrize(
    ("source", "trace"),
    [
        (tiny("llama"), True),
        (tiny("llama"), False),
        ("Qwen/Qwen3-32B-FP8", False),
        ("nvidia/Llama-3.1-70B-Instruct-FP8", False),
        ("nvidia/Qwen3.6-27B-NVFP4", False),
        ("openai-community/gpt2", False),
    ],
    ids=["traced", "built", "fp8_block", "fp8 cache", "formats by layer", "biases"],
)
def test_populated_formulas_give_what_analysis_counts(source: Any, trace: bool) -> None:
    symbols = populated(source, trace=trace)["operators"]
    counted = analysed(source, trace=trace, **AT)["operators"]
    assert len(symbols) > 10
    for operator, count in zip(symbols, counted, strict=True):
        assert len(operator["formulas"]) == 6
        for figure, value in evaluated(operator).items():
            assert value == pytest.approx(count[figure], rel=1e-9), (operator["name"], figure)


def test_what_is_counted_in_blocks_of_tokens_has_no_formula() -> None:
    # Every fourth token makes a cached entry: a rounded number of them is not a polynomial.
    operators = populated("deepseek-ai/DeepSeek-V4-Flash")["operators"]
    reads = [op["formulas"]["kv_read_bytes"] for op in operators if op["name"] == "attention"]
    assert reads.count(None) == 1 and len(reads) == 3


def test_weights_and_activations_are_symbols_of_their_own() -> None:
    (product,) = [op for op in populated(tiny("llama"))["operators"] if op["name"] == "down_proj"]
    assert product["formulas"]["weight_bytes"] == "6144*{w_bytes}"
    assert product["formulas"]["input_bytes"] == "96*{batch}*{new_tokens}*{a_bytes}"


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [({"new_tokens": 0}, "new_tokens is 0; give 1"), ({"context": -1}, "context is -1; give 0"),
     ({"batch": 10**400}, r"batch is 1.00000e\+400; give 1 to 1e\+12")],
)  # fmt: skip
def test_analysis_refuses_counts_that_no_step_has(asked: dict[str, int], sentence: str) -> None:
    with pytest.raises(InvalidValue, match=sentence):
        analysed(tiny("llama"), **asked)
