"""LongCat-Flash: two attentions and two feed-forwards per layer, with experts parallel to them."""

from __future__ import annotations

from model_registry.architectures.deepseek import latent_attention
from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import decoder, feed_forward
from model_registry.spec import Layer, Mixture, ModelSpec, SequenceTables, ShortcutMixture


@architecture("longcat_flash", "longcat_flash_ngram")
def longcat_flash(config: Config) -> ModelSpec:
    """The experts read what the first feed-forward reads and are added at the end of the layer;
    some choices of their router do nothing (arXiv:2509.01322, section 2)."""
    config.ignore("attention_method", "zero_expert_type", "mla_scale_q_lora", "mla_scale_kv_lora")
    config.ignore("norm_topk_prob", "router_bias", "moe_intermediate_size", "rope_interleave")
    mixer = latent_attention(config)
    dense = feed_forward(config, key="ffn_hidden_size")
    experts = Mixture(
        experts=config.integer("num_experts"),
        top_k=config.integer("moe_topk", 0) or config.integer("num_experts_per_tok"),
        intermediate=config.integer("expert_ffn_hidden_size"),
        router_bias=config.flag("router_bias"),
        idle_choices=config.integer("zero_expert_num", 0),
    )
    layer = Layer((mixer, dense, ShortcutMixture(experts), mixer, dense))
    note = f"a token reaches {experts.reached:g} of its {experts.top_k} choices on average"
    tables = _sequence_tables(config)
    return decoder(config, layer, notes=(note,), sequence_tables=tables)


def _sequence_tables(config: Config) -> SequenceTables | None:
    """Tables for two to `emb_neighbor_num` tokens, each split in `emb_split_num` (Lite)."""
    ratio, split = config.integer("ngram_vocab_size_ratio", 0), config.integer("emb_split_num", 4)
    tables = split * (config.at_least_one("emb_neighbor_num", 4) - 1)
    if not ratio or not tables:
        return None
    width = config.integer("hidden_size") // tables
    return SequenceTables(tables, ratio * config.integer("vocab_size"), width)
