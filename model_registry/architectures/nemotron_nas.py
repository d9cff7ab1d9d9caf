"""Nemotron-NAS (DeciLM): Llama layers with widths chosen by architecture search; some have no
block.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from genz_core.errors import InvalidValue, UnsupportedModel
from model_registry.architectures.registry import architecture
from model_registry.graph.keys import Config
from model_registry.graph.layer_plans import attention, decoder, layer_count
from model_registry.spec import Block, FeedForward, Layer, ModelSpec


@architecture("nemotron-nas")
def nemotron_nas(config: Config) -> ModelSpec:
    """`block_configs` gives, for each layer, the query heads per key head and the feed-forward's
    width.
    """
    blocks = config.pattern("block_configs", layer_count(config), ())
    config.ignore("num_key_value_heads", "intermediate_size")
    return decoder(config, [Layer(tuple(_blocks(config, block))) for block in blocks])


def _blocks(config: Config, block: dict[str, Any]) -> Iterator[Block]:
    if not isinstance(block, dict):
        raise InvalidValue(f"{config.name}: an entry of block_configs is {block!r}, not an object")
    inner, dense = (Config(block, config.name).section(part) for part in ("attention", "ffn"))
    if any(part.flag("replace_with_linear") for part in (inner, dense)):
        raise UnsupportedModel(f"{config.name}: blocks replaced by linear layers are not supported")
    if not inner.flag("no_op"):
        heads = config.integer("num_attention_heads")
        shared = inner.at_least_one("n_heads_in_group", 1)
        window = inner.integer("window_length", 0)
        yield attention(config, kv_heads=heads // shared, window=window)
    if not dense.flag("no_op"):
        yield FeedForward(_width(dense.factor("ffn_mult", 0.0), config.integer("hidden_size")))


def _width(multiple: float, hidden: int) -> int:
    """Columns of a feed-forward: two thirds of 2 x multiple x hidden, rounded up to whole 256s."""
    columns = int(2 * multiple * hidden / 3)
    return -(-columns // 256) * 256
