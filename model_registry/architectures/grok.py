"""Grok: eight wide experts, norms in front and behind."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, mixture
from model_registry.spec import Layer, ModelSpec


@architecture("grok-1")
def grok(config: Config) -> ModelSpec:
    """Attention and experts, each between two norms; one table for both ends."""
    return decoder(config, Layer((attention(config), mixture(config)), norms="both"), tied=True)


@architecture("grok-2")
def grok2(config: Config) -> ModelSpec:
    """Grok-1's layer with a dense feed-forward parallel to the experts, and separate tables for
    input and output.
    """
    config.ignore("residual_moe", "router_logit_softcapping", "final_logit_softcapping")
    config.ignore("attn_temperature_len", "original_max_position_embeddings", "rope_type")
    experts = mixture(config, shared=config.integer("intermediate_size"))
    return decoder(config, Layer((attention(config), experts), norms="both"))
