"""An image encoder and the projections after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from model_registry.spec.image_grids import ImageGrid
from model_registry.spec.norms import Norm


@dataclass(frozen=True, slots=True)
class Projection:
    """One or two linear layers that project patches to the language model's width.

    patches: number joined into one row (of `inputs` columns).  hidden: width between the layers, 0
    for one layer.  norm: elements of a preceding norm, 0 for none.  gated: a gate parallel to the
    first layer.
    """

    patches: int
    inputs: int
    hidden: int
    outputs: int
    bias: bool = True
    norm: int = 0
    gated: bool = False


@dataclass(frozen=True, slots=True)
class SamStage:
    """Layers that precede an encoder, most of them with windows, and the convolutions after them.

    patch: pixels of a patch over all channels.  side, window: patches.  global_layers: layers that
    attend to the whole view.  neck, downsample: channels of the convolutions; the last two halve a
    side each.
    """

    layers: int
    hidden: int
    heads: int
    intermediate: int
    patch: int
    side: int
    window: int
    global_layers: int
    neck: int
    downsample: tuple[int, int]


@dataclass(frozen=True, slots=True)
class VisionTower:
    """An image encoder: patches through a stack of bidirectional layers, then projections.

    patch: pixels of a patch over all channels and frames.  head_dim: 0 for heads that share
    `hidden`.  positions: elements of learned
    position tables.  norms: around a layer's blocks, as in `Layer`.  bias: of all its linear
    layers; qkv_bias, output_bias: False where those of attention have none.
     extra_norms: norms before and after the stack.  patches_per_token: patches that become one
         token of the language model.
    grid: how images are divided, None where that is not described.  window: patches that attend to
    each other in all but `full_layers` of the layers, 0 for all.  class_tokens: learned vectors
    before the patches.  scales: learned scales on a layer's branches.  wide_norms: norms of queries
    and keys over all heads.  before: a stage whose output replaces the patches, joining sixteen
    into one; separators: learned elements between rows and views.
    blank, padding: patches of a view that show no pixels, and that are not projected; 0 for
    `class_tokens`.
    """

    layers: int
    hidden: int
    heads: int
    intermediate: int
    patch: int
    projections: tuple[Projection, ...]
    patches_per_token: int
    head_dim: int = 0
    gated: bool = False
    bias: bool = True
    patch_bias: bool = True
    positions: int = 0
    norm: Norm = "layer"
    norms: Literal["before", "both"] = "before"
    head_norms: bool = False
    extra_norms: int = 0
    grid: ImageGrid | None = None
    window: int = 0
    full_layers: int = 0
    rope: bool = True
    class_tokens: int = 0
    scales: int = 0
    qkv_bias: bool = True
    output_bias: bool = True
    before: SamStage | None = None
    separators: int = 0
    wide_norms: bool = False
    blank: int = 0
    padding: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "head_dim", self.head_dim or self.hidden // self.heads)
