"""Blocks, layers of blocks, and the whole decoder.

A block type states its sizes; its `module`, the path in a layer's module tree ("" for a block that
brings its norms and its sums over tp); and its `limits`, the sizes that degrees must divide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from genz_core.models.model_kinds import ModelKind
from model_registry.spec.alternating import AlternatingUpdate, SequenceTables
from model_registry.spec.drafts import DraftInput
from model_registry.spec.ends import HeadProjection, SoundInput
from model_registry.spec.factorised import FactorisedAttention
from model_registry.spec.feed_forwards import FeedForward, LayerInput, Mixture, ShortcutMixture
from model_registry.spec.limits import SplitLimit
from model_registry.spec.mixers import (
    Attention,
    CompressedAttention,
    CrossAttention,
    DeltaNet,
    LatentAttention,
    Mamba,
    Mamba2,
    SharedTransformer,
)
from model_registry.spec.norms import Norm
from model_registry.spec.recurrences import (
    GatedRecurrence,
    LightningAttention,
    RwkvMixer,
    ShortConvolution,
)
from model_registry.spec.towers import VisionTower

Mixer = (
    Attention
    | CrossAttention
    | RwkvMixer
    | LatentAttention
    | CompressedAttention
    | SharedTransformer
    | Mamba
    | Mamba2
    | DeltaNet
    | ShortConvolution
    | LightningAttention
    | GatedRecurrence
    | FactorisedAttention
)


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Mixers that read one norm's output and are added together (Falcon-H1)."""

    module: ClassVar[str] = "attention"
    mixers: tuple[Mixer, ...]

    def limits(self) -> tuple[SplitLimit, ...]:
        """The limits of all its mixers."""
        return tuple(limit for mixer in self.mixers for limit in mixer.limits())


Block = (
    Mixer | SideBySide | FeedForward | Mixture | ShortcutMixture | LayerInput | AlternatingUpdate
)


@dataclass(frozen=True, slots=True)
class Layer:
    """Blocks that follow each other in the residual stream.

    parallel: all blocks read one norm's output and are added together (one all-reduce).
    norms: before every block ("before"), after it ("after"), or "both";
    parallel_norms: number of norms before a parallel layer.
    extra_norms: additional norms of the model's width.  bare: no norm before the first block.
    """

    blocks: tuple[Block, ...]
    parallel: bool = False
    norms: Literal["before", "after", "both"] = "before"
    parallel_norms: int = 1
    extra_norms: int = 0
    bare: bool = False


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model in terms common to all families; a decoder unless `kind` differs.

    positions: rows of a learned position table, 0 for none.  embedding_dim: width of the token
    table where a projection follows it (OPT-350M), 0 for the model's.  table_rows: rows of the
    token table beyond those that the head scores.  embedding_norm: a norm directly after the table.
    head_bias: of the LM head.  final_norm: before the head.
    mtp_layers: multi-token-prediction modules that the config announces; prediction: the layers
    of one.  They are not part of the decoder's graph, see `model_registry.drafts`.
    layer_input_rows: rows of the table of layer inputs (see `LayerInput`), 0 for none.
    vision: the image encoder, None where there is none or it is not described.
    streams: parallel residual streams (hyper-connections, arXiv:2409.19606), 0 for one.
    copies: copies of the stream that layers predict (see `AlternatingUpdate`), 0 for none; a
    projection makes each from the embedding, and another one merges it again.  sequence_tables:
    tables looked up by several tokens, None without them.
    draft: input of a draft head, None for a model of its own.
    max_context: tokens that the positions allow, None for no limit.  notes: assumptions of the
    family's reader, in words.
    kind: what it does with its input.  token_types: rows of a table of segments.  heads: heads of
    an encoder.  sound: input of sound instead of the token table.
    encoder: of an encoder-decoder, where the layers above are the decoder's; shared_table: both use
    one token table.  start_tokens: number that its decoder starts from.
    """

    name: str
    model_type: str
    hidden: int
    vocabulary: int
    layers: tuple[Layer, ...]
    tied: bool = False
    norm: Norm = "rms"
    max_context: int | None = None
    positions: int = 0
    embedding_dim: int = 0
    table_rows: int = 0
    embedding_norm: bool = False
    head_bias: bool = False
    final_norm: bool = True
    mtp_layers: int = 0
    prediction: tuple[Layer, ...] = ()
    draft: DraftInput | None = None
    layer_input_rows: int = 0
    streams: int = 0
    copies: int = 0
    sequence_tables: SequenceTables | None = None
    vision: VisionTower | None = None
    notes: tuple[str, ...] = ()
    kind: ModelKind = "decoder"
    token_types: int = 0
    heads: tuple[HeadProjection, ...] = ()
    sound: SoundInput | None = None
    encoder: ModelSpec | None = None
    shared_table: bool = False
    start_tokens: int = 1
