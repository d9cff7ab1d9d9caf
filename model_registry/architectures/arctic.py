"""Snowflake Arctic: a dense feed-forward in every layer, experts beside the whole layer."""

from __future__ import annotations

from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, mixture
from model_registry.spec import FeedForward, Layer, ModelSpec, ShortcutMixture


@architecture("arctic")
def arctic(config: Config) -> ModelSpec:
    """The experts read the layer's input through a norm of their own; the dense feed-forward is as
    wide as the model.
    """
    config.ignore(
        "use_residual", "parallel_attn_mlp_res", "moe_layer_frequency", "moe_eval_capacity_factor"
    )
    config.ignore(
        "moe_train_capacity_factor",
        "moe_min_capacity",
        "moe_token_dropping",
        "enable_expert_tensor_parallelism",
    )
    config.ignore("quantization", "enc_index")
    dense = FeedForward(config.integer("hidden_size"))
    layer = Layer((ShortcutMixture(mixture(config)), attention(config), dense), extra_norms=1)
    return decoder(config, layer)
