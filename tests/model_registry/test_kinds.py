"""A kind that a builder describes is priced; any other is refused in a sentence before anything is
built.
"""

from typing import Any

import pytest

import model_registry
from genz_core.errors import NotADecoder, RidgelineError, UnsupportedModel
from genz_core.models.model_kinds import model_kind
from model_registry.finding.catalog import shipped_models
from model_registry.finding.lookup import resolve_name
from model_registry.kinds import other_kind, refuse_other_kinds

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 128, "vocab_size": 256, "architectures": ["LlamaForCausalLM"],
}  # fmt: skip
#: Configs as published (the entries that determine the kind), and the kind.
OTHERS: dict[str, tuple[dict[str, Any], str]] = {
    "Moonshine": (
        {"model_type": "moonshine", "architectures": ["MoonshineForConditionalGeneration"],
         "is_encoder_decoder": True},
        "encoder-decoder",
    ),
    "LED": ({"model_type": "led", "architectures": ["LEDModel"]}, "encoder-decoder"),
    "Florence-2": (
        {"model_type": "florence2", "text_config": {"model_type": "bart"}}, "encoder-decoder"),
    "BLIP-2 over T5": (
        {"model_type": "blip-2", "text_config": {"model_type": "t5"}}, "encoder-decoder"),
    "Longformer": (
        {"model_type": "longformer", "architectures": ["LongformerForMaskedLM"]}, "encoder-only"),
    "DeBERTa": ({"model_type": "deberta-v2"}, "encoder-only"),
    "SDAR": (
        {"model_type": "sdar", "architectures": ["SDARForCausalLM"]}, "diffusion language model"),
    "ViT": ({"model_type": "vit"}, "vision front end"),
    "CLIP": (
        {"model_type": "clip", "text_config": {"model_type": "clip_text_model"}},
        "vision front end",
    ),
    "wav2vec": ({"model_type": "wav2vec2"}, "speech front end"),
    "Gemma 4's drafter": ({"model_type": "gemma4_assistant"}, "draft model"),
    "a classifier of a new type": (
        {"model_type": "new_thing", "architectures": ["NewForSequenceClassification"]},
        "classifier"),
    "an encoder of a new type": (
        {"model_type": "new_thing", "architectures": ["NewForMaskedLM"]}, "encoder-only"),
    "an encoder-decoder of a new type": (
        {"model_type": "new_thing", "is_encoder_decoder": True}, "encoder-decoder"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_another_kind_is_refused_in_one_sentence(name: str) -> None:
    config, kind = OTHERS[name]
    with pytest.raises(
        NotADecoder, match=f"belongs to an? {kind}( model)?, which .*not described"
    ) as told:
        model_registry.load(config)
    assert told.value.kind == kind and "\n" not in str(told.value) and len(str(told.value)) < 400
    assert isinstance(told.value, UnsupportedModel) and told.value.code == "not_a_decoder"


def test_the_refusal_comes_before_any_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model_registry.tracing.model.build_on_meta", None)
    functions = (model_registry.load, model_registry.traced, model_registry.is_trace_missing)
    for config, _ in OTHERS.values():
        for function in functions:
            with pytest.raises(NotADecoder):
                function(config)


def test_a_shipped_model_of_another_kind_is_priced_as_that() -> None:
    named = {"encoder-only": "encoder", "encoder-decoder": "encoder-decoder",
             "diffusion language model": "diffusion", "classifier": "encoder"}  # fmt: skip
    for name, shipped in shipped_models().items():
        if found := other_kind(shipped.config()):
            assert model_kind(model_registry.load(name)) == named[found[0]], name


@pytest.mark.parametrize(
    "config",
    [
        LLAMA,
        {**LLAMA, "is_encoder_decoder": False},
        {"model_type": "bert", "is_decoder": True},
        {"model_type": "gemma4_text", "use_bidirectional_attention": "vision"},
        {"model_type": "qwen2_audio", "text_config": {"model_type": "qwen2"}},
        {"model_type": "qwen2_5_vl", "architectures": ["Qwen2_5_VLForConditionalGeneration"]},
        {"model_type": "a_type_that_nobody_knows"},
    ],
)
def test_decoders_and_unknown_types_pass(config: dict[str, Any]) -> None:
    refuse_other_kinds(config)


@pytest.mark.parametrize(
    "damage",
    [
        {"model_type": None}, {"model_type": 3}, {"model_type": ["bert"]}, {"architectures": "x"},
        {"architectures": [None]}, {"architectures": {}}, {"text_config": 3}, {"text_config": None},
        {"is_encoder_decoder": "yes"}, {"num_hidden_layers": "two"}, {"hidden_size": None},
        {"num_attention_heads": 0}, {"vocab_size": []}, {"rope_scaling": 3},
    ],
)  # fmt: skip
def test_a_damaged_config_is_read_or_refused_in_a_sentence(damage: dict[str, Any]) -> None:
    try:
        model_registry.load({**LLAMA, **damage})
    except RidgelineError as refusal:
        assert str(refusal) and "\n" not in str(refusal)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("openai/whisper-tiny.en", "encoder-decoder"),
        ("facebook/bart-base", "encoder-decoder"),
        ("google/flan-t5-xl", "encoder-decoder"),
        ("google/madlad400-3b-mt", "encoder-decoder"),
        ("microsoft/deberta-v3-large", "encoder-only"),
        ("FacebookAI/roberta-base", "encoder-only"),
        ("inclusionAI/LLaDA2.0-mini", "diffusion language model"),
    ],
)
def test_well_known_names_of_other_kinds_say_what_they_are(name: str, kind: str) -> None:
    with pytest.raises(NotADecoder, match=name) as told:
        resolve_name(name)
    assert told.value.kind == kind


def census() -> list[str]:
    """Types of transformers that an auto class lists as a language model."""
    auto = pytest.importorskip("transformers.models.auto.modeling_auto")
    kinds = ("CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ",
             "MASKED_LM", "MULTIMODAL_LM")  # fmt: skip
    return sorted({t for kind in kinds for t in getattr(auto, f"MODEL_FOR_{kind}_MAPPING_NAMES")})


def test_every_encoder_and_encoder_decoder_of_transformers_is_known_without_it() -> None:
    auto = pytest.importorskip("transformers.models.auto.modeling_auto")
    transformers = pytest.importorskip("transformers", minversion="5.0")
    decoders = {
        *auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        *auto.MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES,
    }
    decoders |= set(auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES)
    for model_type in set(auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES):
        assert other_kind({"model_type": model_type}), model_type
    for model_type in auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES:
        made = transformers.CONFIG_MAPPING[model_type]
        if getattr(made, "is_encoder_decoder", False) is True or model_type not in decoders:
            text = getattr(made, "sub_configs", {}).get("text_config")
            assert other_kind({"model_type": model_type}) or text is not None, model_type


#: Suffixes of the names of classes that generate token by token.
_GENERATES = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel", "ForProteinText2Text",
              "ForVisionText2Text", "Omni_Reasoning_V3")  # fmt: skip


@pytest.mark.slow
def test_types_of_transformers_are_priced_as_what_they_are_or_refused() -> None:
    from model_registry.tracing.meta_model import default_config

    auto = pytest.importorskip("transformers.models.auto.modeling_auto")
    encoders = set(auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES)
    encoders -= set(auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    encoders -= set(auto.MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES)
    wrong, priced, as_other = {}, 0, 0
    for model_type in census():
        try:
            config = default_config(model_type)
            model = model_registry.load(config)
        except RidgelineError as refusal:
            as_other += isinstance(refusal, NotADecoder)
            assert "\n" not in str(refusal), model_type
            continue
        priced += 1
        kind, program = model_kind(model), getattr(model, "program", None)
        name = program.class_name if program else "ForCausalLM"
        across = config.get("is_encoder_decoder") is True
        mistaken = across != (kind == "encoder-decoder")
        if mistaken or (model_type in encoders and kind != "encoder"):
            wrong[model_type] = kind
        elif not name.endswith(_GENERATES):
            wrong[model_type] = name
    assert not wrong
    assert priced + as_other >= 300 and priced >= 180


COUNTED_TYPES = ("bert", "xlm-roberta", "distilbert", "modernbert", "t5", "t5gemma", "bart",
                 "marian", "pegasus", "whisper")  # fmt: skip


@pytest.mark.parametrize("model_type", COUNTED_TYPES)
def test_a_type_of_another_kind_has_its_class_counted_exactly(model_type: str) -> None:
    """With its default config, compared with transformers' own class on the meta device."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers", minversion="5.0")
    from model_registry.tracing.meta_model import default_config

    settings = transformers.AutoConfig.for_model(model_type)
    with torch.device("meta"):
        encodes = model_type in ("bert", "xlm-roberta", "distilbert", "modernbert")
        auto = transformers.AutoModel if encodes else transformers.AutoModelForSeq2SeqLM
        auto = transformers.AutoModelForSpeechSeq2Seq if model_type == "whisper" else auto
        theirs = auto.from_config(settings)
    counted = sum(parameter.numel() for parameter in theirs.parameters())
    assert model_registry.load(default_config(model_type)).parameters == counted
