"""Gemma 3n: Gemma 3's layers on one of several copies of the stream, with an input per layer."""

from __future__ import annotations

from genz_core.errors import InvalidValue
from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, layer_count, windows
from model_registry.spec import AlternatingUpdate, FeedForward, Layer, LayerInput, ModelSpec


@architecture("gemma3n_text")
def gemma3n(config: Config) -> ModelSpec:
    """The last layers read the caches of earlier ones.  Activations that the first layers set to
    zero are still multiplied.
    """
    config.ignore("activation_sparsity_pattern", "altup_active_idx", "altup_correct_scale")
    config.ignore("altup_lr_multiplier", "vocab_size_per_layer_input", "altup_coef_clip")
    count, streams = layer_count(config), config.integer("altup_num_inputs", 4)
    many = isinstance(config.value("intermediate_size"), list)
    widths = config.integers("intermediate_size") if many else []
    if len(widths) not in (0, 1, count):
        raise InvalidValue(f"{config.name}: {len(widths)} feed-forward widths for {count} layers")
    widths = widths if len(widths) == count else [config.first_integer("intermediate_size")] * count
    first_sharing = count - config.integer("num_kv_shared_layers", 0)
    update = AlternatingUpdate(streams, config.integer("laurel_rank", 64))
    own = LayerInput(config.integer("hidden_size_per_layer_input", 256))
    layers = [
        Layer(
            (
                update,
                attention(config, norm="head", window=window, shares_kv=at >= first_sharing),
                FeedForward(widths[at]),
                own,
            ),
            norms="both",
        )
        for at, window in enumerate(windows(config, every=5))
    ]
    rows = config.integer("vocab_size_per_layer_input", 262144)
    return decoder(config, layers, tied=True, layer_input_rows=rows, copies=streams)
