"""Prompts that wait for one another: on ranks in lock-step, or until they fill a step.

Ranks that share experts read prompts in the same step, so that the other ranks do not wait for one.
They read when every rank has a prompt, and otherwise each time that a number of decode steps has
passed.  Prompts that do not fit into that step wait for the next time.

Source of the rule: TensorRT-LLM, tensorrt_llm/_torch/pyexecutor/py_executor.py,
_balance_adp_requests.  The formulas are Ridgeline's; `genz_core.serving.simulation.worker` runs the
rule itself.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from genz_core.serving.queues import FULLEST, largest
from genz_core.types import Array, Mask

_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(16)
_HALVINGS = 12  # of the interval that holds the mean time between two readings
_TAIL = 8.0  # mean times after which a rank without a prompt is as good as impossible


@dataclass(frozen=True)
class Readings:
    """When prompts are read, [..., configs].

    groups: mean number of a rank's groups of prompts in a reading, a Poisson number; group: prompts
    of a group; most: of a rank in a reading.  ranks: that read together.  apart: decode steps from
    one reading to the next.  beside: prompts of a rank beside one's own.  wait: decode steps that a
    prompt waits for a reading.
    """

    groups: Array
    group: Array
    most: Array
    ranks: Array
    apart: Array
    beside: Array
    wait: Array

    @property
    def of_rank(self) -> Array:
        """Mean prompts of a rank in a reading."""
        return np.minimum(self.groups * self.group, self.most)

    @cached_property
    def busiest(self) -> tuple[Array, Array]:
        """P(a decode step has a reading with prompts), and the number of its busiest rank."""
        some, groups = largest(self.groups, self.ranks)
        return some / self.apart, np.minimum(groups * self.group, self.most)


def chosen(where: Mask, one: Readings, other: Readings) -> Readings:
    """Each configuration of `one` or of `other`."""
    names = [entry.name for entry in fields(Readings)]
    return Readings(*(np.where(where, getattr(one, n), getattr(other, n)) for n in names))


def at_once(prompts: Array, ranks: Array) -> Readings:
    """Every prompt is read in the next step.  prompts: arriving at a rank per decode step."""
    one, none = np.ones_like(prompts), np.zeros_like(prompts)
    beside = np.where(ranks > 1, prompts, none)
    return Readings(prompts, one, one * np.inf, ranks, one, beside, none)


def of_single_rank(prompts: Array, most: Array, longest: Array, running: Array) -> Readings:
    """A single rank reads as soon as new prompts fill a step, or when the first has waited.

    The first of a group waits for all that follow, the last for none.

    prompts: arriving per decode step.  most: that fit into a step.  longest: decode steps that the
    first one waits.  running: probability that other requests run; if none does, it waits for none.
    """
    group = np.minimum(1.0 + prompts * longest, most)
    window = np.minimum((group - 1.0) / np.maximum(prompts, 1e-12), longest)
    wait = running * window * (1.0 + group) / (2.0 * group)
    one = np.ones_like(group)
    return Readings(prompts / group, group, one * np.inf, one, one, group - 1.0, wait)


def of_several_ranks(
    prompts: Array,
    ranks: Array,
    most: Array,
    longest: Array,
    running: Array,
    users: Array | float = np.inf,
) -> Readings:
    """Several ranks read when each has a prompt, and each time that `longest` steps have passed.

    A rank has no prompt t steps after a reading with probability (1 - left) exp(-prompts t), where
    `left` is the probability that the reading left one behind.  The mean time between two readings
    and `left` follow from each other.

    prompts: arriving at a rank per decode step, at random.  most: of a rank that fit into a step.
    running: probability that other requests of a rank run; if none does, the rank reads at once.
    users: of a rank in a closed loop, which send nothing while they wait: the mean number left
    behind stays below the spread of so many, sqrt(users) / 3 (a third by simulation).
    """
    span = np.minimum(longest, (np.log(ranks) + _TAIL) / np.maximum(prompts, 1e-12))
    shape = (-1, *(1,) * prompts.ndim)
    steps = span * (_POINTS.reshape(shape) + 1.0) / 2.0
    weights = span * _WEIGHTS.reshape(shape) / 2.0
    none_came = np.exp(-prompts * steps)

    def has_prompt(apart: Array) -> Array:
        left = _left_behind(prompts * apart / most, most)
        return 1.0 - none_came / (1.0 + left)  # geometric: P(none) is 1 / (1 + mean)

    low, high = np.ones_like(span), np.maximum(longest, 1.0) + np.zeros_like(span)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        later = (weights * (1.0 - has_prompt(middle) ** ranks)).sum(0) > middle
        low, high = np.where(later, middle, low), np.where(later, high, middle)
    # a prompt of a rank waits at a time t if one of the others has none
    waiting = (weights * steps * (1.0 - has_prompt(high) ** (ranks - 1.0))).sum(0) / high
    left = _left_behind(prompts * high / most, most)
    behind = left / (1.0 + 3.0 * left / np.sqrt(users)) / np.maximum(prompts, 1e-12)
    apart = 1.0 + running * (high - 1.0)
    together = prompts * apart
    return Readings(
        groups=together,
        group=np.ones_like(apart),
        most=most,
        ranks=ranks,
        apart=apart,
        beside=np.minimum(together, most - 1.0),
        wait=running * (waiting + behind),
    )


def _left_behind(used: Array, most: Array) -> Array:
    """Mean prompts of a rank that a reading leaves behind, M/D/c in slots (Sakasegawa; exact for
    one prompt a reading).

    used: prompts per reading over the most that it holds.
    """
    used = np.minimum(used, FULLEST)
    left: Array = used ** np.sqrt(2.0 * (most + 1.0)) / (2.0 * (1.0 - used))
    return left
