"""Serving in a closed or an open loop: running sequences, and latencies of their requests.

Lengths are uniform in [length_ratio, 1] of their nominal value, as in public benchmarks; steps are
priced at the mean lengths.
"""

from __future__ import annotations

import numpy as np

from genz_core.deployment import as_server, deploy
from genz_core.engine import EngineProfile
from genz_core.graphs import Model
from genz_core.serving.load_checks import check_load, of_kind, rates
from genz_core.serving.pauses import with_pauses
from genz_core.serving.served_figures import figures
from genz_core.serving.served_model import ServedModel
from genz_core.serving.traffic import ServingEstimate, Traffic
from genz_core.systems import System
from genz_core.types import Array, Parallelism
from genz_core.validity import OnError, raise_for_status


def serve(
    model: Model,
    system: System,
    traffic: Traffic,
    parallelism: Parallelism | None = None,
    engine: EngineProfile | None = None,
    *,
    on_error: OnError = "raise",
) -> ServingEstimate:
    """TTFT, TPOT and throughput under load, with the engine's measured corrections applied.

    Args:
        traffic: concurrency or rate and lengths, numbers or arrays [configs].
        parallelism: degrees, likewise.
        engine: default: the generic one.
        on_error: "raise" raises the error of the first load that cannot be served; otherwise each
            such load has a reason code in "status".  If no sequence fits, times are those of a
            single one.  A rate that is too high is "overloaded" in both cases.

    Raises:
        InvalidValue: neither or both of concurrency and rate; a length ratio outside (0, 1]; a size
            below one; a negative pause.
        InvalidParallelism: degrees that do not divide the model.
        OutOfMemory: not even one sequence fits.
    """
    traffic = of_kind(model, traffic)
    check_load(traffic)

    def without_pauses(load: Traffic) -> ServingEstimate:
        served = _served(model, system, load, parallelism, engine)
        users = served.users()
        correction = served.correction(users)
        return figures(served, served.balance(correction), correction, users)

    estimate = with_pauses(traffic, without_pauses)
    if on_error == "raise":
        raise_for_status(estimate.status, lambda at: estimate.messages.get(at, ""))
    return estimate


def run_sizes(
    model: Model,
    system: System,
    traffic: Traffic,
    parallelism: Parallelism | None = None,
    engine: EngineProfile | None = None,
) -> Array:
    """Position of loads among measured runs: `measured_runs.SIZES` of each, [configs, sizes].

    Arguments and errors as `serve`.
    """
    traffic = of_kind(model, traffic)
    check_load(traffic)
    served = _served(model, system, traffic, parallelism, engine)
    if not np.any(traffic.pause_s):
        return served.run_sizes(served.users())
    found = serve(model, system, traffic, parallelism, engine, on_error="status")
    return served.run_sizes(found.novelty.users * served.ranks)


def _served(
    model: Model,
    system: System,
    traffic: Traffic,
    parallelism: Parallelism | None,
    engine: EngineProfile | None,
) -> ServedModel:
    parallelism = parallelism or Parallelism()
    deployed = deploy(model, system, as_server(engine or EngineProfile(), system))
    users = np.ones_like(rates(traffic)) if traffic.concurrency is None else traffic.concurrency
    return ServedModel.of(deployed.model, system, deployed.engine, parallelism, traffic, users)
