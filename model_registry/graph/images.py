"""The images of a step's prompts: the encoder's operators before the decoder's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from genz_core.common.memo import ByIdentity
from genz_core.graphs import Op
from genz_core.operators import copy
from genz_core.symbolic.symbols import number
from genz_core.types import Group, Num, Parallelism, Precision, Step
from model_registry.blocks.frame import EncodedInput, Ops
from model_registry.graph.encoder import encoder_graph
from model_registry.graph.encoder_decoder import on_first_stage
from model_registry.spec import ModelInputs, VisionTower

#: Path of an image encoder's operators in the module tree.
VISION = "vision"
#: Name of the operator that holds an encoder's weights where it does not run.
IDLE_TOWER = "vision_weights"
_ANY_PATCHES = 4.0  # size of a placeholder image; the weights do not depend on it


def vision_ops(
    tower: VisionTower, precision: Precision, inputs: ModelInputs, step: Step, par: Parallelism
) -> Ops:
    """The operators of a step's images on the first stage.

    A step that reads a part of a prompt encodes that part of its images; generating sequences have
    none.
    """
    assert tower.grid is not None
    cut = tower.grid.cut(inputs.width, inputs.height)
    views = images_of(step) * inputs.images * cut.views
    graph = encoder_graph(tower, precision, views, float(cut.patches), par)
    return tuple(on_first_stage(op, VISION) for op in graph.ops)


def resident_tower(tower: VisionTower, precision: Precision, par: Parallelism) -> Op:
    """An operator that holds the weights of an image encoder and does nothing.

    Servers load it with the language model, whether or not a request brings an image.
    """
    tp = number(par.tp)
    return _TOWERS.get(
        lambda: _resident(tower, precision, par), tower, precision, values=(tp.tobytes(),)
    )


_TOWERS: ByIdentity[Op] = ByIdentity()


def _resident(tower: VisionTower, precision: Precision, par: Parallelism) -> Op:
    split = Parallelism(tp=par.tp)
    ops = encoder_graph(tower, precision, 1.0, _ANY_PATCHES, split).ops
    held = sum((op.held_weight_bytes * op.count for op in ops), start=np.zeros(()))
    idle = copy(IDLE_TOWER, 0.0, 0.0, stage="first", module=VISION)
    return replace(idle, held_weight_bytes=held, weights=precision.weight(VISION))


def images_of(step: Step) -> Num:
    """Prompts that a step reads, with partial prompts counted as fractions."""
    return sum((g.sequences * _read(g) for g in step.groups), start=np.float64(0.0))


def beside_prompts(tower: VisionTower, inputs: ModelInputs, step: Step) -> tuple[EncodedInput, ...]:
    """Encoder output for cross-attention in each group; none where images become tokens of the
    prompt.
    """
    assert tower.grid is not None
    tokens = float(inputs.images * tower.grid.cut(inputs.width, inputs.height).beside)
    if not tokens:
        return ()
    return tuple(EncodedInput(tokens, tokens * _read(group)) for group in step.groups)


def _read(group: Group) -> Num:
    """The fraction of its prompts that a group reads in this step; 0 for a generating group."""
    new = number(group.new_tokens)
    prompt = number(group.prompt)
    whole = np.where(prompt > 0, prompt, new + group.cached_tokens)
    return np.where(group.generates, 0.0, new / np.maximum(whole, 1.0))
