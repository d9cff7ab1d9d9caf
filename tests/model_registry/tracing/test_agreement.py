"""Graphs traced from a config alone: exact counts, named rewrites, arrays, cache."""

import json
import os
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import model_registry
from genz_core.errors import InvalidValue, RidgelineError, UnsupportedModel
from genz_core.types import Model, Parallelism, Precision, Step
from model_registry.finding.catalog import shipped_models
from model_registry.reports.symbolic import analysed, graph_total, structure
from model_registry.reports.traces_page import FURTHER, trace_result
from model_registry.tracing import REWRITES, TracedModel, config_keys, program_cache, trace
from model_registry.tracing.building import build_on_meta, default_config, language_parameters
from model_registry.tracing.capture import record_pass
from tests.model_registry.tracing_cases import STEPS, TINY, facts, tiny

pytest.importorskip("torch")
pytest.importorskip("transformers", minversion="5.0")

#: One shipped model of each family that differs in kind; the rest run with -m slow.
SOME = (
    "meta-llama/Llama-3.1-8B",
    "mistralai/Mixtral-8x7B-v0.1",
    "deepseek-ai/DeepSeek-V3.2",
    "deepseek-ai/DeepSeek-V4-Flash",
    "nvidia/MiniMax-M3-NVFP4",
    "Qwen/Qwen3.5-35B-A3B",
    "nvidia/Nemotron-H-56B-Base-8K",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "openai/gpt-oss-20b",
    "XiaomiMiMo/MiMo-V2-Flash",
    "google/gemma-4-26B-A4B",
    "Zyphra/Zamba2-1.2B",
    "tiiuae/falcon-40b",
)
#: Types whose class transformers does not have, or cannot run without its weights.
UNTRACED = {
    "baichuan", "chatglm", "deepseek", "grok-1", "internlm2", "kimi_k3", "nemotron-nas",
    "qwen",
}  # fmt: skip


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RIDGELINE_CACHE", str(tmp_path))
    return tmp_path


def both(name: str) -> tuple[Model, Model]:
    config = shipped_models()[name].config()
    quant = config.get("hf_quant_config")
    return model_registry.load(name), trace(config, name=name, hf_quant_config=quant)


def agree(name: str) -> None:
    built, traced = both(name)
    assert built.parameters == traced.parameters
    assert built.active_parameters == pytest.approx(traced.active_parameters, rel=1e-3)
    for step in STEPS.values():
        assert facts(built, step) == pytest.approx(facts(traced, step), rel=1e-3)


@pytest.mark.parametrize("name", SOME)
def test_builder_and_trace_agree_to_a_tenth_of_a_percent(name: str) -> None:
    agree(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(shipped_models()) - set(SOME)))
def test_builder_and_trace_agree_for_every_shipped_model(name: str) -> None:
    if shipped_models()[name].model_type in UNTRACED:
        pytest.skip("transformers has no class that runs")
    agree(name)


@pytest.mark.parametrize("model_type", TINY)
def test_every_parameter_of_the_class_is_held_by_an_operator(model_type: str) -> None:
    instance = build_on_meta(tiny(model_type))
    counted, _ = language_parameters(instance.model)
    model = trace(tiny(model_type), use_cache=False)
    graph = model.graph(Step.decode(1.0, 8.0), Parallelism())
    assert model.parameters == counted
    assert graph_total(graph, "held_weight_bytes") / 2 == pytest.approx(counted, rel=1e-4)


@pytest.mark.slow
def test_default_configs_of_further_types_trace_or_say_why_not() -> None:
    refused, traced = [], []
    for model_type in FURTHER:
        try:
            traced.append(trace(default_config(model_type), use_cache=False))
        except RidgelineError as refusal:
            refused.append(str(refusal))
    assert len(traced) >= 55
    assert all("\n" not in sentence for sentence in refused)
    for model in traced:
        graph = replace(model, precision=Precision()).graph(STEPS["decode"], Parallelism())
        held = graph_total(graph, "held_weight_bytes") / 2
        told = any("parameters" in note for note in model.program.notes)
        assert told or held == pytest.approx(model.parameters, rel=1e-3), model.name


def test_a_traced_model_is_a_model_for_the_engine() -> None:
    assert isinstance(trace(tiny("llama")), Model)


@pytest.mark.parametrize("model_type", ["mixtral", "deepseek_v3", "gpt_oss"])
def test_replaying_equal_layers_records_what_running_all_of_them_does(model_type: str) -> None:
    model = build_on_meta(tiny(model_type)).model
    replayed, _ = record_pass(model, 2, 6)
    run, _ = record_pass(model, 2, 6, replay=False)
    assert [len(s.layers) for s in run if s.layers] == [1] * tiny(model_type)["num_hidden_layers"]
    count = sum(len(s.records) * max(len(s.layers), 1) for s in replayed)
    assert count == sum(len(s.records) for s in run)


def test_arrays_of_configurations_are_loops_of_scalars() -> None:
    model = trace(tiny("mixtral"))
    batch, context, tp = (
        np.array([1.0, 8.0, 64.0]),
        np.array([7.0, 900.0, 30.0]),
        np.array([1, 2, 4]),
    )
    many = model.graph(Step.decode(batch, context), Parallelism(tp=tp))
    for at in range(3):
        one = model.graph(Step.decode(batch[at], context[at]), Parallelism(tp=tp[at]))
        for whole, single in zip(many.ops, one.ops, strict=True):
            assert np.broadcast_to(whole.flops, 3)[at] == pytest.approx(float(single.flops))
            assert np.broadcast_to(whole.message_bytes, 3)[at] == pytest.approx(
                float(single.message_bytes)
            )


@pytest.mark.parametrize(
    "name",
    [
        "meta-llama/Llama-3.1-8B",
        "mistralai/Mixtral-8x7B-v0.1",
        "deepseek-ai/DeepSeek-V3.2",
        "Qwen/Qwen3.5-35B-A3B",
        "nvidia/Nemotron-H-56B-Base-8K",
        "nvidia/MiniMax-M3-NVFP4",
    ],
)
@pytest.mark.parametrize(
    "split", [Parallelism(tp=4), Parallelism(tp=2, dp=2, ep=4), Parallelism(tp=16)]
)
def test_splits_divide_a_trace_as_they_divide_a_builder(name: str, split: Parallelism) -> None:
    built, traced = both(name)
    for step in STEPS.values():
        one, other = built.graph(step, split), traced.graph(step, split)
        for figure in ("flops", "weight_bytes", "held_kv_bytes", "message_bytes"):
            assert graph_total(one, figure) == pytest.approx(graph_total(other, figure), rel=2e-3)


def test_rewrites_are_named_and_switched_off_one_by_one() -> None:
    config = tiny("deepseek_v3")
    step = Step.decode(4.0, 500.0)
    engine = trace(config)
    absorbed = graph_total(engine.graph(step, Parallelism()), "flops")
    plain = graph_total(trace(config, without=["mla_absorbed"]).graph(step, Parallelism()), "flops")
    everyone = trace(config, without=["routed_experts"])
    assert plain > 3 * absorbed
    assert graph_total(everyone.graph(step, Parallelism()), "flops", ("moe",)) > 1.9 * graph_total(
        engine.graph(step, Parallelism()), "flops", ("moe",)
    )
    assert set(engine.program.rewrites) <= set(REWRITES)
    for name in engine.program.rewrites:
        assert any(note.startswith(f"{name}: ") for note in engine.notes)
        assert name not in trace(config, without=[name]).program.rewrites


def test_leaving_a_rewrite_out_asks_for_the_trace() -> None:
    config, at = tiny("mixtral"), {"batch": 1, "new_tokens": 1, "context": 8}
    whole, less = (analysed(config, **at, without=w) for w in ((), ("routed_experts",)))
    assert (whole["source"], less["source"]) == ("builder", "trace")
    assert less["total"]["flops"] > whole["total"]["flops"]


def test_an_unknown_rewrite_is_refused() -> None:
    with pytest.raises(InvalidValue, match="no rewrite is called 'magic'"):
        trace(tiny("llama"), without=["magic"])


def test_a_prefill_runs_the_head_once_a_sequence_unless_told_otherwise() -> None:
    step = Step.prefill(2.0, 50.0)

    def rows(model: Model) -> float:
        head = next(op for op in model.graph(step, Parallelism()).ops if op.name == "lm_head")
        return float(np.asarray(head.dims["m"]))

    assert rows(trace(tiny("llama"))) == 2.0
    assert rows(trace(tiny("llama"), without=["last_token_head"])) == 100.0


def test_a_quantised_checkpoint_keeps_its_map() -> None:
    quantisation = {"quant_method": "fp8", "modules_to_not_convert": ["lm_head"]}
    model = trace({**tiny("llama"), "quantization_config": quantisation})
    formats = {op.name: op.weights for op in model.graph(STEPS["decode"], Parallelism()).ops}
    assert formats["qkv_proj"] == "fp8"
    assert formats["lm_head"] == "bf16"


def test_keys_that_the_class_ignores_or_fills_in_are_told() -> None:
    model = trace({**tiny("llama"), "moonbeams": 7})
    assert "moonbeams" in model.program.ignored
    assert "rms_norm_eps" in model.program.defaulted
    assert any("moonbeams" in note for note in model.notes)


def test_a_key_that_only_the_model_reads_is_not_called_ignored() -> None:
    # Qwen3MoeConfig does not declare head_dim; its attention asks for it all the same.
    wide = trace({**tiny("qwen3_moe"), "head_dim": 32}, use_cache=False)
    assert wide.parameters > trace(tiny("qwen3_moe"), use_cache=False).parameters
    assert "head_dim" not in wide.program.ignored


def test_the_one_key_that_a_class_reads_is_found_among_many_in_few_readings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transformers = pytest.importorskip("transformers")
    # BloomConfig takes n_embed for hidden_size without declaring it.
    readings: list[str] = []
    matters = config_keys._matters
    monkeypatch.setattr(
        config_keys, "_matters", lambda *given: readings.append("") or matters(*given)
    )
    strange = {f"key_{at}": at for at in range(256)}
    given = {**strange, "n_embed": 128}
    ignored, _ = config_keys.key_report(given, transformers.BloomConfig(**given))
    assert set(ignored) == set(strange)
    assert len(readings) < 20


def test_keys_of_a_text_model_that_stands_alone_are_read_as_its_own() -> None:
    config = {**shipped_models()["stepfun-ai/Step-3.7-Flash"].config(), "moonbeams": 7}
    text = {**config.pop("text_config", {}), **config}
    ignored = trace(text, use_cache=False).program.ignored
    assert "moonbeams" in ignored and "hidden_size" not in ignored


def test_a_second_trace_comes_from_disk(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = trace(tiny("llama"))
    monkeypatch.setattr("model_registry.tracing.model.build_on_meta", None)
    assert trace(tiny("llama")).program == first.program
    assert list(own_cache.rglob("*.json"))


def test_a_cache_that_is_damaged_or_of_other_code_is_traced_anew(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = trace(tiny("llama"))
    for path in own_cache.rglob("*.json"):
        path.write_text("{")
    assert trace(tiny("llama")).program == first.program
    monkeypatch.setattr(program_cache, "code_version", lambda: "other")
    trace(tiny("llama"))
    assert len(list(own_cache.rglob("*.json"))) == 2


def test_a_cache_folder_that_cannot_be_written_is_no_error(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = own_cache / "file"
    blocked.write_text("")
    monkeypatch.setenv("RIDGELINE_CACHE", str(blocked))
    assert trace(tiny("llama")).parameters > 0


def test_nothing_is_asked_of_the_user_or_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a trace must not do this")

    monkeypatch.setattr("builtins.input", refuse)
    monkeypatch.setattr("socket.socket.connect", refuse)
    trace(tiny("qwen3"), use_cache=False)
    assert os.environ["HF_HUB_OFFLINE"] == "1"


def test_precision_by_layer_splits_equal_layers() -> None:
    traced = trace({**tiny("llama"), "num_hidden_layers": 4})
    mixed = Precision({"default": "fp8"}, by_layer={(0, "mlp.down"): "bf16"})
    model = type(traced)(traced.name, traced.program, mixed)
    downs = [op for op in model.graph(STEPS["decode"], Parallelism()).ops if op.name == "down_proj"]
    assert [(op.layers, op.weights) for op in downs] == [((0,), "bf16"), ((1, 2, 3), "fp8")]


def test_degrees_that_do_not_divide_are_named_with_the_nearest() -> None:
    said = trace(tiny("mixtral")).invalid(Parallelism(tp=3))
    assert said is not None and "4 attention heads" in said and "nearest: tp" in said
    assert trace(tiny("mixtral")).invalid(Parallelism(tp=2, dp=1, ep=2)) is None
    assert "layers" in str(trace(tiny("llama")).invalid(Parallelism(pp=3)))


@pytest.mark.parametrize("name", SOME)
def test_a_trace_refuses_the_degrees_that_its_builder_refuses(name: str) -> None:
    built, traced = both(name)
    for degrees in product((1, 2, 3, 8, 128), (1, 4), (1, 2), (1, 2, 5)):
        split = Parallelism(**dict(zip(("tp", "pp", "dp", "ep"), degrees, strict=True)))
        assert (built.invalid(split) is None) == (traced.invalid(split) is None), split


@pytest.mark.parametrize("origin", ["builder", "trace"])
def test_structure_says_where_it_is_from_and_what_it_holds(origin: str) -> None:
    found = structure("Qwen/Qwen3-0.6B", trace=origin == "trace")
    assert found["source"] == origin
    assert found["parameters"] == 596_049_920
    assert found["layer_count"] == 28
    indices = sorted({at for group in found["layers"] for at in group["indices"]})
    assert indices == list(range(28))
    json.dumps(found)


# ------------------------------------------------------------------------------- as any other


def test_a_type_that_no_builder_describes_loads_as_its_trace() -> None:
    config = {**tiny("llama"), "model_type": "exaone4", "layer_types": ["full_attention"] * 2}
    model = model_registry.load(config, weights="fp8", kv="fp8")
    formats = {op.name: op.weights for op in model.graph(STEPS["decode"], Parallelism()).ops}
    assert formats["gate_up_proj"] == "fp8" and formats["lm_head"] == "bf16"
    assert model.precision.kv == "fp8"
    assert model.notes[0].startswith("weights: fp8")
    assert "traced from Exaone4ForCausalLM" in model.notes


def test_the_table_compares_a_trace_with_a_builder_and_never_with_itself() -> None:
    config = {**tiny("llama"), "layer_types": ["full_attention"] * 2}
    assert trace_result("built", tiny("llama")).builder == "0.000 %"
    assert trace_result("traced", {**config, "model_type": "exaone4"}).builder == ""


def test_a_key_that_a_builder_refuses_is_not_traced_around() -> None:
    with pytest.raises(UnsupportedModel, match="moonbeams"):
        model_registry.load({**tiny("llama"), "moonbeams": 7})


def test_a_type_that_nobody_knows_is_refused_with_both_reasons() -> None:
    with pytest.raises(UnsupportedModel, match=r"near: llama.*nor can it be traced: .*no class"):
        model_registry.load({**tiny("llama"), "model_type": "lama"})


def test_a_trace_that_is_asked_for_keeps_the_formats_that_a_name_announces() -> None:
    model = model_registry.traced("Qwen/Qwen3-0.6B-AWQ")
    assert isinstance(model, TracedModel)
    assert "int4" in model.precision.weights.values()
    assert any("Qwen3-0.6B" in note for note in model.notes)
