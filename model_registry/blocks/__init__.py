"""The operators of each block type on one device.

Importing the package registers the operators of every kind of block.
"""

from model_registry.blocks import (
    attention,
    compressed,
    cross,
    factorised,
    feed_forward,
    gated,
    latent,
    recurrence,
    rwkv,
    shared,
)

__all__ = [
    "attention",
    "compressed",
    "cross",
    "factorised",
    "feed_forward",
    "gated",
    "latent",
    "recurrence",
    "rwkv",
    "shared",
]
