"""Speculative decoding: a model whose steps verify drafted tokens and draft new ones.

A step of a `SpeculativeModel` verifies a draft of k tokens for every generating sequence, in one
pass of the target over 1 + k tokens.  It then drafts the next k in consecutive passes of the draft
model: the first over all tokens of the target's step, so that the draft's cache keeps up, the
others over one token per sequence.  N-grams draft without a pass.
Source: Leviathan et al. 2023, arXiv:2211.17192; vLLM 0.11, vllm/v1/spec_decode/eagle.py, `propose`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from genz_core.common.memo import ByIdentity
from genz_core.errors import InvalidValue
from genz_core.graphs import Graph, Model, Op
from genz_core.models.acceptance import Acceptance, expected_steps
from genz_core.models.diffusion import denoising
from genz_core.models.model_wrapper import ModelAround
from genz_core.types import Array, Group, Num, Parallelism, Precision, Step

Method = Literal["draft_model", "eagle", "mtp", "ngram"]
#: Module of a draft head's operators that read the target's hidden states, once per step.
TARGET_STATES = "target_states"


@dataclass(frozen=True, slots=True)
class Speculation:
    """How tokens are drafted, and how many of them are accepted.

    acceptance: of a draft's tokens; it has one position per drafted token.
    draft: the draft model or head, None for n-grams.
    modules: equal heads, each with weights and a cache of its own, that draft one token each
    (multi-token prediction); the last one drafts all further tokens.

    Raises:
        InvalidValue: a method without its draft, or n-grams with one.
    """

    method: Method
    acceptance: Acceptance
    draft: Model | None = None
    modules: int = 1

    def __post_init__(self) -> None:
        if (self.method == "ngram") != (self.draft is None):
            fault = "need no draft" if self.draft else f"{self.method} needs a draft model"
            raise InvalidValue(f"n-grams {fault}" if self.draft else fault)

    @property
    def draft_tokens(self) -> int:
        """Tokens of a draft, k."""
        return self.acceptance.draft_tokens

    @property
    def extending(self) -> int:
        """Passes of the draft over all tokens of a step: one for each module in use."""
        return min(self.modules, self.draft_tokens)

    @property
    def single(self) -> int:
        """Passes of the draft over one token per sequence."""
        return self.draft_tokens - self.extending

    def __str__(self) -> str:
        name = f" ({self.draft.name})" if self.draft else ""
        return (
            f"{self.method}{name} drafts {self.draft_tokens} tokens per step, "
            f"which yield {self.acceptance.tokens_per_step:.2f} tokens ({self.acceptance.source})"
        )


@dataclass(frozen=True, slots=True)
class QueryTokens:
    """New tokens of a generating request: all, drafted ones, and sampled ones.

    branches: sequences of the request, each with that many.
    """

    tokens: int = 1
    drafted: int = 0
    sampled: int = 1
    branches: int = 1

    def group(self, sequences: Array, cached: Array, prompt: Num = 0.0) -> Group:
        """Requests that generate; prompt: tokens of their prompts, 0 where unknown."""
        each, sampled = self.tokens / self.branches, self.sampled / self.branches
        sizes = (each, cached, float(self.drafted), sampled)
        return Group(sequences * self.branches, *sizes, prompt)


@dataclass(frozen=True, slots=True)
class SpeculativeModel(ModelAround):
    """A `Model` whose steps verify a draft and produce the next one.

    A graph holds the target's operators and the draft's, which sit on the last pipeline stage;
    weights and cache of both take memory.  A step yields `tokens_per_step` tokens per sequence, so
    TPOT is the decode step's time divided by that.
    """

    speculation: Speculation

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes of both models, and what drafts."""
        draft = self.speculation.draft
        return (*self.model.notes, str(self.speculation), *(draft.notes if draft else ()))

    def with_precision(self, precision: Precision) -> SpeculativeModel:
        """The target in other formats; the draft's cache is kept in the target's format."""
        draft = self.speculation.draft
        if draft is not None:
            kept = replace(draft.precision, kv=precision.kv, kv_source=precision.kv_source)
            draft = draft.with_precision(kept)
        return SpeculativeModel(
            self.model.with_precision(precision), replace(self.speculation, draft=draft)
        )

    def graph(self, step: Step, parallelism: Parallelism) -> Graph:
        """The operators of a step: its generating sequences verify their drafts, then new tokens
        are drafted.
        """
        step = self.verification(step)
        target = self.model.graph(step, parallelism)
        return replace(target, ops=(*target.ops, *self._drafting(step, parallelism)))

    def verification(self, step: Step) -> Step:
        """The target's step: 1 + k tokens for each sequence that generates, all sampled."""
        return Step(tuple(self._verified(group) for group in step.groups))

    def _verified(self, group: Group) -> Group:
        tokens, decodes = self.speculation.draft_tokens, group.generates
        return replace(
            group,
            new_tokens=np.where(decodes, 1.0 + tokens, group.new_tokens),
            drafted=np.where(decodes, float(tokens), 0.0),
            sampled=np.where(decodes, 1.0 + tokens, 1.0),
        )

    def _drafting(self, step: Step, parallelism: Parallelism) -> tuple[Op, ...]:
        """The draft's passes; `repeat` counts equal passes."""
        draft, speculation = self.speculation.draft, self.speculation
        if draft is None:
            return ()
        split = draft_parallelism(draft, parallelism)
        extends = Step(tuple(replace(group, sampled=1.0) for group in step.groups))
        first = draft.graph(extends, split).ops
        ops = [_on_the_last_stage(op, speculation.extending) for op in first]
        if speculation.single:
            later = draft.graph(after(step), split).ops
            ops += [
                replace(
                    _on_the_last_stage(op, speculation.single, "draft_next"),
                    held_weight_bytes=0.0,
                    held_kv_bytes=0.0,
                )
                for op in later
                if op.module != TARGET_STATES
            ]
        return tuple(op for op in ops if op.kind != "send_recv")


_MODELS: ByIdentity[SpeculativeModel] = ByIdentity()


def speculative_model(model: Model, speculation: Speculation) -> SpeculativeModel:
    """The `SpeculativeModel` of both; one object for equal arguments, so cached prices are
    reused.
    """
    return _MODELS.get(lambda: SpeculativeModel(model, speculation), model, speculation)


def query_tokens(model: Model) -> int:
    """New tokens of a decoding sequence in a step: one, plus those of a draft that it verifies."""
    return 1 + (model.speculation.draft_tokens if isinstance(model, SpeculativeModel) else 0)


def steps_per_token(model: Model, osl: Num) -> Array:
    """Mean decode steps per token of an output of `osl` tokens; less than one with drafts.

    The first token comes with the prompt, the others take the steps of `expected_steps`.  For a
    diffusion
    model: its passes after the first block.
    """
    gaps = np.maximum(np.asarray(osl, dtype=float) - 1.0, 1.0)
    if refined := denoising(model):
        first, whole = refined.passes(osl)
        return np.asarray((whole - first) / gaps)
    if not isinstance(model, SpeculativeModel):
        return np.ones_like(gaps)
    return np.asarray(expected_steps(gaps, model.speculation.acceptance) / gaps)


def after(step: Step) -> Step:
    """The step with one more token per sequence."""
    return Step(tuple(Group(g.sequences, 1.0, g.cached_tokens + g.new_tokens) for g in step.groups))


def draft_parallelism(draft: Model, parallelism: Parallelism) -> Parallelism:
    """The degrees of a draft: its target's without the pipeline; replicated where tp cannot divide
    it.
    """
    tp = np.asarray(parallelism.tp)
    divides = [degree for degree in np.unique(tp) if _divides(draft, int(degree))]
    return replace(parallelism, pp=1, micro_batches=0, tp=np.where(np.isin(tp, divides), tp, 1))


def _divides(draft: Model, tp: int) -> bool:
    """Whether tp splits a draft, its experts by columns or by number."""
    return not all(map(draft.invalid, (Parallelism(tp=tp), Parallelism(tp=tp, ep=tp))))


def _on_the_last_stage(op: Op, runs: int, module: str = "draft") -> Op:
    return replace(
        op,
        name=f"{module}_{op.name}",
        module=f"{module}.{op.module}",
        layers=(),
        repeat=op.count * runs,
        stage="last",
    )
