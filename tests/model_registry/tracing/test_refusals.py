"""Configs that cannot be traced: one sentence, in bounded time and memory."""

import json
import math
import subprocess
import sys
from typing import Any

import pytest

from genz_core.errors import InvalidValue, RidgelineError, UnsupportedModel
from model_registry.tracing import trace
from tests.model_registry.tracing_cases import tiny

pytest.importorskip("torch")
pytest.importorskip("transformers", minversion="5.0")

LLAMA = tiny("llama")


def circle() -> dict[str, Any]:
    config: dict[str, Any] = dict(LLAMA)
    config["self"] = config
    return config


def deep() -> dict[str, Any]:
    nested: Any = 1
    for _ in range(5_000):
        nested = [nested]
    return {**LLAMA, "nested": nested}


BAD: dict[str, Any] = {
    "no type": {"hidden_size": 64},
    "a type nobody has": {**LLAMA, "model_type": "imaginary"},
    "remote code": {**LLAMA, "model_type": "nova", "auto_map": {"AutoModel": "evil.Model"}},
    "a vision model": {"model_type": "vit"},
    "a million layers": {**LLAMA, "num_hidden_layers": 10**6},
    "a million heads": {**LLAMA, "num_attention_heads": 10**6},
    "a hundred million experts": {**tiny("mixtral"), "num_local_experts": 10**8},
    "NaN": {**LLAMA, "rms_norm_eps": math.nan},
    "negative width": {**LLAMA, "hidden_size": -64},
    "no width": {**LLAMA, "hidden_size": 0},
    "no layers": {**LLAMA, "num_hidden_layers": 0},
    "a width that is text": {**LLAMA, "hidden_size": "wide"},
    "a width beyond any number": {**LLAMA, "hidden_size": 10**30},
    "a width beyond any float": {**LLAMA, "hidden_size": 10**400},
    "a huge width": {**LLAMA, "hidden_size": 2**61, "intermediate_size": 2**61},
    "heads that do not divide": {**LLAMA, "num_attention_heads": 7, "num_key_value_heads": 3},
    "more keys than any model has": {**LLAMA, **{f"key_{at}": at for at in range(5_000)}},
    "a loop without end": {"model_type": "deepseek_v4", "hc_sinkhorn_iters": 10**9},
    "itself": circle(),
    "too deep": deep(),
    "a list": [1, 2],
    "null": None,
    "no JSON": {**LLAMA, "x": object()},
    "an alias of other size": {**LLAMA, "model_type": "mimo"},
    "a text config in a text model": {**LLAMA, "text_config": {"model_type": "llama"}},
    "an empty text config": {"model_type": "llama4", "text_config": {"hidden_size": {}}},
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_config_is_refused_in_one_sentence(what: str) -> None:
    with pytest.raises(RidgelineError) as refusal:
        trace(BAD[what], use_cache=False)
    sentence = str(refusal.value)
    assert sentence and "\n" not in sentence and len(sentence) < 500
    assert "Traceback" not in sentence


def test_remote_code_is_named_as_the_reason() -> None:
    with pytest.raises(UnsupportedModel, match="never run"):
        trace(BAD["remote code"])


def test_a_size_of_the_wrong_kind_is_named_with_what_it_should_be() -> None:
    with pytest.raises(InvalidValue, match=r"'hidden_size'.*expected int"):
        trace(BAD["a width that is text"])


def test_an_auto_map_beside_a_known_type_runs_the_known_class() -> None:
    model = trace({**LLAMA, "auto_map": {"AutoModelForCausalLM": "evil.Model"}}, use_cache=False)
    assert model.program.class_name == "LlamaForCausalLM"


def test_infinities_that_real_configs_hold_are_no_error() -> None:
    config = {**LLAMA, "time_step_limit": [0.0, math.inf]}
    assert trace(json.loads(json.dumps(config)), use_cache=False).parameters > 0


def test_a_refusal_takes_less_than_a_hundredth_of_a_gigabyte() -> None:
    import tracemalloc

    tracemalloc.start()
    with pytest.raises(InvalidValue):
        trace(BAD["a million layers"], use_cache=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10e6


def test_nothing_heavy_is_imported_until_a_trace_is_asked_for() -> None:
    code = (
        "import sys, model_registry, model_registry.reports.symbolic, "
        "model_registry.reports.static_table, "
        "model_registry.modules, model_registry.tracing; "
        "sys.exit(any(name in sys.modules for name in ('torch', 'transformers')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
