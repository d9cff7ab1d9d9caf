"""The kind of a checkpoint: a decoder, which generates token by token, or something else.

An encoder, an encoder-decoder, a front end for images or speech, or a diffusion language model has
modules with the shapes of a decoder's, and would be mispriced as one.  So the type, the class and
the switches of a config decide the kind before anything is built: a kind that a builder describes
is priced as such, and any other is refused with a message.

Types are those of transformers' auto classes (src/transformers/models/auto/modeling_auto.py) and
of the publishers' own code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from genz_core.errors import NotADecoder

Kind = Literal[
    "encoder-only",
    "encoder-decoder",
    "vision front end",
    "speech front end",
    "diffusion language model",
    "permutation language model",
    "draft model",
    "classifier",
]

_ENCODERS = (
    *("albert", "bert", "bert-generation", "big_bird", "camembert", "canine", "convbert"),
    *("data2vec-text", "deberta", "deberta-v2", "distilbert", "electra", "ernie", "ernie_m"),
    *("esm", "esmc", "eurobert", "flaubert", "fnet", "funnel", "gte", "ibert", "layoutlm"),
    *("jina_embeddings_v3", "layoutlmv2", "layoutlmv3", "lilt", "longformer", "luke", "markuplm"),
    *("megatron-bert", "mobilebert", "modernbert", "modernvbert", "mpnet", "mra", "neobert"),
    *("new", "nezha", "nomic_bert", "nystromformer", "perceiver", "qdqbert", "reformer"),
    *("rembert", "roberta", "roberta-prelayernorm", "roc_bert", "roformer", "splinter"),
    *("squeezebert", "tapas", "xlm", "xlm-roberta", "xlm-roberta-xl", "xmod", "yoso", "dpr"),
    *(
        "neomme",
        "ultrabert",
        "ultravbert",
        "llama_bidirec",
        "llama_nemotron_vl",
        "nvembed",
        "xlm-roberta-flash",
    ),
)
_ENCODER_DECODERS = (
    *("bart", "bigbird_pegasus", "blenderbot", "blenderbot-small", "canary", "cohere_asr"),
    *("dia", "encoder-decoder", "florence2", "fsmt", "led", "longt5", "m2m_100", "marian"),
    *("mbart", "moonshine", "moonshine_streaming", "mt5", "musicgen", "musicgen_melody", "mvp"),
    *("nllb-moe", "nougat", "pegasus", "pegasus_x", "pix2struct", "plbart", "pop2piano"),
    *("pp_formulanet", "prophetnet", "rt1", "seamless_m4t", "seamless_m4t_v2", "speecht5"),
    *("speech-encoder-decoder", "speech_to_text", "speech_to_text_2", "switch_transformers"),
    *("t5", "t5gemma", "t5gemma2", "trocr", "udop", "umt5", "vision-encoder-decoder"),
    *("whisper", "xlm-prophetnet"),
)
_VISION = (
    *("align", "beit", "bit", "blip_vision_model", "chinese_clip", "clip", "clip_text_model"),
    *("clip_vision_model", "clipseg", "convnext", "convnextv2", "data2vec-vision", "deit", "detr"),
    *("depth_anything", "dinov2", "dinov2_with_registers", "dinov3_convnext", "dinov3_vit", "dpt"),
    *("efficientnet", "grounding-dino", "groupvit", "mobilenet_v2", "mobilevit", "owlv2"),
    *("owlvit", "resnet", "sam", "sam2", "segformer", "siglip", "siglip2", "siglip_vision_model"),
    *("siglip_text_model", "swin", "swinv2", "timesformer", "videomae", "vit", "vit_mae"),
    *("vivit", "yolos", "siglip2_vision_model"),
)
_SPEECH = (
    *("audio-spectrogram-transformer", "bark", "clap", "data2vec-audio", "dac", "encodec"),
    *(
        "fastspeech2_conformer",
        "hubert",
        "mimi",
        "moshi",
        "parakeet_ctc",
        "parakeet_encoder",
        "sew",
    ),
    *("sew-d", "unispeech", "unispeech-sat", "univnet", "vits", "wav2vec2", "wav2vec2-bert"),
    *("wav2vec2-conformer", "wavlm"),
)
_DIFFUSION = (
    *("a2d-qwen2", "a2d-qwen3", "diffusion_gemma", "dream", "dimple", "fast_dllm", "llada"),
    *("llada_moe", "llada2_moe", "llada2", "lladamoe", "lladav", "mdlm", "mmada", "pi0", "sdar"),
    *("sdar_moe", "sedd"),
)
_DRAFTS = ("gemma4_assistant", "gemma4_unified_assistant", "eagle", "medusa", "mlp_speculator")
_TYPES: Mapping[str, Kind] = {
    **dict.fromkeys(_ENCODERS, "encoder-only"),
    **dict.fromkeys(_ENCODER_DECODERS, "encoder-decoder"),
    **dict.fromkeys(_VISION, "vision front end"),
    **dict.fromkeys(_SPEECH, "speech front end"),
    **dict.fromkeys(_DIFFUSION, "diffusion language model"),
    **dict.fromkeys(_DRAFTS, "draft model"),
    "xlnet": "permutation language model",
}
#: Kinds by the name of a class, for types that publishers define; the first match counts.
_CLASSES: tuple[tuple[re.Pattern[str], Kind], ...] = (
    (re.compile(r"^(LLaDA|Dream|SDAR|MDLM|DiffuCoder)|Diffusion"), "diffusion language model"),
    (re.compile(r"For(CTC|AudioClassification|AudioFrameClassification|XVector)$"),
     "speech front end"),
    (re.compile(r"For(SpeechSeq2Seq|TextToSpeech)$"), "encoder-decoder"),
    (re.compile(r"For(Image|Video)Classification$|For(ObjectDetection|DepthEstimation)$"
                r"|ForMaskedImageModeling$|ForSemanticSegmentation$"), "vision front end"),
    (re.compile(r"For(MaskedLM|NextSentencePrediction)$|Bert\w*For(PreTraining|\w+Answering)$"
                r"|BidirectionalModel$"), "encoder-only"),
    (re.compile(r"For(Sequence|Token)Classification$|For(MultipleChoice|QuestionAnswering)$"
                r"|RewardModel$|ForTextEncoding$"), "classifier"),
)  # fmt: skip
#: What a checkpoint of each kind does instead of generating with a cache, as worded in the message.
_INSTEAD: Mapping[Kind, str] = {
    "encoder-only": "reads its whole input at once and generates no tokens",
    "encoder-decoder": "runs an encoder first and attends to it from every layer of its decoder",
    "vision front end": "turns images into features and generates no tokens",
    "speech front end": "turns sound into features or sound and generates no text from a cache",
    "diffusion language model": "refines whole blocks of tokens in steps",
    "permutation language model": "keeps no cache of keys and values",
    "draft model": "runs inside the speculative decoding of another model",
    "classifier": "ends in a score, not in the logits of a next token",
}
_REMEDY: Mapping[Kind, str] = {
    "draft model": "give the model that it drafts for and a draft length",
    "classifier": "give the config of its base model and read the prefill alone",
}
#: Names of well-known checkpoints of other kinds, for which no config is given.
_NAMES: tuple[tuple[re.Pattern[str], Kind], ...] = (
    (re.compile(r"whisper|\bt5\b|t5gemma|flan-(t5|ul2)|\bm?bart\b|nllb|marian|opus-mt|pegasus"
                r"|madlad|moonshine", re.I), "encoder-decoder"),
    (re.compile(r"llada|\bdream-|\bsdar\b|diffucoder", re.I), "diffusion language model"),
    (re.compile(r"bert\b|bert-|roberta|\bbge-|\be5-(small|base|large)|multilingual-e5|minilm|mpnet|gte-(small|base"
                r"|large)|embeddinggemma|nv-embed|electra|deberta|nomic-embed", re.I),
     "encoder-only"),
    (re.compile(r"\bclip-vit|siglip|dinov|\bvit-", re.I), "vision front end"),
    (re.compile(r"wav2vec|hubert|encodec", re.I), "speech front end"),
)  # fmt: skip


def refuse_other_names(name: str) -> None:
    """Raise if a name is known as a checkpoint of another kind.

    Raises:
        NotADecoder: the name is of an encoder, an encoder-decoder or a diffusion model.
    """
    kind = next((kind for pattern, kind in _NAMES if pattern.search(name)), None)
    if kind:
        raise not_a_decoder(kind, f"the name {name!r}")


_TEXT_SECTIONS = ("text_config", "language_config", "llm_config")


def refuse_other_kinds(config: Mapping[str, Any], name: str = "") -> None:
    """Raise if a config is not a decoder's; unknown types pass.

    It is for configs that no builder describes.

    Raises:
        NotADecoder: the type, class or switches of the config are those of another kind.
    """
    if isinstance(config, Mapping) and (found := other_kind(config)):
        raise not_a_decoder(*found, name)


def not_a_decoder(kind: Kind, mark: str, name: str = "") -> NotADecoder:
    """The error that refuses a checkpoint.  mark: the entry of its config that shows the kind."""
    article = "an" if kind.startswith("e") else "a"
    remedy = _REMEDY.get(kind, "give the config of a causal language model")
    label = f"{name[:200]}: " if name else ""
    what = f"{kind} model" if kind == "encoder-only" else kind
    return NotADecoder(
        f"{label}{mark[:120]} belongs to {article} {what}, which {_INSTEAD[kind]}; "
        f"this one is not described, so {remedy}",
        kind,
    )


def other_kind(config: Mapping[str, Any]) -> tuple[Kind, str] | None:
    """(kind, the config entry that shows it) of a checkpoint that is not a decoder; None for a
    decoder.

    An image or sound model whose text model is a decoder counts as a decoder.
    """
    sections = [config, *(config.get(key) for key in _TEXT_SECTIONS)]
    for section in (part for part in sections if isinstance(part, Mapping)):
        if found := _by_type(section) or _by_class(section) or _by_switch(section):
            return found
    return None


def _by_type(section: Mapping[str, Any]) -> tuple[Kind, str] | None:
    model_type = section.get("model_type")
    kind = _TYPES.get(model_type.casefold()) if isinstance(model_type, str) else None
    if kind == "encoder-only" and _generates(section):
        return None
    return (kind, f"model_type {model_type!r}") if kind else None


def runs_as_decoder(config: Mapping[str, Any]) -> bool:
    """Whether a config sets the modules of an encoder to run as a decoder."""
    model_type = config.get("model_type")
    known = isinstance(model_type, str) and _TYPES.get(model_type.casefold()) == "encoder-only"
    return known and _generates(config)


def _generates(section: Mapping[str, Any]) -> bool:
    """Whether an encoder's modules are set to run as a decoder, under a causal mask."""
    return section.get("is_decoder") is True and section.get("add_cross_attention") is not True


def _by_class(section: Mapping[str, Any]) -> tuple[Kind, str] | None:
    classes = section.get("architectures")
    if not isinstance(classes, list | tuple) or not classes or not isinstance(classes[0], str):
        return None
    kind = next((kind for pattern, kind in _CLASSES if pattern.search(classes[0])), None)
    return (kind, f"class {classes[0]}") if kind else None


def _by_switch(section: Mapping[str, Any]) -> tuple[Kind, str] | None:
    if section.get("is_encoder_decoder") is True:
        return "encoder-decoder", "is_encoder_decoder = true"
    for key, value in (("use_bidirectional_attention", True), ("is_causal", False)):
        given = section.get(key)
        if given is value or (value is True and given == "all"):
            return "encoder-only", f"{key} = {str(given).lower()}"
    return None
