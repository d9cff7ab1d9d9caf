"""Which users of a closed loop wait for others, and why, in a sentence."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.question.validity import has_pool
from app.scenario.scenario import Resolved
from genz_core.deployment import as_server
from genz_core.serving import ServingEstimate
from genz_core.serving.kv_capacity import usual_tokens
from genz_core.serving.load_checks import real_lengths
from genz_core.types import Array, Num, Workload
from genz_core.validity import spread

#: Share of the users that may wait before a sentence says so: judgement.
_FEW_WAIT = 0.01
#: Utilisation from which a prefill pool counts as saturated: judgement.
_FULL = 0.99


def waiting_users(resolved: Resolved, result: ServingEstimate) -> NDArray[np.object_]:
    """A sentence for each load of which users wait until others end, "" for the others, [loads].

    A sentence of `result` that already names the limit is not repeated.
    """
    limits = _Limits.of(resolved, result)
    open_requests = result.open_requests
    whose = "users who do not pause" if np.any(result.traffic.pause_s) else "users"
    said = np.full(result.status.shape, "", dtype=object)
    waits = open_requests - limits.most > _FEW_WAIT * open_requests
    for at in np.flatnonzero((result.status == "ok") & waits):
        if limits.of_steps[at] and int(at) in result.messages:
            continue
        said[at] = (
            f"about {limits.most[at]:,.0f} of {open_requests[at]:,.0f} {whose} run at once "
            f"({limits.cause(int(at))}), and TTFT includes the wait of the others"
        )
    return said


@dataclass(frozen=True, slots=True)
class _Limits:
    """What limits the requests that run at once, [loads] each.

    most: requests that run at once.  fit: those whose cache fits in memory.  sequences: limit of
    the engine on each of `ranks`.  of_pool: the prefill pool or its link is the limit.  of_steps:
    the tokens of a step are, `budget` of them for prompts of `prompt` tokens.
    """

    most: Array
    fit: Array
    sequences: Array
    ranks: Array
    of_pool: NDArray[np.bool_]
    of_steps: NDArray[np.bool_]
    budget: Array
    prompt: Array

    @classmethod
    def of(cls, resolved: Resolved, result: ServingEstimate) -> "_Limits":
        traffic = result.traffic
        fit, running, ranks, used = (
            _spread(values, result)
            for values in (result.capacity, result.running, result.ranks, result.utilisation)
        )
        told = _spread(traffic.max_num_seqs, result)
        sequences = np.where(told > 0, told, resolved.engine.max_sequences)
        places = np.minimum(fit, np.floor(sequences / result.branches) * ranks)
        fewer = running < places
        pooled = has_pool(resolved.scenario)
        of_pool = fewer & (used > _FULL) if pooled else np.zeros_like(fewer)
        of_steps = np.zeros_like(fewer) if pooled else fewer
        read = real_lengths(Workload(1.0, traffic.isl, traffic.osl), traffic.length_ratio).isl
        prompt = np.asarray(read, dtype=float) - traffic.sharing.cached_tokens
        usual = usual_tokens(as_server(resolved.engine, resolved.system), prompt, traffic.osl)
        tokens = _spread(traffic.max_num_batched_tokens, result)
        return cls(
            np.where(of_pool | of_steps, running, places),
            fit, sequences, ranks, of_pool, of_steps,
            np.where(tokens > 0, tokens, usual),
            _spread(prompt, result),
        )  # fmt: skip

    def cause(self, at: int) -> str:
        """Why no more requests of a load run at once."""
        if self.of_pool[at]:
            return "the prefill pool or its link is the bottleneck"
        if self.of_steps[at]:
            return (
                f"max_num_batched_tokens is {self.budget[at]:,.0f}, and a prompt has about "
                f"{self.prompt[at]:,.0f} tokens to prefill"
            )
        if self.most[at] < self.fit[at]:
            each = f" on each of {self.ranks[at]:,.0f} ranks" if self.ranks[at] > 1 else ""
            return f"max_num_seqs is {self.sequences[at]:,.0f}{each}"
        return "more do not fit in memory"


def _spread(values: Num, result: ServingEstimate) -> Array:
    return spread(np.asarray(values, dtype=float), result.status.size)
