"""Groups of options that several commands of predictions share."""

from __future__ import annotations

from dataclasses import dataclass

from app.commands import options as opt
from app.commands.predict import simulation_options as sim
from app.wording.tables import TableFormat


@dataclass(frozen=True)
class Formats:
    """Number formats, by the keywords of `Scenario`."""

    weights: opt.Weights = ""
    moe_weights: opt.MoeWeights = ""
    kv: opt.Kv = ""
    activations: opt.Activations = ""
    compute: opt.Compute = ""


@dataclass(frozen=True)
class Split:
    """Degrees of a deployment, likewise."""

    tp: opt.Tp = 1
    pp: opt.Pp = 1
    dp: opt.Dp = 1
    ep: opt.Ep = 1
    moe_tp: opt.MoeTp = None
    expert_imbalance: opt.Imbalance = 1.0
    redundant_experts: opt.Redundant = 0
    overlap: opt.Overlap = "none"


@dataclass(frozen=True)
class Inputs:
    """Images and sound of a request, likewise."""

    images: opt.Images = 0
    image_size: opt.ImageSize = ""
    audio_seconds: opt.Audio = 0.0


@dataclass(frozen=True)
class Drafts:
    """How tokens are drafted, by the keywords of `Drafting`."""

    speculation: sim.Speculation = ""
    draft_tokens: sim.DraftTokens = None
    draft_model: sim.DraftModel = ""
    acceptance: sim.Acceptance = ""


@dataclass(frozen=True)
class Shared:
    """What requests share and who adapts their model, by the keywords of `ridgeline.plan`."""

    prefix_hits: opt.PrefixHits = 0.0
    shared_tokens: opt.SharedPrompt = 0
    turns: opt.Turns = 1
    prefix_tier: opt.PrefixTier = "device"
    samples: opt.Samples = 1
    beams: opt.Beams = 1
    lora_rank: opt.LoraRank = 0
    lora_adapters: opt.LoraAdapters = 1


@dataclass(frozen=True)
class Printed:
    """In which format a table is printed."""

    json: opt.Json = False
    format_: opt.Form = TableFormat.text

    @property
    def format(self) -> TableFormat:
        """That of --format, or JSON where --json is given."""
        return opt.table_format(self.format_, self.json)
