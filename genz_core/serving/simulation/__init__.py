"""A discrete-event simulation of serving: the truth that the closed form shadows.

simulate(model, system, requests)   requests through a deployment, one by one
draws                               lengths, arrivals and accepted drafts of a seed
policies                            schedulers, a file each

The time of a step comes from a `StepPrice`: our step model on grids, or anything that is called
with the work of every rank.
"""

from __future__ import annotations

import numpy as np

from genz_core.deployment import deploy
from genz_core.engine import EngineProfile
from genz_core.serving.disaggregation import Disaggregation, ServingPool, Transfer
from genz_core.serving.options import SCHEDULERS, Options
from genz_core.serving.simulation.answers import Simulation
from genz_core.serving.simulation.deployment import Site, workers
from genz_core.serving.simulation.draws import decode_steps
from genz_core.serving.simulation.hand_over import prefill_pool
from genz_core.serving.simulation.policies import Scheduler
from genz_core.serving.simulation.requests import Requests
from genz_core.serving.simulation.router import Routing, router
from genz_core.serving.simulation.simulator import Cancel, Client, Pool, Progress, Simulator
from genz_core.serving.simulation.step_price import RankWork, StepPrice, StepTables, StepTime
from genz_core.speculative import Speculation, speculative_model
from genz_core.types import Model, Parallelism, System

__all__ = [
    "SCHEDULERS",
    "Client",
    "Disaggregation",
    "Options",
    "RankWork",
    "Requests",
    "ServingPool",
    "Simulation",
    "Speculation",
    "StepPrice",
    "StepTables",
    "StepTime",
    "Transfer",
    "simulate",
]

#: Of a seed's sequences; a caller may have drawn its requests from others of the same seed.
_OF_JITTER, _OF_ROUTER = 1_000, 1_001


def simulate(
    model: Model,
    system: System,
    requests: Requests,
    parallelism: Parallelism | None = None,
    engine: EngineProfile | None = None,
    *,
    concurrency: int = 0,
    start_s: float = 0.0,
    counted: range | None = None,
    options: Options | None = None,
    replicas: int = 1,
    routing: Routing = "least_loaded",
    front_ends: int = 1,
    scheduler: Scheduler | None = None,
    speculation: Speculation | None = None,
    disaggregation: Disaggregation | None = None,
    seed: int = 0,
    price: StepPrice | None = None,
    progress: Progress | None = None,
    cancelled: Cancel | None = None,
) -> Simulation:
    """Serve requests one by one.

    Args:
        concurrency: open requests at most, 0 for no limit: those beyond wait with the client.
        start_s: over which the users of a closed loop send their first requests, evenly.
        counted: rows of the requests that figures are of, all by default.
        options: what the operator tells the engine.
        replicas: equal deployments behind the router.
        front_ends: see `router`.
        speculation: what drafts tokens; each request's steps are drawn when it is sent.
        disaggregation: a pool that reads the prompts; what is described beside it then decodes.
        seed: of the steps that speculation takes, and of the engine's jitter.
        scheduler, price: in place of the engine's own and of our step model.
        progress, cancelled: see `Simulator`.

    Raises:
        InvalidParallelism: degrees that do not divide the model.
        OutOfMemory: the weights leave no room for a cache.
        InvalidValue: requests that are never admitted; pools that cannot share a cache.
    """
    options, parallelism = options or Options(), parallelism or Parallelism()
    steps = requests.output_tokens - 1.0
    if speculation:
        model = speculative_model(model, speculation)
        steps = decode_steps(steps, speculation.acceptance, np.random.default_rng(seed))
    site = Site.of(model, system, engine, parallelism)
    chance, first_turns = (
        np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(what,)))
        for what in (_OF_JITTER, _OF_ROUTER)
    )
    made = workers(
        site,
        requests,
        options,
        replicas=replicas,
        scheduler=scheduler,
        price=price,
        open_requests=concurrency,
        generator=chance,
    )
    front = router(routing, replicas, first_turns.integers(replicas, size=front_ends).tolist())
    pools = [Pool(made, front, replicas)]
    if disaggregation:
        deployed = deploy(site.model, site.system, site.engine)
        decode = ServingPool(deployed, parallelism, replicas, options)
        first = prefill_pool(disaggregation, decode, requests, speculation, price, chance)
        pools.insert(0, first)
    before = site.engine.host_request_s + options.wait_s
    client = Client(concurrency, start_s, request_s=before)
    return Simulator(requests, steps, pools, client, progress, cancelled, counted).run()
