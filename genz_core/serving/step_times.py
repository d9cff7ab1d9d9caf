"""Time of an engine's step: model, drafts and host.

The loops of `genz_core.serving.closed_form` evaluate thousands of steps, see `model_times`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from genz_core.deployment import Deployment, deploy
from genz_core.engine import EngineProfile
from genz_core.errors import InvalidValue
from genz_core.graphs import Model
from genz_core.models.speculative import (
    TARGET_STATES,
    QueryTokens,
    Speculation,
    SpeculativeModel,
    draft_parallelism,
)
from genz_core.serving.model_times import ModelTimes, beside_stages
from genz_core.serving.offloaded_traffic import Spilled
from genz_core.serving.step_sizes import Sizes
from genz_core.systems import System
from genz_core.types import Array, Mask, Num, Parallelism, Places


@dataclass(frozen=True, slots=True)
class Drafting:
    """Passes of a draft model in a step.

    extending: number of passes over all tokens of the step, timed by `first`; single: number of
    later passes over one token per sequence, timed by `later`.
    """

    extending: int
    first: ModelTimes
    single: int
    later: ModelTimes

    @classmethod
    def of(
        cls,
        speculation: Speculation,
        draft: Deployment,
        parallelism: Parallelism,
        sizes: Sizes,
    ) -> Drafting:
        """Price the passes of a draft; `parallelism` is its target's."""
        split = draft_parallelism(draft.model, parallelism)
        verified = QueryTokens(1 + speculation.draft_tokens, speculation.draft_tokens)
        return cls(
            speculation.extending,
            ModelTimes.of(draft, split, sizes, verified),
            speculation.single,
            ModelTimes.of(draft, split, sizes, QueryTokens(), without=TARGET_STATES),
        )

    def picked(self, chosen: Places) -> Drafting:
        """A selection of the configurations."""
        first, later = self.first.picked(chosen), self.later.picked(chosen)
        return replace(self, first=first, later=later)

    def __call__(self, decodes: Array, tokens: Array, elsewhere: Array) -> Array:
        """Time of all passes [s], [..., configs]; arguments as of `ModelTimes`."""
        sequences = decodes + self.first.prompts(tokens)
        seconds = self.extending * self.first(decodes, tokens, elsewhere)[0]
        return np.asarray(seconds + self.single * self.later.of_decodes(sequences)[0])


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Times of the steps of configurations with the same number of pipeline stages.

    model: device time of the target model.  drafting: drafts, on the last stage.  engine: its host
    times.  spilled: traffic with the host's memory.  prompts: measured over priced time that
    prompts add to a step, [configs] or one for all.  captured: most tokens of a step that replays a
    graph, likewise; beyond: whether any step that only decodes has more.
    """

    model: ModelTimes
    drafting: Drafting | None
    engine: EngineProfile
    spilled: Spilled | None = None
    prompts: Num = 1.0
    captured: Num = np.inf
    beyond: bool = False

    @classmethod
    def of(
        cls,
        model: Model,
        system: System,
        parallelism: Parallelism,
        engine: EngineProfile,
        sizes: Sizes,
        captured: Num = np.inf,
    ) -> StepTimes:
        """Price a model, its drafts with a `SpeculativeModel`; see `ModelTimes.of`.

        captured: most tokens of a captured step, a number or [configs].

        Raises:
            MissingSpec: the system states no peak or link that an operator needs.
        """
        priced = cls._priced(deploy(model, system, engine), parallelism, sizes)
        tokens = sizes.decodes * priced.model.query.tokens
        beyond = bool(priced.engine.prompt_launch_s) and bool(np.any(tokens > captured))
        return replace(priced, captured=captured, beyond=beyond)

    @classmethod
    def _priced(cls, deployed: Deployment, parallelism: Parallelism, sizes: Sizes) -> StepTimes:
        system, engine = deployed.system, deployed.engine
        if not isinstance(deployed.model, SpeculativeModel):
            many = sizes.branches
            query = QueryTokens(many, 0, many, many)
            return cls(ModelTimes.of(deployed, parallelism, sizes, query), None, engine)
        if sizes.branches > 1:
            raise InvalidValue(
                "speculative decoding with several outputs per prompt is not modelled: leave out "
                "one of them"
            )
        speculation, target = deployed.model.speculation, deployed.model.model
        drafted = speculation.draft_tokens
        verified = QueryTokens(1 + drafted, drafted, 1 + drafted)
        times = ModelTimes.of(Deployment(target, system, engine), parallelism, sizes, verified)
        if speculation.draft is None:
            return cls(times, None, engine)
        draft = Deployment(speculation.draft, system, engine)
        return cls(times, Drafting.of(speculation, draft, parallelism, sizes), engine)

    def picked(self, chosen: Places) -> StepTimes:
        """A selection of the configurations."""
        drafting = self.drafting.picked(chosen) if self.drafting else None
        spilled = self.spilled.picked(chosen) if self.spilled else None
        prompts, captured = (
            number if np.ndim(number) == 0 else np.asarray(number)[chosen]
            for number in (self.prompts, self.captured)
        )
        return replace(
            self,
            model=self.model.picked(chosen),
            drafting=drafting,
            spilled=spilled,
            prompts=prompts,
            captured=captured,
        )

    def with_share(self, share: Array) -> StepTimes:
        """The times if this share of the ranks has requests, [configs]."""
        drafting = self.drafting and replace(
            self.drafting,
            first=self.drafting.first.with_share(share),
            later=self.drafting.later.with_share(share),
        )
        return replace(self, model=self.model.with_share(share), drafting=drafting)

    @property
    def ranks(self) -> Array:
        """Attention ranks that wait for one another, [configs]."""
        return self.model.ranks

    def graph_room(self, decodes: Array) -> Array | None:
        """Prompt tokens that a graph holds beside these decodes; None if no graph holds any."""
        if not (self.engine.prompt_launch_s and self.engine.graph_prompt_tokens):
            return None
        most = self.engine.replayed_tokens(self.captured, reads=True)
        return np.asarray(most - decodes * self.model.query.tokens)

    @property
    def sizes(self) -> Sizes:
        """Largest content of the steps."""
        return self.model.sizes

    def __call__(
        self, decodes: Array, tokens: Array, elsewhere: Array, launched: Array | None = None
    ) -> tuple[Array, Array]:
        """Latency of a step, and time until the next may start on a stage [s], [..., configs].

        Args:
            decodes: sequences that decode on the rank.  tokens: of prompts there.
            elsewhere: prompt tokens on each of the other ranks.
            launched: share of the steps that replay no graph, where `tokens` is the mean of
                several steps; by default all or none, as a step with these tokens.
        """
        if not decodes.ndim == tokens.ndim == elsewhere.ndim:
            decodes, tokens, elsewhere = _aligned(decodes, tokens, elsewhere)
        if not (tokens > 0).any():
            return self.of_decodes(decodes)
        device = self._device_s(decodes, tokens, elsewhere)
        if self.engine.prompt_launch_s:
            device = device + self._launching_s(device, decodes, tokens, launched)
        if self._prompts_scaled:
            plain = self._plain_s(decodes)
            device = plain + self.prompts * (device - plain)
        if self.spilled:
            device = device + self.spilled(decodes, tokens, elsewhere)
        prompts = np.maximum(tokens / self.sizes.isl, np.minimum(tokens, 1.0))
        sequences = decodes * self.sizes.branches + prompts
        return self._with_host(device, decodes + tokens > 0, sequences)

    def of_decodes(self, decodes: Array) -> tuple[Array, Array]:
        """The same for a step without prompts."""
        device = self._plain_s(decodes)
        if self.spilled:
            none = np.zeros_like(decodes)
            device = device + self.spilled(decodes, none, none)
        return self._with_host(device, decodes > 0, decodes * self.sizes.branches)

    @property
    def _prompts_scaled(self) -> bool:
        return isinstance(self.prompts, np.ndarray) or self.prompts != 1.0

    def _with_host(self, device: Array, runs: Mask, sequences: Array) -> tuple[Array, Array]:
        """Latency and stage time of steps with this device time of every stage [s].

        runs: where there is a step.  sequences: of the step.
        """
        step = self.engine.host_step_s + self.engine.sampling_s
        host = np.where(runs, step + self.engine.host_sequence_s * sequences, 0.0)
        if len(device) == 1:
            latency = device[0] + host
            return latency, latency
        return device.sum(0) + host, np.maximum(device.max(0), host)

    def _launching_s(
        self, device: Array, decodes: Array, tokens: Array, share: Array | None = None
    ) -> Array:
        """Time for which every stage waits for the launches of a step [s], [stages, ..., configs].

        share: of the steps with prompts that replay no graph.
        """
        operators, engine = beside_stages(self.model.launched, decodes), self.engine
        if share is None:
            every = decodes * self.model.query.tokens + tokens
            waits = engine.launching_s(operators, device, every, tokens > 0, self.captured)
            return np.asarray(waits)
        waits = share * engine.launching_s(operators, device, np.inf, True, self.captured)
        plain = self._launching_s(device, decodes, np.zeros_like(tokens)) if self.beyond else 0.0
        return np.where(tokens > 0, waits, plain)

    def _plain_s(self, decodes: Array) -> Array:
        """Time of every stage of a step without prompts [s], [stages, ..., configs]."""
        device = self._device_s(decodes)
        if not self.beyond:
            return device
        return device + self._launching_s(device, decodes, np.zeros_like(decodes))

    def _device_s(
        self, decodes: Array, tokens: Array | None = None, elsewhere: Array | None = None
    ) -> Array:
        """Time of every stage [s], [stages, ..., configs]; without prompts unless given."""
        if tokens is None or elsewhere is None:
            device = self.model.of_decodes(decodes)
        else:
            device = self.model(decodes, tokens, elsewhere)
        if self.drafting:
            if tokens is None or elsewhere is None:
                tokens = elsewhere = np.zeros_like(decodes)
            device[-1] += self.drafting(decodes, tokens, elsewhere)
        return device


def _aligned(*arrays: Array) -> list[Array]:
    """Arrays [..., configs] with axes of one in front, so that all have as many."""
    most = max(array.ndim for array in arrays)
    return [array.reshape(*(1,) * (most - array.ndim), *array.shape) for array in arrays]
