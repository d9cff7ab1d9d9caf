"""Configs that cannot be traced: one sentence, in bounded time and memory."""

import json
import math
import subprocess
import sys
import time
from typing import Any

import pytest

from genz_core.errors import InvalidValue, RidgelineError, UnsupportedModel
from model_registry.finding.catalog import shipped_models
from model_registry.tracing import records, trace
from model_registry.tracing.capture import record_pass
from model_registry.tracing.meta_model import build_on_meta
from tests.model_registry.tracing_cases import tiny
from tests.rules import for_every

pytestmark = pytest.mark.usefixtures("transformers")

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


#: Invalid configs, with words of the error of each.
BAD: dict[str, tuple[Any, str]] = {
    "no type": ({"hidden_size": 64}, "names no model_type"),
    "a type nobody has": ({**LLAMA, "model_type": "imaginary"}, "no class for it"),
    "remote code": (
        {**LLAMA, "model_type": "nova", "auto_map": {"AutoModel": "evil.Model"}},
        "its publisher's own code, which is never run",
    ),
    "a vision model": ({"model_type": "vit"}, "belongs to a vision front end"),
    "a million layers": ({**LLAMA, "num_hidden_layers": 10**6}, "num_hidden_layers = .*beyond any"),
    "a million heads": (
        {**LLAMA, "num_attention_heads": 10**6},
        "num_attention_heads = .*beyond any",
    ),
    "a hundred million experts": (
        {**tiny("mixtral"), "num_local_experts": 10**8},
        "num_local_experts = .*beyond any",
    ),
    "NaN": ({**LLAMA, "rms_norm_eps": math.nan}, "rms_norm_eps is NaN"),
    "negative width": ({**LLAMA, "hidden_size": -64}, "do not form a model: .*-64"),
    "no width": ({**LLAMA, "hidden_size": 0}, "cannot be run without weights"),
    "no layers": ({**LLAMA, "num_hidden_layers": 0}, "no list of layers"),
    "a width that is text": ({**LLAMA, "hidden_size": "wide"}, "'hidden_size'.*expected int"),
    "a width beyond any number": ({**LLAMA, "hidden_size": 10**30}, "hidden_size = .*beyond any"),
    "a width beyond any float": ({**LLAMA, "hidden_size": 10**400}, "hidden_size = .*beyond any"),
    "a huge width": (
        {**LLAMA, "hidden_size": 2**61, "intermediate_size": 2**61},
        "do not form a model: .*overflow",
    ),
    "heads that do not divide": (
        {**LLAMA, "num_attention_heads": 7, "num_key_value_heads": 3},
        "not a multiple of the number of attention heads",
    ),
    "more keys than any model has": (
        {**LLAMA, **{f"key_{at}": at for at in range(5_000)}},
        "5000 keys that LlamaConfig does not know",
    ),
    "itself": (circle(), "not plain JSON: Circular"),
    "too deep": (deep(), "nested too deep"),
    "a list": ([1, 2], "JSON object, not list"),
    "null": (None, "JSON object, not NoneType"),
    "no JSON": ({**LLAMA, "x": object()}, "not plain JSON"),
    "an alias of other size": ({**LLAMA, "model_type": "mimo"}, "not those of XiaomiMiMo"),
    "a text config in a text model": (
        {**LLAMA, "text_config": {"model_type": "llama"}},
        "do not form a model",
    ),
    "an empty text config": (
        {"model_type": "llama4", "text_config": {"hidden_size": {}}},
        "'hidden_size'.*expected int, got dict",
    ),
}
#: Reference code that mixes its residual streams a billion times.
ENDLESS: dict[str, Any] = {"model_type": "deepseek_v4", "hc_sinkhorn_iters": 10**9}


@for_every(BAD)
def test_a_bad_config_is_refused_in_one_sentence(what: str) -> None:
    config, words = BAD[what]
    with pytest.raises(RidgelineError, match=words) as refusal:
        trace(config, use_cache=False)
    sentence = str(refusal.value)
    assert "\n" not in sentence and len(sentence) < 500
    assert "Traceback" not in sentence


def test_a_loop_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "LARGEST_DISPATCH", 1_000)
    with pytest.raises(InvalidValue, match="runs more than 1000 operators for a few tokens"):
        trace(ENDLESS, use_cache=False)


@pytest.mark.slow
def test_a_loop_without_end_is_stopped_before_it_costs_a_minute() -> None:
    start = time.process_time()
    with pytest.raises(InvalidValue, match="runs more than 40000 operators"):
        trace(ENDLESS, use_cache=False)
    assert time.process_time() - start < 60.0


def test_the_limit_lies_far_above_what_real_models_dispatch() -> None:
    config = shipped_models()["deepseek-ai/DeepSeek-V4-Flash"].config()
    model = build_on_meta(config).model
    segments, _ = record_pass(model, 2, 12)
    assert sum(len(segment.records) for segment in segments) < records.LARGEST_DISPATCH / 5


def test_an_auto_map_beside_a_known_type_runs_the_known_class() -> None:
    model = trace({**LLAMA, "auto_map": {"AutoModelForCausalLM": "evil.Model"}}, use_cache=False)
    assert model.program.class_name == "LlamaForCausalLM"


@for_every(["OPTForCausalLM", "MixtralForCausalLM"])
def test_a_class_with_other_parameters_than_the_traced_one_is_refused(named: str) -> None:
    with pytest.raises(UnsupportedModel, match=f"names {named}, which has .*LlamaForCausalLM"):
        trace({**LLAMA, "architectures": [named]}, use_cache=False)


@pytest.mark.parametrize(
    "named", ["LlamaForCausalLM", "MistralForCausalLM", "AForCausalLM", "LlamaModel", "", None, 3]
)
def test_a_class_of_the_same_parameters_or_of_no_library_passes(named: Any) -> None:
    model = trace({**LLAMA, "architectures": [named]}, use_cache=False)
    assert model.program.class_name == "LlamaForCausalLM"


def test_infinities_that_real_configs_hold_are_no_error() -> None:
    config = {**LLAMA, "time_step_limit": [0.0, math.inf]}
    assert trace(json.loads(json.dumps(config)), use_cache=False).parameters > 0


def test_a_refusal_takes_less_than_a_hundredth_of_a_gigabyte() -> None:
    import tracemalloc

    tracemalloc.start()
    with pytest.raises(InvalidValue):
        trace(BAD["a million layers"][0], use_cache=False)
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
