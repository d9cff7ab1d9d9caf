"""Number of requests that fit in a deployment's memory, with shared tokens and offload."""

from __future__ import annotations

import numpy as np

from genz_core.capacity.memory import Memory, memory
from genz_core.capacity.offload import What
from genz_core.engine import EngineProfile
from genz_core.graphs import Model
from genz_core.serving.offloaded_traffic import Banks, movable
from genz_core.serving.sharing import ALONE, Sharing
from genz_core.systems import System
from genz_core.types import Array, Num, Parallelism, Workload

#: Token budget of a step of an engine that states none, unless a prompt is longer; judgement.
_USUAL_TOKENS = 8192.0


def sequences_that_fit(
    model: Model,
    system: System,
    load: Workload,
    par: Parallelism,
    engine: EngineProfile,
    sharing: Sharing = ALONE,
    spill: What | None = None,
) -> tuple[Memory, Array]:
    """Memory with one request a rank, and number of requests whose cache fits, [configs].

    A sequence takes its prompt and the part of its output that the engine reserves.
    """
    output = np.maximum(np.asarray(load.osl) * engine.reserve_output, 1.0)
    ranks = np.asarray(par.dp, dtype=float)

    def weigh(prompt: Num, tokens: Num = 0.0) -> Memory:
        return memory(model, system, Workload(ranks, prompt, tokens), par, engine)

    single = sharing.held(weigh(load.isl, output), load.isl, weigh)
    free = single.free_bytes * engine.free_share
    if spill:
        size = single.weights_bytes.size
        experts = Banks.of(model, system, engine, par, size).held_bytes if spill != "kv" else 0.0
        beside = movable(single, system, spill, experts)
        free = free + np.where((free > 0) | (spill != "kv"), beside, 0.0)
    fit = np.floor(free / np.maximum(single.kv_bytes, 1.0)) * ranks
    return single, np.where(free > 0, fit, 0.0)


def usual_tokens(engine: EngineProfile, isl: Num, osl: Num) -> Num:
    """Token budget of a step of an engine that was given none.

    An engine that reads prompts whole is started with room for the longest sequence: vLLM does not
    start without, and TensorRT-LLM, whose default this is, refuses a prompt above its budget.

    isl, osl: of its longest sequence, numbers or [configs].
    """
    if not engine.whole_prompts:
        return float(engine.chunk_tokens) or np.maximum(isl, _USUAL_TOKENS)
    own = float(engine.whole_tokens or engine.chunk_tokens)
    sequence = isl + np.asarray(osl) if engine.mixed_steps else isl
    if engine.chunked_prefill is None:
        return np.where(np.greater(isl, own), np.maximum(sequence, own), own)
    return np.maximum(own, sequence)


def step_rooms(
    engine: EngineProfile, budget: Array, isl: Array, admitted: Array
) -> tuple[Array, Array]:
    """Prompt tokens that a step actually takes, and of one prompt in it, [configs].

    budget: that it may take.
    """
    whole = engine.whole_prompts
    room = np.maximum(np.floor(budget / isl), 1.0) * isl if whole else budget
    room = np.minimum(room, np.ceil(np.maximum(admitted, 1.0)) * isl)
    return room, isl if whole else np.minimum(isl, budget)
