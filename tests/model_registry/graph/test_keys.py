"""Reading a config: understood keys, harmless ones, and refused ones."""

from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

import model_registry
from genz_core.errors import InvalidValue, RidgelineError, UnsupportedModel
from genz_core.types import Parallelism, Step
from model_registry.architectures.registry import read_spec
from model_registry.finding.catalog import shipped_models
from model_registry.graph.keys import Config
from model_registry.spec import Attention, Mixture
from tests import draws
from tests.rules import for_every

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 1000,
}


def attention_of(config: dict[str, Any], layer: int = 0) -> Attention:
    block = read_spec(Config(config)).layers[layer].blocks[0]
    assert isinstance(block, Attention)
    return block


def test_a_config_becomes_sizes_and_a_plan_of_its_layers() -> None:
    spec = read_spec(Config(LLAMA, "tiny"))
    assert (spec.name, spec.hidden, spec.vocabulary, len(spec.layers)) == ("tiny", 64, 1000, 2)
    assert attention_of(LLAMA) == Attention(heads=4, kv_heads=2, head_dim=16)
    assert not spec.tied and spec.max_context is None


def test_a_stated_head_width_wins_over_the_quotient() -> None:
    assert attention_of({**LLAMA, "head_dim": 32}).head_dim == 32


def test_other_spellings_of_a_key_are_understood() -> None:
    old = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 10}
    spec = read_spec(Config({**old, "n_positions": 512}))
    assert (spec.hidden, len(spec.layers), spec.positions) == (64, 2, 512)


@for_every(["text_config", "language_config", "llm_config"])
def test_the_text_model_of_a_multi_modal_config_is_found(nest: str) -> None:
    config = {"model_type": "some_vl", nest: LLAMA, "tie_word_embeddings": True}
    spec = read_spec(Config(config))
    assert spec.model_type == "llama" and spec.tied


def test_null_counts_as_absent() -> None:
    assert attention_of({**LLAMA, "num_key_value_heads": None}).kv_heads == 4


@pytest.mark.parametrize(
    "harmless",
    [
        {"rms_norm_eps": 1e-5},
        {"rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
        {"bos_token_id": 1, "eos_token_id": [1, 2]},
        {"transformers_version": "5.0", "architectures": ["X"], "_name_or_path": "y"},
        {"a_switch_of_next_year": False, "another": 0, "a_list": [], "nothing": None},
    ],
)
def test_keys_that_leave_the_shape_alone_are_ignored(harmless: dict[str, Any]) -> None:
    assert read_spec(Config({**LLAMA, **harmless})).layers == read_spec(Config(LLAMA)).layers


@pytest.mark.parametrize(
    "shaping",
    [
        {"num_experts": 8},
        {"kv_lora_rank": 512},
        {"sliding_window_size": 128},
        {"layer_repeat": 2},
        {"moe_layer_freq": [0, 1]},
    ],
)
def test_a_key_that_may_shape_the_graph_and_is_not_understood_is_refused(
    shaping: dict[str, Any],
) -> None:
    with pytest.raises(UnsupportedModel, match=next(iter(shaping))):
        read_spec(Config({**LLAMA, **shaping}))


def test_a_refused_key_names_the_keys_near_it() -> None:
    with pytest.raises(UnsupportedModel, match=r"near.*num_key_value_heads"):
        read_spec(Config({**LLAMA, "num_key_value_head": 2}))


def test_a_config_without_a_model_type_is_refused() -> None:
    config = {key: value for key, value in LLAMA.items() if key != "model_type"}
    with pytest.raises(UnsupportedModel, match="no model_type"):
        model_registry.load(config)


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "vocab_size"])
@pytest.mark.parametrize(
    "value", [0, -1, 1.5, "64", True, [64], float("inf"), float("nan"), 10**12]
)
def test_an_impossible_size_is_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(InvalidValue, match=key):
        read_spec(Config({**LLAMA, key: value}))


@for_every(["hidden_size", "num_attention_heads", "intermediate_size"])
def test_a_missing_size_is_refused_by_name(key: str) -> None:
    config = {name: value for name, value in LLAMA.items() if name != key}
    with pytest.raises(InvalidValue, match=key):
        read_spec(Config(config))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"num_hidden_layers": 10**6}, "num_hidden_layers is 1000000; at most 4096"),
        ({"num_attention_heads": 128}, "leaves a head no width"),
        ({"num_key_value_heads": 3}, "4 attention heads cannot share 3 KV heads"),
        ({"attention_bias": "yes"}, "attention_bias is 'yes', neither true nor false"),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(config: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        read_spec(Config({**LLAMA, **config}))


def test_more_experts_per_token_than_there_are_is_refused() -> None:
    mixtral = {**LLAMA, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 5}
    with pytest.raises(InvalidValue, match="5 experts per token of 4"):
        read_spec(Config(mixtral))


def test_a_pattern_shorter_than_the_model_is_refused() -> None:
    config = {**LLAMA, "model_type": "mistral", "layer_types": ["full_attention"]}
    with pytest.raises(InvalidValue, match="layer_types has 1 entries for 2 layers"):
        read_spec(Config(config))


def test_layer_types_choose_the_windowed_layers() -> None:
    kinds = ["sliding_attention", "full_attention"]
    config = {**LLAMA, "model_type": "mistral", "layer_types": kinds, "sliding_window": 32}
    assert [attention_of(config, layer).window for layer in (0, 1)] == [32, 0]


def test_qwen_windows_count_only_where_they_are_switched_on() -> None:
    config = {**LLAMA, "model_type": "qwen2", "sliding_window": 32, "max_window_layers": 1}
    assert [attention_of(config, layer).window for layer in (0, 1)] == [0, 0]
    config["use_sliding_window"] = True
    assert [attention_of(config, layer).window for layer in (0, 1)] == [0, 32]


def test_experts_sit_where_the_config_puts_them() -> None:
    config = {
        **LLAMA,
        "model_type": "deepseek",
        "num_hidden_layers": 3,
        "n_routed_experts": 8,
        "num_experts_per_tok": 2,
        "n_shared_experts": 2,
        "moe_intermediate_size": 16,
        "first_k_dense_replace": 1,
    }
    kinds = [isinstance(layer.blocks[1], Mixture) for layer in read_spec(Config(config)).layers]
    assert kinds == [False, True, True]
    mixture = read_spec(Config(config)).layers[1].blocks[1]
    assert isinstance(mixture, Mixture) and mixture.shared == 32


@for_every(["x", float("nan"), float("inf"), -1, 0, True, [1.0]])
def test_a_factor_that_is_no_number_above_zero_is_refused(wrong: Any) -> None:
    config = {**shipped_models()["LiquidAI/LFM2-350M"].config(), "block_ffn_dim_multiplier": wrong}
    with pytest.raises(InvalidValue, match="not a number above zero"):
        model_registry.load(config)


#: Wrong values that a hostile or broken upload may contain.
WRONG: list[Any] = [
    None, 0, -1, 1.5, "x", "64", True, False, [], {}, [1], [None], {"a": 1}, 10**12, 1, 7,
    float("nan"), float("inf"), ["full_attention"], [[0]], "auto",
]  # fmt: skip
QUANTISED_FIRST = sorted(shipped_models().values(), key=lambda record: not record.quantized)
FAMILIES = sorted({record.model_type: record.id for record in QUANTISED_FIRST}.values())


def one_model_or_one_sentence(name: str, data: Any) -> None:
    """Draw a wrong value for a shipped model's config: the result is a model, or a one-sentence
    refusal.
    """
    config = shipped_models()[name].config()
    nested = [part for part in config.values() if isinstance(part, dict) and part]
    target = data.draw(st.sampled_from([config, *nested]))
    target[data.draw(st.sampled_from(sorted(target)))] = data.draw(st.sampled_from(WRONG))
    try:
        model = model_registry.load(config)
        model.graph(Step.decode(1, 10), Parallelism(tp=2))
        assert model.parameters >= model.active_parameters > 0
    except RidgelineError as refused:
        assert str(refused) and "\n" not in str(refused)


@settings(max_examples=draws.cases(150), deadline=None)
@given(name=st.sampled_from(FAMILIES), data=st.data())
def test_whatever_a_config_holds_it_is_a_model_or_one_sentence(name: str, data: Any) -> None:
    one_model_or_one_sentence(name, data)


@pytest.mark.slow
@pytest.mark.draws
@for_every(FAMILIES)
def test_whatever_a_config_of_any_family_holds_it_is_a_model_or_one_sentence(name: str) -> None:
    @seed(draws.seed(crc32(name.encode())))
    @settings(max_examples=draws.cases(6), deadline=None)
    @given(data=st.data())
    def drawn(data: Any) -> None:
        one_model_or_one_sentence(name, data)

    drawn()
