"""The fewest devices on which a scenario that does not fit would fit."""

from dataclasses import replace

import numpy as np

from app.scenario.scenario import Resolved, estimate_resolved
from genz_core.errors import RidgelineError
from genz_core.types import Parallelism

#: Tensor-parallel degrees and pipeline stages to try.
_DEGREES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_MOST_DEVICES = 1024


def fewest_devices(resolved: Resolved, batch: int) -> Parallelism | None:
    """The degrees with the fewest devices that hold a scenario; of several, the fastest.

    None where no tried degrees are enough.  Attention data parallelism is unchanged; experts are
    spread over all ranks of a stage if the scenario spreads them.

    batch: sequences of the static batch, or 1 for a load, whose requests can wait.
    """
    given = resolved.scenario.parallelism
    most = _MOST_DEVICES // int(given.dp)
    pairs = [(tp, pp) for tp in _DEGREES for pp in _DEGREES if tp * pp <= most]
    tp, pp = np.array(pairs, dtype=float).T
    ep = tp * given.dp if (resolved.scenario.ep or 1) > 1 else np.ones_like(tp)
    free = replace(resolved, scenario=replace(resolved.scenario, moe_tp=None, offload=""))
    try:
        tried = estimate_resolved(free, tp=tp, pp=pp, ep=ep, batch=np.full_like(tp, batch))
    except RidgelineError:
        return None
    fits = np.flatnonzero(tried.status == "ok")
    if not len(fits):
        return None
    best = min(fits, key=lambda at: (tp[at] * pp[at], float(tried.e2e_s[at])))
    return replace(given, moe_tp=None, tp=int(tp[best]), pp=int(pp[best]), ep=int(ep[best]))
