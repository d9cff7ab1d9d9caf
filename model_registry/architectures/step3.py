"""Step-3: multi-matrix factorised attention, experts in most layers."""

from __future__ import annotations

from genz_core.errors import InvalidValue
from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import decoder, feed_forward, layer_count, mixture
from model_registry.spec import FactorisedAttention, Layer, ModelSpec


@architecture("step3_text")
def step3(config: Config) -> ModelSpec:
    """Queries through a narrow space, one head of keys and values (arXiv:2507.19427)."""
    config.ignore(
        "norm_expert_weight",
        "moe_dynamic_exp_p",
        "enable_moe",
        "allgather_dtype",
        "model_max_length",
    )
    config.ignore("share_expert_dims", "max_seq_len", "use_moe")
    mixer = FactorisedAttention(
        heads=config.integer("num_attention_heads"),
        head_dim=config.integer("head_dim"),
        query_rank=config.integer("share_q_dim"),
        kv_heads=config.integer("num_attention_groups", 1),
    )
    sparse = _sparse(config)
    experts = mixture(config, shared=config.integer("share_expert_dim", 0))
    dense = feed_forward(config)
    layers = [
        Layer((mixer, experts if not sparse or at in sparse else dense))
        for at in range(layer_count(config))
    ]
    return decoder(config, layers)


def _sparse(config: Config) -> set[int]:
    """Indices of the layers with experts: a list, or a text such as "4,5,6"; empty where all have
    them.
    """
    named = config.value("moe_layers_enum", "")
    if not isinstance(named, str):
        return set(config.integers("moe_layers_enum"))
    parts = [part.strip() for part in named.split(",") if part.strip()]
    if not all(part.isdecimal() for part in parts):
        raise InvalidValue(f"{config.name}: moe_layers_enum is {named!r}, not a list of layers")
    return {int(part) for part in parts}
