"""DeepSeek-V4: windows and compressed tokens, several residual streams, experts in every layer."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import decoder, layer_count, mixture
from model_registry.spec import CompressedAttention, Indexer, Layer, ModelSpec

_SPARSE, _HEAVY = "compressed_sparse_attention", "heavily_compressed_attention"


@architecture("deepseek_v4", "deepseek_ref")
def deepseek_v4(config: Config) -> ModelSpec:
    """`compress_ratios` states for each layer how many tokens one entry represents.

    A prediction module attends only to its window (the entry after the last layer is 0).
    """
    config.ignore("num_hash_layers", "num_key_value_heads", "hc_sinkhorn_iters", "mlp_layer_types")
    count, rates = layer_count(config), config.section("compress_rates")
    ratio_of = {_SPARSE: rates.integer(_SPARSE, 4), _HEAVY: rates.integer(_HEAVY, 128)}
    named = [ratio_of.get(str(kind), 0) for kind in config.sequence("layer_types")]
    ratios = config.pattern("compress_ratios", count, named)
    experts = mixture(config)
    layers = [Layer((_attention(config, int(ratio)), experts)) for ratio in ratios]
    predicts = Layer((_attention(config, 0), experts))
    return decoder(config, layers, prediction=(predicts,), streams=config.integer("hc_mult"))


def _attention(config: Config, ratio: int) -> CompressedAttention:
    """An indexer chooses entries where they represent few tokens; elsewhere all entries are
    attended to.
    """
    indexer = Indexer(
        heads=config.integer("index_n_heads"),
        dim=config.integer("index_head_dim"),
        top_k=config.integer("index_topk"),
    )
    return CompressedAttention(
        heads=config.integer("num_attention_heads"),
        head_dim=config.integer("head_dim"),
        query_rank=config.integer("q_lora_rank"),
        rope_dim=config.integer("qk_rope_head_dim", 64),
        window=config.integer("sliding_window"),
        ratio=ratio,
        output_groups=config.integer("o_groups"),
        output_rank=config.integer("o_lora_rank"),
        indexer=indexer if 0 < ratio < 64 else None,
    )
