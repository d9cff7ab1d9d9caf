"""RecurrentGemma: two gated recurrences for each windowed attention."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, layer_count
from model_registry.spec import FeedForward, GatedRecurrence, Layer, ModelSpec


@architecture("recurrent_gemma")
def recurrent_gemma(config: Config) -> ModelSpec:
    """Griffin (arXiv:2402.19427); `intermediate_size` counts gate and up together."""
    config.ignore("logits_soft_cap", "w_init_variance_scale", "final_w_init_variance_scale")
    config.ignore("embeddings_scale_by_sqrt_dim")
    heads = config.integer("num_attention_heads")
    kinds = config.sequence("block_types") or config.sequence("_block_types")
    kinds = kinds or ["recurrent", "recurrent", "attention"]
    window = config.integer("attention_window_size", 2048)
    recurrence = GatedRecurrence(
        width=config.integer("lru_width", 0) or config.integer("hidden_size"),
        heads=heads,
        kernel=config.integer("conv1d_width", 4),
    )
    bias = config.flag("attention_bias")
    mixer = attention(config, qkv_bias=bias, output_bias=True, window=window)
    dense = FeedForward(config.integer("intermediate_size") // 2, bias=True)
    layers = [
        Layer((mixer if kinds[at % len(kinds)] == "attention" else recurrence, dense))
        for at in range(layer_count(config))
    ]
    return decoder(config, layers, tied=True)
