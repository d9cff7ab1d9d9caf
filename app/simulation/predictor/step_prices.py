"""Prices of single steps of one engine: prefill, decode, and the tokens that fit its cache."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.scenario.scenario import Resolved
from genz_core.errors import InvalidValue
from genz_core.limits import checked_size
from genz_core.serving.simulation.deployment import Site
from genz_core.serving.simulation.model_tables import Extent
from genz_core.serving.simulation.step_price import RankWork, ScaledPrice, StepPrice
from genz_core.serving.simulation.step_tables import StepTables

#: Largest number of sequences in a tabulated step.
_MOST_SEQUENCES = 4096
_LEAST_CONTEXT = 1024


@dataclass(frozen=True, slots=True)
class StepPrices:
    """Step times of one engine.

    price: of a step.  ranks: attention ranks, over which sequences are distributed.  chunk: prompt
    tokens per step.  devices: of the engine.  kv_tokens: capacity of its caches.
    longest: tokens of the longest sequence.
    """

    price: StepPrice
    ranks: int
    chunk: int
    devices: int
    kv_tokens: int
    longest: int

    def prompt_s(self, tokens: int) -> float:
        """TTFT of a prompt that arrives alone [s]."""
        starts = range(0, tokens, self.chunk)
        pieces = [(min(self.chunk, tokens - start), start) for start in starts]
        return sum(self.prompts_s([piece]) for piece in pieces)

    def prompts_s(self, pieces: Sequence[tuple[int, int]]) -> float:
        """Seconds of a step that reads pieces of prompts, (new, cached) tokens, on one rank."""
        idle = [RankWork(0, 0.0)] * (self.ranks - 1)
        latency_s, _ = self.price([RankWork(0, 0.0, tuple(pieces)), *idle])
        return latency_s

    def decode_s(self, sequences: int, context: float) -> float:
        """Seconds of a decode step with sequences of equal context, distributed evenly over the
        ranks.
        """
        share, more = divmod(sequences, self.ranks)
        each = [share + (at < more) for at in range(self.ranks)]
        latency_s, _ = self.price([RankWork(count, count * context) for count in each])
        return latency_s


def step_prices(resolved: Resolved, longest: int) -> StepPrices:
    """The step prices of a deployment for sequences of up to `longest` tokens.

    Raises:
        InvalidValue: pipeline stages, whose steps overlap; a length below 1,024 tokens.
        RidgelineError: degrees that do not divide the model, or a model that does not fit.
    """
    scenario = resolved.scenario
    split = scenario.parallelism
    if int(np.max(split.pp)) > 1:
        raise InvalidValue(
            f"pp {int(np.max(split.pp))}: the predictor does not model the "
            "overlapping steps of pipeline stages; give pp 1"
        )
    if checked_size("isl", longest, "--context") < _LEAST_CONTEXT:
        raise InvalidValue(f"--context {longest}: give {_LEAST_CONTEXT:,} tokens or more")
    site = Site.of(resolved.model, resolved.system, resolved.engine, split)
    held, free = site.prompt_bytes(float(longest))
    ranks, chunk = int(np.max(split.dp)), site.engine.chunk_tokens or longest
    if site.engine.chunked_prefill is False:
        chunk = max(chunk, longest)
    extent = Extent(tokens=float(max(chunk, 1)), sequences=_MOST_SEQUENCES, context=float(longest))
    price: StepPrice = StepTables.of(site.model, site.system, split, site.engine, extent)
    scale = site.engine.recipe.tpot_scale
    if scale not in (None, 1.0):
        price = ScaledPrice(price, scale)
    tokens = math.floor(free / held(float(longest)) * longest) * ranks
    devices = int(np.max(np.asarray(split.tp) * np.asarray(split.dp)))
    return StepPrices(price, ranks, int(chunk), devices, tokens, longest)
