"""How many requests run side by side if prompts are whole and share steps with decodes.

A step has B tokens.  A prompt of L tokens waits until the decodes leave enough of them for all of
it, so at most K = B - L sequences decode when it is admitted; the prompts behind it wait with it.
Meanwhile decodes end, evenly over the g steps of an answer.  With X the number that decodes when a
prompt is admitted, and Y = X + 1 after that,

    X = min(Y of the prompt before, K)          P(X >= m) = product of P(K >= j), j = 1 ... m
    steps from a prompt to the next = g max(1 - K / Y, 0)

By Little's law, g over the mean of these steps decode on average, but no more than the steps can
take prompts for.  The limit on running requests limits K, too; a prompt longer than B gets a step
beside any number of decodes.  The formula is Ridgeline's; it approximates
`genz_core.serving.simulation.policies.tensorrt_llm`.
"""

from __future__ import annotations

import numpy as np

from genz_core.engine import EngineProfile
from genz_core.serving.kv_capacity import usual_tokens
from genz_core.types import Array

#: Prompts a step, over those it takes, from which requests wait for prompts rather than for decodes
#: to end: judgement.
_FULL = 0.8


def over_budget(engine: EngineProfile, told: float, isl: float, osl: float) -> str:
    """A sentence where an engine that reads prompts whole refuses the longest one at its budget, or
    at the one that it was given; "" where it refuses none.

    told: tokens of a step given to the engine, 0 for none.  isl, osl: tokens of the longest prompt
    and output.
    Source: TensorRT-LLM, tensorrt_llm/llmapi/llm.py, _check_arguments: "The sum of prompt length,
    query length should not exceed max_num_tokens"; vLLM does not start below its longest sequence.
    """
    if not (engine.whole_prompts and engine.mixed_steps):
        return ""
    own = float(told or engine.whole_tokens or engine.chunk_tokens)
    if not 0.0 < own < isl:
        return ""
    refused = (
        f"without chunked prefill {engine.name} refuses prompts above max_num_batched_tokens "
        f"({own:,.0f}), and the longest has {isl:,.0f} tokens"
    )
    if told:
        return f"{refused}: raise it, or enable chunked_prefill"
    raised = float(usual_tokens(engine, isl, osl))
    return f"{refused}: priced with {raised:,.0f}, or enable chunked_prefill"


def running_beside(
    budget: Array, longest: Array, length_ratio: Array, gaps: Array, most: Array, ahead_steps: float
) -> Array:
    """Mean number of requests inside a lane, with those that wait for a step, [configs]; infinite
    where whole prompts wait for no decode.

    ahead_steps: steps that are planned while one runs.  Others as in `side_by_side`.
    """
    found = side_by_side(budget, longest, length_ratio, gaps, most)
    limited = np.isfinite(found)
    found = np.where(limited, found, most)
    # where steps are full of prompts anyway, the others wait for these and not for decodes
    full = found / ((gaps + 1.0) * np.maximum(np.floor(budget / longest), 1.0))
    share = np.clip((full - _FULL) / (1.0 - _FULL), 0.0, 1.0)
    found = found + share * (most - found)
    # those beside the first wait for the running step and the planned ones
    found = found + np.maximum(found - 1.0, 0.0) * (1.0 + ahead_steps) / np.maximum(gaps, 1.0)
    return np.where(limited, found, np.inf)


def side_by_side(
    budget: Array, longest: Array, length_ratio: Array, gaps: Array, most: Array
) -> Array:
    """Mean number of running requests of a lane, [configs]; infinite where whole prompts wait for
    no decode.

    budget: tokens of a step.  longest: tokens of the longest prompt; lengths are uniform from
    `length_ratio` times that.  gaps: decode steps of a request.  most: requests that may run.
    """
    found = np.full(budget.shape, np.inf)
    least = budget - longest
    fewer = least < np.minimum(most - 1.0, gaps)
    waits = fewer & (length_ratio * longest <= budget) & (gaps > 0)
    if not np.any(waits):
        return found
    cases = np.stack([budget, longest, length_ratio, gaps, most])[:, waits]
    kinds, of = np.unique(cases, axis=1, return_inverse=True)
    found[waits] = np.array([_of_kind(*kind) for kind in kinds.T.tolist()])[of.ravel()]
    return found


def _of_kind(budget: float, longest: float, ratio: float, gaps: float, most: float) -> float:
    """`side_by_side` of one load."""
    step = 1.0 / max(np.floor(budget / longest), 1.0)
    most = min(most, (gaps + 1.0) / step)  # more would need more prompts than steps take
    numbers = np.arange(1.0, np.maximum(np.ceil(most), 1.0) + 1.0)
    demanding = _fewer(numbers, budget, longest, ratio)
    kept = np.concatenate([[1.0], np.cumprod(1.0 - demanding)[:-1]])  # P(Y >= n)
    below = np.cumsum(demanding) - demanding  # sum of P(K < j) over j < n
    drained = kept * demanding * (below + demanding) / numbers
    # for each largest number: nothing is admitted beside as many
    drained = np.cumsum(drained) - drained + kept * (below + 1.0) / numbers
    return min(float(np.interp(most, numbers, 1.0 / drained)), most)


def _fewer(numbers: Array, budget: float, longest: float, ratio: float) -> Array:
    """P(a prompt demands that fewer than this many decode), for each number."""
    shortest, least = ratio * longest, max(budget - longest, 0.0)
    if longest - shortest < 1.0:
        return np.where(numbers > np.floor(budget - longest), 1.0, 0.0)
    demands = np.clip(numbers - least, 0.0, budget - shortest - least)
    return demands / (longest - shortest)
