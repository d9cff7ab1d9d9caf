"""Encoder-decoders: counted like transformers, the encoder runs once, cross-attention is cached."""

import importlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import genz_core
import hardware_db
import model_registry
from genz_core.errors import InvalidValue
from genz_core.models.model_kinds import model_kind, prompt_tokens
from genz_core.types import Group, Parallelism, Step, Workload
from model_registry.graph.model import DescribedModel
from model_registry.spec import ModelInputs
from tests.model_registry.test_encoders import products

H100 = hardware_db.load("h100")
_BART: dict[str, Any] = {
    "d_model": 64, "encoder_layers": 2, "decoder_layers": 3, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 96, "decoder_ffn_dim": 80, "vocab_size": 320,
    "max_position_embeddings": 40, "is_encoder_decoder": True,
}  # fmt: skip
_T5: dict[str, Any] = {
    "d_model": 64, "d_kv": 12, "num_heads": 4, "d_ff": 96, "num_layers": 2,
    "num_decoder_layers": 3, "vocab_size": 320, "is_encoder_decoder": True,
}  # fmt: skip
TINY: dict[str, dict[str, Any]] = {
    "t5": _T5,
    "mt5": {**_T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": True},
    "umt5": {**_T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": True},
    **dict.fromkeys(
        ("bart", "mbart", "marian", "m2m_100", "pegasus", "blenderbot", "blenderbot-small",
         "plbart", "mvp"), _BART),
    "whisper": {**_BART, "num_mel_bins": 16, "max_source_positions": 20,
                "max_target_positions": 12},
}  # fmt: skip
_GEMMA: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 12, "vocab_size": 320, "sliding_window": 64,
}  # fmt: skip
TINY["t5gemma"] = {
    "encoder": _GEMMA,
    "decoder": {**_GEMMA, "hidden_size": 48, "num_hidden_layers": 3},
    "vocab_size": 320,
    "is_encoder_decoder": True,
}
TOKENS = 20


def transformers_model(kind: str) -> Any:
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers", minversion="5.0")
    special = {"pad_token_id": 1, "eos_token_id": 2, "bos_token_id": 0, "decoder_start_token_id": 2}
    settings = transformers.AutoConfig.for_model(kind, **TINY[kind], **special)
    speech = kind == "whisper"
    auto = transformers.AutoModelForSpeechSeq2Seq if speech else transformers.AutoModelForSeq2SeqLM
    return auto.from_config(settings, attn_implementation="eager").eval()


@pytest.mark.parametrize("kind", TINY)
def test_parameters_and_products_are_those_of_transformers(kind: str) -> None:
    """A prompt with one start token, and a step after it that reads both caches."""
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    theirs = transformers_model(kind)
    model = model_registry.load({"model_type": kind, **TINY[kind]})
    assert isinstance(model, DescribedModel) and model_kind(model) == "encoder-decoder"
    assert model.parameters == sum(p.numel() for p in theirs.parameters())
    source = {"input_ids": torch.full((2, TOKENS), 5)}
    if kind == "whisper":
        source = {"input_features": torch.zeros(2, 16, 2 * TOKENS)}
    with FlopCounterMode(display=False) as prompt, torch.no_grad():
        first = theirs(**source, decoder_input_ids=torch.full((2, 1), 5), use_cache=True)
    made = importlib.import_module("transformers.modeling_outputs").BaseModelOutput
    kept = {"encoder_outputs": made(last_hidden_state=first.encoder_last_hidden_state)}
    with FlopCounterMode(display=False) as later, torch.no_grad():
        theirs(
            **kept, decoder_input_ids=torch.full((2, 1), 6), past_key_values=first.past_key_values
        )
    model = replace(model, spec=replace(model.spec, start_tokens=1))
    step = Step((Group(2.0, 1.0, float(TOKENS), prompt=float(TOKENS)),))
    assert products(model, Step.prefill(2.0, float(TOKENS))) == prompt.get_total_flops()
    assert products(model, step) == later.get_total_flops()


@pytest.mark.parametrize(
    ("name", "published"),
    [("openai/whisper-large-v3", 1.54e9), ("google-t5/t5-large", 738e6),
     ("facebook/bart-large", 406e6), ("google/t5gemma-9b-9b", 20_333_401_088)],
)  # fmt: skip
def test_shipped_ones_have_their_published_size(name: str, published: float) -> None:
    """Model cards: Whisper 1.54 B (its safetensors), T5-large 738 M, BART-large 406 M."""
    assert model_registry.load(name).parameters == pytest.approx(published, rel=5e-3)


def test_the_encoder_runs_once_and_its_keys_are_made_once() -> None:
    model = model_registry.load("google-t5/t5-large")
    one = genz_core.estimate(model, H100, Workload(8, 512, 64))
    modules = [op.module for op in one.prefill.graph.ops]
    first = one.prefill.operators_s[:, 0]
    later = one.decode.operators_s[:, 0]
    encoder = np.array([module.startswith("encoder.") for module in modules])
    names = [op.name for op in one.prefill.graph.ops]
    made = names.index("cross_kv_proj")
    assert first[encoder].sum() > 0 and one.decode.flops[encoder, 0].sum() == 0
    assert one.prefill.flops[made, 0] > 0 and one.decode.flops[made, 0] == 0
    assert later[names.index("cross_attention")] > 0


def test_the_cache_holds_the_prompt_across_and_the_answer_of_the_decoder_itself() -> None:
    model = model_registry.load("google-t5/t5-large")
    layers, width, both = 24, 1024, 2

    def held(prompt: float, context: float) -> float:
        step = Step((Group(1.0, 1.0, context, prompt=prompt),))
        ops = model.graph(step, Parallelism()).ops
        return float(sum(np.sum(op.held_kv_bytes) * op.count for op in ops))

    token = layers * width * both * 2.0
    assert held(512, 512) == (512 + 2) * token  # the start token and the one that is generated next
    assert held(512, 612) - held(512, 512) == 100 * token
    assert held(1024, 1024) - held(512, 512) == 512 * token


def test_sound_fills_its_window() -> None:
    model = model_registry.load("openai/whisper-large-v3")
    assert isinstance(model, DescribedModel)
    assert prompt_tokens(model, 77) == 1500
    assert model.with_inputs(ModelInputs(audio_s=12.0)).prompt_tokens(1) == 1500
    with pytest.raises(InvalidValue, match="30 s of audio at a time"):
        model.with_inputs(ModelInputs(audio_s=31.0))
    with pytest.raises(InvalidValue, match="takes no audio"):
        bart = model_registry.load("facebook/bart-large")
        assert isinstance(bart, DescribedModel)
        bart.with_inputs(ModelInputs(audio_s=1.0))


def test_a_longer_prompt_and_more_users_never_take_less_time() -> None:
    model = model_registry.load("google-t5/t5-large")
    lengths = genz_core.estimate(model, H100, Workload(4, np.array([64, 512, 4096]), 32))
    assert np.all(np.diff(lengths.ttft_s) > 0) and np.all(np.diff(lengths.tpot_s) > 0)
    users = np.array([1.0, 8.0, 64.0])
    served = genz_core.serve(model, H100, genz_core.Traffic(512, 64, concurrency=users))
    assert np.all(np.diff(served.output_tokens_per_s) > 0) and np.all(np.diff(served.tpot_s) > 0)
