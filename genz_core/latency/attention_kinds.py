"""What prefill and decode of attention have in common: the kinds, and what an operator says of its
keys.
"""

from __future__ import annotations

import numpy as np

from genz_core.graphs import Op
from genz_core.symbolic.symbols import number
from genz_core.types import Array, Num

KINDS = ("attention", "mla_attention", "sparse_attention", "cross_attention")
ACTIVATION_BYTES = 2.0


def sparse_context(context: Num, top_k: Num) -> Array:
    """Keys that a query of sparse attention reads: the `top_k` chosen by its indexer, or all if
    fewer.
    """
    return np.minimum(number(context), top_k)


def absorbed(op: Op) -> bool:
    """Whether `op` is latent attention over the latent cache, whose keys hold the values."""
    return bool(np.all(np.asarray(op.dims.get("shared_kv", 0.0)) > 0))
