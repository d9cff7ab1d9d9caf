"""ModernBERT: an encoder of rotary, gated layers, most of which attend only to a local window."""

from __future__ import annotations

from dataclasses import replace

from model_registry.architectures.registry import architecture
from model_registry.graph.encoder_heads import encoder, labels, task_of
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, feed_forward, layer_count
from model_registry.spec import HeadProjection, Layer, ModelSpec

_IGNORED = (
    *("global_rope_theta", "local_rope_theta", "deterministic_flash_attn", "reference_compile"),
    *("sparse_prediction", "sparse_pred_ignore_index", "classifier_pooling", "norm_bias"),
    *("classifier_activation", "repad_logits_with_grad", "position_embedding_type"),
    *("classifier_bias", "decoder_bias", "max_position_embeddings"),
)


@architecture("modernbert")
def modernbert(config: Config) -> ModelSpec:
    """ModernBERT (arXiv:2412.13663): a token attends to half of `local_attention` on either side.

    The embedding's norm replaces that of the first layer.
    """
    config.ignore(*_IGNORED)
    count, half = layer_count(config), config.integer("local_attention", 128) // 2
    every = max(config.integer("global_attn_every_n_layers", 3), 1)
    usual = ["sliding_attention" if at % every else "full_attention" for at in range(count)]
    dense = feed_forward(config)
    layers = [
        Layer((attention(config, causal=False, window=window), dense))
        for window in (
            2 * half + 1 if "sliding" in kind else 0
            for kind in config.pattern("layer_types", count, usual)
        )
    ]
    layers[0] = replace(layers[0], bare=True)
    return encoder(
        config,
        layers,
        _heads(config),
        norm="layer" if config.flag("norm_bias") else "layer_without_bias",
        embedding_norm=True,
    )


def _heads(config: Config) -> tuple[HeadProjection, ...]:
    """The heads of the class that the config names; the plain model ends with its last layer."""
    hidden, rows = config.integer("hidden_size"), config.integer("vocab_size")
    bias, task = config.flag("classifier_bias"), task_of(config)
    once = task in ("SequenceClassification", "MultipleChoice")
    dense = HeadProjection("prediction_head", hidden, hidden, bias=bias, norm=True)
    dense = dense if once else replace(dense, each="token")
    wide = config.flag("decoder_bias", True)
    table = HeadProjection("masked_head", rows, hidden, bias=wide, activation=False, tied=True)
    last = {
        "MaskedLM": replace(table, each="token"),
        "SequenceClassification": labels(config, hidden),
        "MultipleChoice": labels(config, hidden, 1),
        "TokenClassification": labels(config, hidden, each="token"),
        "QuestionAnswering": labels(config, hidden, 2, each="token"),
    }.get(task)
    return (dense, last) if last else ()
