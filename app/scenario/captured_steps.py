"""Decode steps with more tokens than the largest step that an engine captures as a graph."""

from dataclasses import dataclass, replace
from math import inf

import numpy as np

from app.scenario.scenario import Resolved
from genz_core import Estimate
from genz_core.common.quantities import percent
from genz_core.deployment import deploy
from genz_core.engine import EngineProfile
from genz_core.models.speculative import query_tokens
from genz_core.serving import ServingEstimate
from genz_core.serving.deduplicate import step_seconds
from genz_core.serving.load_checks import real_lengths
from genz_core.types import Array, Num, Places, Workload
from genz_core.validity import columns, split_of, spread

#: Share of a step's time from which a sentence names the wait for launches: judgement.
_WORTH_SAYING = 0.1


def beyond_graphs(resolved: Resolved, result: Estimate | ServingEstimate) -> dict[int, str]:
    """A sentence for each row whose decode step replays no graph and therefore waits for launches
    for a tenth of its time or longer: the limit, and the option of the engine that raises it.
    """
    engine = resolved.engine
    if not engine.launches_decodes:
        return {}
    steps = _DecodeSteps.of(result, query_tokens(resolved.model))
    captured = spread(np.asarray(engine.captured_tokens(steps.query, steps.limit)), steps.size)
    of_rank = steps.tokens_of_rank()
    rows = np.flatnonzero((result.status == "ok") & (of_rank > captured))
    if not rows.size:
        return {}
    captured_s, step_s = (steps.seconds(resolved, e, rows) for e in (_unlimited(engine), engine))
    return {
        int(at): (
            f"a decode step has about {of_rank[at]:,.0f} tokens, more than the {captured[at]:,.0f} "
            f"that {engine.name} captures as a graph by default, and waits for launches for "
            f"{percent(share)} of its time: start the server with {engine.graph_option} "
            f"{np.ceil(of_rank[at]):.0f}"
        )
        for at, share in zip(rows, 1.0 - captured_s / step_s, strict=True)
        if share >= _WORTH_SAYING and engine.graph_option
    }


def _unlimited(engine: EngineProfile) -> EngineProfile:
    """The engine with graphs of steps of any size."""
    return replace(engine, graph_tokens=inf, graph_multiple=inf, graph_models={})


@dataclass(frozen=True, slots=True)
class _DecodeSteps:
    """The decode steps of a result's rows.

    load: sequences that decode together, and their lengths.  limit: `max_num_seqs`, 0 for the
    engine's default.  query: new tokens of a sequence.  size: number of rows.
    """

    result: Estimate | ServingEstimate
    load: Workload
    limit: Num
    query: int
    size: int

    @classmethod
    def of(cls, result: Estimate | ServingEstimate, query: int) -> "_DecodeSteps":
        size = len(result.status)
        if isinstance(result, Estimate):
            return cls(result, result.workload, 0.0, query, size)
        traffic = result.traffic
        lengths = real_lengths(Workload(1.0, traffic.isl, traffic.osl), traffic.length_ratio)
        load = replace(lengths, batch=np.maximum(result.running, 1.0) * result.branches)
        return cls(result, load, traffic.max_num_seqs, query, size)

    def tokens_of_rank(self) -> Array:
        """New tokens of the step of an attention rank, 0 for outputs of one token, [rows]."""
        sequences = np.asarray(self.load.batch, dtype=float) / self.result.parallelism.dp
        tokens = np.where(np.greater(self.load.osl, 1.0), sequences * self.query, 0.0)
        return spread(tokens, self.size)

    def seconds(self, resolved: Resolved, engine: EngineProfile, rows: Places) -> Array:
        """Time of the mean decode step of some rows under an engine [s], [rows]."""
        split = self.result.parallelism
        numbers = {
            name: spread(values, self.size)[rows]
            for name, values in columns(self.load, split).items()
        }
        load = Workload(np.round(numbers["batch"]), numbers["isl"], numbers["osl"])
        deployed = deploy(resolved.model, resolved.system, engine)
        return step_seconds(deployed, "decode", load, split_of(split, numbers))[0]
