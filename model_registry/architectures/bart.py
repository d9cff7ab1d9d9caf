"""BART and related models, and Whisper: two stacks with biases, cross-attention in every decoder
layer.
"""

from __future__ import annotations

from dataclasses import dataclass

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.stacks import Stack, biased_layers, encoder_decoder
from model_registry.spec import ModelSpec, SoundInput

_IGNORED = (
    *("num_hidden_layers", "encoder_layerdrop", "decoder_layerdrop", "scale_embedding"),
    *(
        "normalize_before",
        "add_final_layer_norm",
        "normalize_embedding",
        "static_position_embeddings",
    ),
    *("extra_pos_embeddings", "add_bias_logits", "force_bos_token_to_be_generated", "save_step"),
    *("share_encoder_decoder_embeddings", "decoder_vocab_size", "num_attention_heads"),
    *("use_prompt", "prompt_length", "prompt_mid_dim", "gradient_checkpointing", "is_decoder"),
    *("layernorm_variant", "variant", "bos_token_id", "classif_dropout", "extra_layer_norm"),
)


@dataclass(frozen=True, slots=True)
class _Habits:
    """What distinguishes the families of BART's kind.

    rows: added to the learned position table, None for positions without parameters.
    """

    norm_first: bool
    embedding_norm: bool
    rows: int | None
    start_tokens: int = 1


_HABITS = {
    "bart": _Habits(False, True, 2),
    "plbart": _Habits(False, True, 2),
    "mvp": _Habits(False, True, 2),
    "blenderbot-small": _Habits(False, True, 0),
    "marian": _Habits(False, False, 0),
    "mbart": _Habits(True, True, 2, start_tokens=2),
    "m2m_100": _Habits(True, False, None, start_tokens=2),
    "pegasus": _Habits(True, False, 0),
    "blenderbot": _Habits(True, False, 0),
}


@architecture(*_HABITS)
def bart(config: Config) -> ModelSpec:
    """BART (arXiv:1910.13461), mBART, PLBART, Marian, M2M-100 and NLLB, Pegasus, BlenderBot."""
    config.ignore(*_IGNORED)
    habits = _HABITS[config.model_type]
    positions = config.integer("max_position_embeddings", 1024)
    rows = 0 if habits.rows is None else positions + habits.rows
    first = habits.norm_first
    final = first and config.model_type != "plbart"
    stacks = [
        Stack(
            biased_layers(config, side, norm_first=first),
            positions=rows,
            embedding_norm=habits.embedding_norm,
            final_norm=final,
        )
        for side in ("encoder", "decoder")
    ]
    return encoder_decoder(config, *stacks, max_context=positions, start_tokens=habits.start_tokens)


@architecture("whisper")
def whisper(config: Config) -> ModelSpec:
    """Whisper (arXiv:2212.04356): two convolutions over 30 s of sound; keys without biases."""
    config.ignore(*_IGNORED, "max_position_embeddings", "apply_spec_augment", "median_filter_width")
    config.ignore("use_weighted_layer_sum", "classifier_proj_size", "max_target_positions")
    config.ignore(*(f"mask_{axis}_{what}" for axis in ("time", "feature")
                    for what in ("prob", "length", "min_masks")))  # fmt: skip
    source = config.integer("max_source_positions", 1500)
    bands = config.integer("num_mel_bins", 80)
    encoder = Stack(
        biased_layers(config, "encoder", norm_first=True, key_bias=False),
        positions=source,
        sound=SoundInput(bands, window_tokens=source),
    )
    decoder = Stack(
        biased_layers(config, "decoder", norm_first=True, key_bias=False),
        positions=config.integer("max_target_positions", 448),
    )
    return encoder_decoder(config, encoder, decoder, max_context=source, start_tokens=4)
