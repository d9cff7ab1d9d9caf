"""Largest content of the steps of a load, and the sizes at which its steps are priced."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genz_core.schedule import LEAST_REST
from genz_core.serving.deduplicate import picked_columns
from genz_core.types import Array, Num, Places

_DECODE_NODES, _PROMPT_NODES = 10, 8


@dataclass(frozen=True, slots=True)
class Sizes:
    """Largest content of the steps of a load, and its lengths, [configs].

    decodes: sequences that decode in a step of a rank.  tokens: prompt tokens of one.
    piece: tokens of a prompt that a step takes.  isl, osl: mean lengths of a request; cached:
    prompt tokens found in the cache.  branches: sequences that a request decodes.
    share: share of the ranks that have any request, 1 where there are at least as many requests as
    ranks.
    """

    decodes: Array
    tokens: Array
    piece: Array
    isl: Array
    osl: Array
    cached: Num = 0.0
    branches: int = 1
    share: Num = 1.0

    @property
    def several(self) -> bool:
        """Whether any prompt needs several steps."""
        return bool(np.any(self.isl > self.piece))

    @property
    def rest(self) -> Array:
        """Tokens of the last piece of a prompt."""
        left = self.isl - np.floor(self.isl / self.piece) * self.piece
        least = np.minimum(self.piece, LEAST_REST)
        return np.where(left > 0.0, np.maximum(left, least), self.piece)

    def picked(self, chosen: Places) -> Sizes:
        """A selection of the configurations."""
        columns: dict[str, Any] = picked_columns(self, chosen)
        return replace(self, **columns)


def sizes_priced(sizes: Sizes, query: int, ranks: Array) -> tuple[Array, Array]:
    """Numbers of decoding sequences, and of tokens of a rank, at which a step is priced, [nodes,
    configs].

    query: new tokens of a sequence that decodes.  ranks: that wait for one another.
    """
    some = np.geomspace(np.ones_like(sizes.decodes), np.maximum(sizes.decodes, 2.0), _DECODE_NODES)
    prompts = np.geomspace(np.minimum(sizes.piece, 16.0), sizes.tokens, _PROMPT_NODES)
    decodes = some if query == 1 else np.concatenate([some, some * query])
    # the tiles that a piece fills may have no rows left for the decodes beside it
    few, none = np.full_like(sizes.piece, query), np.zeros_like(sizes.piece)
    piece = sizes.piece + np.stack([none, few, sizes.decodes * query])
    tokens = [decodes, prompts, piece, sizes.decodes * query + prompts]
    if sizes.several:
        tokens.append(sizes.rest[None])
    if np.any(ranks > 1.0):  # experts see the mean of the ranks, one of which reads
        tokens.append(sizes.piece / ranks + np.stack([none, sizes.decodes * query]))
        tokens.append(query / ranks[None])  # a single sequence on one of them
    if np.any(np.asarray(sizes.share) < 1.0):
        tokens.append(np.broadcast_to(sizes.share * query, sizes.isl.shape)[None])
    return some, np.sort(np.concatenate(tokens), axis=0)
