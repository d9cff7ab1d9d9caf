"""A discrete-event simulation of serving: the truth that the closed form shadows.

simulate(model, system, requests)   requests through a deployment, one by one
draws                               lengths and arrivals of a seed
policies                            schedulers, a file each

The time of a step comes from a `StepPrice`: our step model on grids, or anything that is called
with the work of every rank.
"""

from __future__ import annotations

from genz_core.engine import EngineProfile
from genz_core.serving.simulation.answers import Simulation
from genz_core.serving.simulation.deployment import (
    SCHEDULERS,
    Options,
    Site,
    decode_steps,
    workers,
)
from genz_core.serving.simulation.policies import Scheduler
from genz_core.serving.simulation.requests import Requests
from genz_core.serving.simulation.router import Routing, router
from genz_core.serving.simulation.simulator import Cancel, Client, Pool, Progress, Simulator
from genz_core.serving.simulation.step_price import RankWork, StepPrice, StepTables, StepTime
from genz_core.types import Model, Parallelism, System

__all__ = [
    "SCHEDULERS",
    "Client",
    "Options",
    "RankWork",
    "Requests",
    "Simulation",
    "StepPrice",
    "StepTables",
    "StepTime",
    "simulate",
]


def simulate(
    model: Model,
    system: System,
    requests: Requests,
    parallelism: Parallelism | None = None,
    engine: EngineProfile | None = None,
    *,
    concurrency: int = 0,
    options: Options | None = None,
    replicas: int = 1,
    routing: Routing = "least_loaded",
    scheduler: Scheduler | None = None,
    price: StepPrice | None = None,
    progress: Progress | None = None,
    cancelled: Cancel | None = None,
) -> Simulation:
    """Serve requests one by one.

    Args:
        concurrency: open requests at most, 0 for no limit: those beyond wait with the client.
        options: what the operator tells the engine.
        replicas: equal deployments behind the router.
        scheduler, price: in place of the engine's own and of our step model.
        progress, cancelled: see `Simulator`.

    Raises:
        InvalidParallelism: degrees that do not divide the model.
        OutOfMemory: the weights leave no room for a cache.
        InvalidValue: requests that are never admitted.
    """
    options = options or Options()
    site = Site.of(model, system, engine, parallelism or Parallelism())
    made = workers(
        site,
        requests,
        options,
        replicas=replicas,
        scheduler=scheduler,
        price=price,
        open_requests=concurrency,
    )
    pool = Pool(made, router(routing))
    client = Client(concurrency, request_s=site.engine.host_request_s)
    steps = decode_steps(requests)
    return Simulator(requests, steps, [pool], client, progress, cancelled).run()
