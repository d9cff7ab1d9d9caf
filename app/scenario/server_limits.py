"""Static batches above the number of sequences that an engine's server runs at a time by default.

No server is in the way of a static batch, so it takes no `max_num_seqs`; whoever serves such a
batch has to raise that limit.
"""

import numpy as np

from genz_core import Estimate
from genz_core.deployment import as_server
from genz_core.engine import EngineProfile


def above_a_server(result: Estimate) -> dict[int, str]:
    """A sentence for each static batch that has more sequences on a rank than its engine's server
    runs at a time by default; none for engines whose default is assumed.
    """
    most = as_server(result.engine, result.system).max_sequences
    shape, (load, split) = result.status.shape, (result.workload, result.parallelism)
    on_rank = np.ceil(np.broadcast_to(np.asarray(load.batch, dtype=float) / split.dp, shape))
    found = np.flatnonzero(on_rank > most)
    if not found.size or _assumed(result.engine):
        return {}
    sentence = (
        "a server of {} runs at most {:,} sequences a rank by default: to serve this batch at "
        "once, start it with max_num_seqs {:,.0f}"
    )
    return {int(at): sentence.format(result.engine.name, most, on_rank[at]) for at in found}


def _assumed(engine: EngineProfile) -> bool:
    return any(said.startswith("max_sequences = ") for said in engine.assumptions)
