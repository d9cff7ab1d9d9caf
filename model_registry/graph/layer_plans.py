"""Readers of the parts of a layer plan that most families share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from genz_core.errors import InvalidValue
from model_registry.graph.keys import Config
from model_registry.spec import Attention, FeedForward, Layer, Mixture, ModelSpec


def attention(config: Config, *, qkv_bias: bool | None = None, **more: Any) -> Attention:
    """The attention described by the usual keys.

    qkv_bias: biases on queries, keys and values only; None to use `attention_bias`, which covers
    all four projections.  more: fields of `Attention` that the family fixes without a key.

    Raises:
        InvalidValue: impossible numbers of heads.
    """
    heads = config.integer("num_attention_heads")
    hidden = config.integer("hidden_size")
    head_dim = config.integer("head_dim", 0) or hidden // heads
    bias = config.flag("attention_bias")
    fields = {
        "heads": heads,
        "kv_heads": config.integer("num_key_value_heads", heads) or heads,
        "head_dim": head_dim,
        "qkv_bias": bias if qkv_bias is None else qkv_bias,
        "output_bias": bias if qkv_bias is None else False,
        **more,
    }
    return _checked(config, Attention(**fields))


def _checked(config: Config, mixer: Attention) -> Attention:
    """`mixer`, refused with `InvalidValue` if its numbers of heads are impossible."""
    if mixer.head_dim < 1:
        raise InvalidValue(
            f"{config.name}: {config.integer('hidden_size')} wide with {mixer.heads} heads leaves "
            "a head no width; check hidden_size and num_attention_heads"
        )
    if mixer.kv_heads < 1 or mixer.heads % mixer.kv_heads:
        raise InvalidValue(
            f"{config.name}: {mixer.heads} attention heads cannot share {mixer.kv_heads} KV heads; "
            "one must divide the other"
        )
    return mixer


def feed_forward(config: Config, *, key: str = "intermediate_size", **more: Any) -> FeedForward:
    """The feed-forward described by the usual keys: gated, with biases if `mlp_bias` is set.

    key: key of its width.  more: fields of `FeedForward` that the family fixes without a key.
    """
    fields = {"bias": config.flag("mlp_bias"), **more}
    return FeedForward(config.integer(key), **fields)


def mixture(config: Config, **more: Any) -> Mixture:
    """Routed and shared experts described by the usual keys.

    Shared experts have `num_shared_experts` times the width of a routed one, or
    `shared_expert_intermediate_size`.  more: fields of `Mixture` that the family fixes.
    """
    width = config.integer("moe_intermediate_size", 0) or config.integer("intermediate_size")
    config.ignore("intermediate_size")  # width of dense layers, where there are any
    shared = config.integer("shared_expert_intermediate_size", 0)
    fields = {
        "experts": config.integer("num_experts"),
        "top_k": config.integer("num_experts_per_tok"),
        "intermediate": width,
        "shared": shared or config.integer("num_shared_experts", 0) * width,
        "groups": config.integer("n_group", 0),
        "chosen_groups": config.integer("topk_group", 0),
        **more,
    }
    return Mixture(**fields)


def layer_count(config: Config) -> int:
    """The number of decoder layers.

    Raises:
        InvalidValue: beyond 4096, so that a hostile config takes no time.
    """
    count = config.integer("num_hidden_layers")
    if count > 4096:
        raise InvalidValue(f"{config.name}: num_hidden_layers is {count}; at most 4096 are read")
    return count


def windows(config: Config, *, every: int = 0, first_full: int = 0) -> list[int]:
    """The window of each layer, 0 for full attention.

    `layer_types` decides where it is given; otherwise every `every`-th layer is full (0: no layer
    has a window, unless the family's file decides otherwise).
    """
    count, window = layer_count(config), config.integer("sliding_window", 0)
    kinds = config.pattern("layer_types", count, ["full_attention"] * count)
    if "layer_types" in config:
        return [window if "sliding" in kind else 0 for kind in kinds]
    if not every or not window:
        return [0] * count
    return [0 if (at + 1) % every == 0 or at < first_full else window for at in range(count)]


def experts_at(config: Config, *, first_dense: int = 0) -> list[bool]:
    """Whether each layer has experts: all after the first ones, every n-th, or those in a list.

    first_dense: number of first layers without, for a config that does not state it.
    """
    count = layer_count(config)
    first = config.integer("first_k_dense_replace", first_dense)
    if isinstance(config.value("moe_layer_freq"), list):
        return [bool(on) for on in config.pattern("moe_layer_freq", count, ())]
    step = max(config.integer("moe_layer_freq", 1), 1)
    kinds = config.pattern("mlp_layer_types", count, ()) if "mlp_layer_types" in config else None
    if kinds is not None:
        return [kind in ("sparse", "moe") for kind in kinds]
    return [at >= first and at % step == 0 for at in range(count)]


def feed_forwards(
    config: Config, *, first_dense: int = 0, **more: Any
) -> list[FeedForward | Mixture]:
    """The block behind the mixer of each layer: experts in the layers of `experts_at`.

    more: fields of `Mixture` that the family fixes.
    """
    sparse = experts_at(config, first_dense=first_dense)
    return [mixture(config, **more) if on else feed_forward(config) for on in sparse]


#: Kinds of rotary scaling whose configs state the extended number of positions directly.
_STRETCHED = ("default", "mrope", "su", "longrope", "llama3")


def positions(config: Config) -> int | None:
    """Maximum context by positions, after rotary scaling; None if not stated.

    Linear, dynamic and YaRN scaling multiply the positions that the model was trained with by a
    factor; Gemma 3 states the product.
    Source: https://github.com/vllm-project/vllm/blob/v0.11.0/vllm/config/model.py
    """
    most = config.integer("max_position_embeddings", 0)
    scaling = config.value("rope_scaling") or config.value("rope_parameters")
    if not isinstance(scaling, Mapping) or config.model_type.startswith("gemma3"):
        return most or None
    kind, factor = scaling.get("rope_type", scaling.get("type")), scaling.get("factor")
    if kind in _STRETCHED or not isinstance(factor, int | float):
        return most or None
    trained = scaling.get("original_max_position_embeddings") if kind == "yarn" else most
    stretched = int(trained * factor) if isinstance(trained, int | float) else 0
    return max(most, stretched) or None


def decoder(config: Config, layers: Layer | Sequence[Layer], **more: Any) -> ModelSpec:
    """The spec of a layer plan, with input and output described by the usual keys.

    A prediction module equals the last layer unless the family states otherwise.
    layers: all layers, or the one that repeats.  more: fields of `ModelSpec` that the family fixes;
    `tied` only where the config does not state it.
    """
    if isinstance(layers, Layer):
        layers = [layers] * layer_count(config)
    predicts = config.integer("num_nextn_predict_layers", 0)
    fields: dict[str, Any] = {
        "name": config.name,
        "model_type": config.model_type,
        "hidden": config.integer("hidden_size"),
        "vocabulary": config.integer("vocab_size"),
        "layers": tuple(layers),
        "tied": config.flag("tie_word_embeddings", more.pop("tied", False)),
        "max_context": positions(config),
        "mtp_layers": predicts,
        "prediction": tuple(layers[-1:]),
        **more,
    }
    if not predicts:
        fields["prediction"] = ()
    return ModelSpec(**fields)
