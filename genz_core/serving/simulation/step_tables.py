"""The time of a deployment's steps from the tables of its models."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass

from genz_core.common.memo import ByIdentity
from genz_core.deployment import Deployment, deploy
from genz_core.engine import EngineProfile
from genz_core.graphs import Model
from genz_core.models.speculative import (
    TARGET_STATES,
    QueryTokens,
    SpeculativeModel,
    draft_parallelism,
)
from genz_core.serving.simulation.interpolation import between
from genz_core.serving.simulation.model_tables import Extent, ModelTables
from genz_core.serving.simulation.step_price import RankWork
from genz_core.systems import System
from genz_core.types import Parallelism


@dataclass(frozen=True, slots=True)
class _Drafting:
    """Passes of a draft model in a step.

    extending: number of passes over all tokens of the step, priced by `first`; single: number of
    later passes over one token per sequence, priced by `later`.
    """

    extending: int
    first: ModelTables
    single: int
    later: ModelTables
    query: int

    def seconds(self, ranks: Sequence[RankWork]) -> float:
        seconds = self.extending * self.first.times(ranks)[0]
        if self.single:
            after = [self._after(rank) for rank in ranks]
            seconds += self.single * self.later.times(after)[0]
        return seconds

    def _after(self, rank: RankWork) -> RankWork:
        """The same step with one token per sequence, after the tokens of `rank`."""
        tokens = rank.tokens + rank.decodes * self.query
        return RankWork(rank.decodes, tokens, [(1, new + cached) for new, cached in rank.prompts])


class StepTables:
    """The tabulated step model; a `StepPrice`.

    The time of a step is the sum of its matrix products and messages by tokens, its experts by the
    tokens of all ranks, its attention by group, its drafts, and its host time.
    """

    def __init__(
        self, target: ModelTables, engine: EngineProfile, drafting: _Drafting | None = None
    ) -> None:
        self._target = target
        self._drafting = drafting
        self._step_s = engine.host_step_s + engine.sampling_s
        self._sequence_s = engine.host_sequence_s
        self._engine, self._launch_s = engine, engine.prompt_launch_s
        self._plain = drafting is None and target.stages == 1
        self._contexts = target.alone.columns
        self._capture(float(engine.captured_tokens(target.query_tokens)))

    def _capture(self, captured: float) -> None:
        """Set the most tokens of a captured step."""
        self._captured = captured
        # of a step that only decodes and of one with prompts
        self._replayed = [float(self._engine.replayed_tokens(captured, n)) for n in (False, True)]
        # of one rank that decodes, by its sequences: seconds of products, by context, of host, and
        # of launches
        self._decoding: dict[int, tuple[float, list[float], float, float]] = {}

    def admitting(self, sequences: int) -> StepTables:
        """The tables for a server with at most `sequences` in a step of a rank, on which its
        captured graphs depend; 0 for the engine's default.
        """
        captured = float(self._engine.captured_tokens(self._target.query_tokens, sequences))
        if captured == self._captured:
            return self
        tables = copy(self)
        tables._capture(captured)
        return tables

    @classmethod
    def of(
        cls,
        model: Model,
        system: System,
        parallelism: Parallelism,
        engine: EngineProfile,
        extent: Extent | None = None,
    ) -> StepTables:
        """Price the step model of a deployment; drafts are included for a `SpeculativeModel`.

        Tables are cached for later simulations of similar loads.
        """
        extent = (extent or Extent()).rounded()
        values = (repr(parallelism), extent)
        return _TABLES.get(
            lambda: _priced(model, system, parallelism, engine, extent),
            model, system, engine, values=values,
        )  # fmt: skip

    def __call__(self, ranks: Sequence[RankWork]) -> tuple[float, float]:
        """See `StepPrice`."""
        if self._plain and len(ranks) == 1 and not ranks[0].prompts and ranks[0].decodes:
            whole = self._decoding_s(ranks[0])
            return whole, whole
        device = self._target.times(ranks)
        if self._drafting:
            device[-1] += self._drafting.seconds(ranks)
        replayed = self._replayed[any(rank.prompts for rank in ranks)]
        if self._launch_s and replayed < math.inf:
            device = self._target.launched(device, ranks, self._launch_s, replayed)
        sequences = 0
        for decodes, _, prompts in ranks:
            running = decodes + len(prompts)
            sequences = running if running > sequences else sequences
        host = self._step_s + self._sequence_s * sequences
        if len(device) == 1:
            whole = device[0] + host
            return whole, whole
        return sum(device) + host, max(*device, host)

    def _decoding_s(self, rank: RankWork) -> float:
        """Seconds of a step of one rank that only decodes, in one stage."""
        decodes, tokens, _ = rank
        parts = self._decoding.get(decodes)
        if parts is None:
            target, host = self._target, self._step_s + self._sequence_s * decodes
            alone = [RankWork(decodes, 0, [])]
            least = target.launched([0.0], alone, self._launch_s, self._captured)[0]
            parts = target.products_s(decodes), target.alone.line(decodes), host, least
            self._decoding[decodes] = parts
        products, by_context, host, least = parts
        device = products + between(self._contexts, by_context, tokens / decodes)
        return (device if device > least else least) + host


_TABLES: ByIdentity[StepTables] = ByIdentity(16)


def _priced(
    model: Model, system: System, parallelism: Parallelism, engine: EngineProfile, extent: Extent
) -> StepTables:
    deployed = deploy(model, system, engine)
    engine = deployed.engine
    if not isinstance(deployed.model, SpeculativeModel):
        return StepTables(ModelTables.of(deployed, parallelism, extent, QueryTokens()), engine)
    speculation, target = deployed.model.speculation, deployed.model.model
    drafted = speculation.draft_tokens
    verified = QueryTokens(1 + drafted, drafted, 1 + drafted)
    tables = ModelTables.of(Deployment(target, system, engine), parallelism, extent, verified)
    if speculation.draft is None:
        return StepTables(tables, engine)
    draft = Deployment(speculation.draft, system, engine)
    split = draft_parallelism(speculation.draft, parallelism)
    first = ModelTables.of(draft, split, extent, QueryTokens(1 + drafted, drafted))
    later = ModelTables.of(draft, split, extent, QueryTokens(), without=TARGET_STATES)
    drafting = _Drafting(speculation.extending, first, speculation.single, later, 1 + drafted)
    return StepTables(tables, engine, drafting)
