"""Utilisation of a device: its work per second over what its peak rates allow.

A step of a replica decodes one token of each running answer and reads the prompts that arrived
since the last step.  Its least time of arithmetic, memory or links, times the steps per second, is
the share of a second that this part of the device works.  A deployment with little to do makes few
steps, and its devices are idle between them.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

import genz_core
from app.scenario.scenario import Resolved
from genz_core.models.speculative import steps_per_token
from genz_core.types import Array, Group


class Use(NamedTuple):
    """Utilisation of arithmetic, memory and links, 0 to 1."""

    compute: float
    memory: float
    links: float

    @classmethod
    def mean(cls, first: "Use", second: "Use", share: float) -> "Use":
        """Mean over devices, of which `share` have the first."""
        return cls(*(share * a + (1.0 - share) * b for a, b in zip(first, second, strict=True)))


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests of a deployment, of one replica, or of one prefill worker.

    per_s: their number per second.  prompt: tokens of a prompt; cached: those found in the cache.
    output: tokens of an answer.  branches: answers per request.  tpot_s: of an answer; not read for
    an answer of one token.
    """

    per_s: float
    prompt: float
    cached: float
    output: float = 1.0
    branches: int = 1
    tpot_s: float = 0.0

    @property
    def gaps_per_s(self) -> float:
        """Tokens per second after the first one of each answer."""
        return self.per_s * self.branches * (self.output - 1.0)

    @property
    def answering(self) -> float:
        """Mean number of answers that are decoded at once, by Little's law."""
        return self.gaps_per_s * self.tpot_s

    def split(self, parts: int) -> "Requests":
        """The requests of one of several equal parts."""
        return replace(self, per_s=self.per_s / parts)

    def prompts(self, number: float, ranks: int) -> Group:
        """A number of prompts as a group of a step, spread over attention ranks."""
        new = self.prompt - self.cached
        return Group(number, new, self.cached, prompt=self.prompt, fullest=number / ranks)

    def answers(self, number: float, ranks: int) -> Group:
        """A number of answers, half written, as a group of a step, spread over attention ranks."""
        context = self.prompt + (self.output - 2.0) / 2.0
        return Group(number, 1.0, context, prompt=self.prompt, fullest=number / ranks)


def reading(resolved: Resolved, requests: Requests) -> Use:
    """Utilisation where prompts are read only, a prompt at a time on each attention rank."""
    ranks = resolved.scenario.dp
    step = _least_s(resolved, requests.prompts(ranks, ranks))
    return _use(step * requests.per_s / ranks)


def answering(resolved: Resolved, requests: Requests, *, reads: bool) -> Use:
    """Utilisation where answers are decoded, the sequences of a pipeline in one part per stage.

    reads: whether the same devices read the prompts: each in one step, so that few steps read any
    if answers are long.
    """
    if requests.gaps_per_s <= 0.0:
        return reading(resolved, requests) if reads else Use(0.0, 0.0, 0.0)
    ranks = resolved.scenario.dp
    together = max(requests.answering / resolved.scenario.pp, 1.0)
    steps = float(steps_per_token(resolved.model, requests.output))
    steps_per_s = requests.gaps_per_s * steps / together
    answers = requests.answers(together, ranks)
    without = _least_s(resolved, answers)
    if not reads:
        return _use(without * steps_per_s)
    prompts = requests.per_s / steps_per_s
    some = min(prompts, 1.0)
    beside = _least_s(resolved, answers, requests.prompts(prompts / some, ranks))
    return _use(((1.0 - some) * without + some * beside) * steps_per_s)


def _least_s(resolved: Resolved, *groups: Group) -> Array:
    """Least times of arithmetic, memory and links of a step, shared equally by the stages of a
    pipeline [s], [3].
    """
    s = resolved.scenario
    step = genz_core.mixed(resolved.model, resolved.system, groups, s.parallelism, resolved.engine)
    least = [
        float((getattr(step, name) * step.runs[:, None]).sum())
        for name in ("compute_s", "memory_s", "communication_s")
    ]
    return np.array(least) / s.pp


def _use(work: Array) -> Use:
    """Utilisation of what works this long per second."""
    return Use(*np.clip(work, 0.0, 1.0).tolist())
