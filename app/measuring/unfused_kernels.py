"""Eager transformers on a GPU as it ran: the memory traffic of unfused kernels.

The engine's shipped figures price a fused graph.  A report that shows norms as separate kernels is
priced with those kernels: the traffic of each piece follows from what it reads and writes.
"""

from dataclasses import replace

from app.scenario.scenario import Resolved
from genz_core.engine import EagerFacts
from profilers.phases.what_ran import WhatRan

#: Bytes per element read and written by all kernels of a piece, over those of the fused kernel,
#: with 16-bit values and 32-bit intermediates. Counted in transformers' source
#: (models/llama/modeling_llama.py: LlamaRMSNorm, apply_rotary_pos_emb, LlamaMLP; cache_utils.py).
#: norm: add 6, to fp32 6, square 8, mean 4, scale 8, to bf16 6, weight 4; fused 8. rope: product 4,
#: negate and cat 6, product 4, sum 6; fused 4. activation: SiLU 4, product 6; fused 6. append: the
#: cache is read and written whole.
_NORM, _ROPE, _ACTIVATION, _APPEND = 42.0 / 8.0, 20.0 / 4.0, 10.0 / 6.0, 2.0


def as_it_ran(resolved: Resolved, ran: WhatRan) -> Resolved:
    """The deployment with unfused kernels, if the report shows them and they are not priced yet."""
    engine, shown = resolved.engine, ran.engine is not None and ran.engine.value == "hf"
    if not shown or engine.name != "hf" or engine.eager or resolved.system.kind != "gpu":
        return resolved
    said = "norms, rotations and activations are priced as the single kernels that the report shows"
    facts = EagerFacts(
        host_layer_s=0.0,
        host_step_s=0.0,
        norm_passes=_NORM,
        rope_passes=_ROPE,
        activation_passes=_ACTIVATION,
        append_passes=_APPEND if "decode" in ran.steps else 0.0,
    )
    return replace(resolved, engine=replace(engine, eager=facts), notes=(*resolved.notes, said))
