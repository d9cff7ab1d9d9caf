"""The facts that shape a decoder's graph: one form of layer plan for every architecture.

A layer is a tuple of blocks, each a residual branch with a norm: an attention, a recurrence, a
feed-forward.  Alternating window and full attention, dense layers before the experts, hybrids,
layers without a function and head counts that differ by layer all have the same form here: a plan
with unequal layers.  Sizes are of the whole model, before any split.
"""

from model_registry.spec.alternating import AlternatingUpdate, SequenceTables
from model_registry.spec.drafts import DraftInput
from model_registry.spec.ends import HeadProjection, SoundInput
from model_registry.spec.factorised import FactorisedAttention
from model_registry.spec.feed_forwards import FeedForward, LayerInput, Mixture, ShortcutMixture
from model_registry.spec.image_grids import ImageCut, ImageGrid
from model_registry.spec.inputs import ModelInputs
from model_registry.spec.limits import SplitLimit
from model_registry.spec.mixers import (
    Attention,
    CompressedAttention,
    CrossAttention,
    DeltaNet,
    Indexer,
    LatentAttention,
    Mamba,
    Mamba2,
    SharedTransformer,
)
from model_registry.spec.model import Block, Layer, Mixer, ModelSpec, SideBySide
from model_registry.spec.norms import Norm
from model_registry.spec.recurrences import (
    GatedRecurrence,
    LightningAttention,
    RwkvMixer,
    ShortConvolution,
)
from model_registry.spec.towers import Projection, SamStage, VisionTower

__all__ = [
    "AlternatingUpdate",
    "Attention",
    "Block",
    "CompressedAttention",
    "CrossAttention",
    "DeltaNet",
    "DraftInput",
    "FactorisedAttention",
    "FeedForward",
    "GatedRecurrence",
    "HeadProjection",
    "ImageCut",
    "ImageGrid",
    "Indexer",
    "LatentAttention",
    "Layer",
    "LayerInput",
    "LightningAttention",
    "Mamba",
    "Mamba2",
    "Mixer",
    "Mixture",
    "ModelInputs",
    "ModelSpec",
    "Norm",
    "Projection",
    "RwkvMixer",
    "SamStage",
    "SequenceTables",
    "SharedTransformer",
    "ShortConvolution",
    "ShortcutMixture",
    "SideBySide",
    "SoundInput",
    "SplitLimit",
    "VisionTower",
]
