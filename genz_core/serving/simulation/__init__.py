"""A discrete-event simulation of serving: the reference for the closed form.

simulate(model, system, requests)   requests through a deployment, one by one
simulate_replica_set(..., requests, plan) the same with replicas that start and stop
scaling                             autoscalers, one file each
draws                               random lengths, arrivals and accepted drafts
policies                            schedulers, one file each

The time of a step comes from a `StepPrice`: the tabulated step model, or any callable that takes
the work of every rank.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from genz_core.deployment import deploy
from genz_core.eager import under
from genz_core.engine import EngineProfile
from genz_core.graphs import Model
from genz_core.models.speculative import Speculation, speculative_model
from genz_core.serving.disaggregation import Disaggregation, ServingPool, Transfer
from genz_core.serving.options import SCHEDULERS, Options
from genz_core.serving.simulation.answers import Simulation
from genz_core.serving.simulation.deployment import Site, replica_of
from genz_core.serving.simulation.draws import decode_steps
from genz_core.serving.simulation.hand_over import prefill_pool
from genz_core.serving.simulation.policies import Scheduler
from genz_core.serving.simulation.replica_set import (
    ReplicaSetCourse,
    ReplicaSetPlan,
    ReplicaSetSimulator,
)
from genz_core.serving.simulation.requests import Requests
from genz_core.serving.simulation.router import Routing, router
from genz_core.serving.simulation.simulator import Cancel, Client, Pool, Progress, Simulator
from genz_core.serving.simulation.step_price import RankWork, StepPrice, StepTime
from genz_core.serving.simulation.step_tables import StepTables
from genz_core.serving.simulation.worker import Worker
from genz_core.systems import System
from genz_core.types import Array, Parallelism

__all__ = [
    "SCHEDULERS",
    "Client",
    "Disaggregation",
    "Options",
    "RankWork",
    "ReplicaSetCourse",
    "ReplicaSetPlan",
    "Requests",
    "ServingPool",
    "Simulation",
    "Speculation",
    "StepPrice",
    "StepTables",
    "StepTime",
    "Transfer",
    "simulate",
    "simulate_replica_set",
]

#: Index of this random sequence of a seed; a caller may have drawn its requests from others of the
#: same seed.
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
    """Simulate requests one by one.

    Args:
        concurrency: largest number of open requests, 0 for no limit; the others wait with the
            client.
        start_s: time over which the users of a closed loop send their first requests, evenly.
        counted: rows of the requests that figures are computed from, all by default.
        options: engine settings given by the operator.
        replicas: equal deployments behind the router.
        front_ends: see `router`.
        speculation: the method that drafts tokens; each request's steps are drawn when it is sent.
        disaggregation: a separate prefill pool; the deployment described here then only decodes.
        seed: for speculation steps and the engine's jitter.
        scheduler, price: replace the engine's own and the step model.
        progress, cancelled: see `Simulator`.

    Raises:
        InvalidParallelism: degrees that do not divide the model.
        OutOfMemory: the weights leave no space for a cache.
        InvalidValue: requests that are never admitted; pools that cannot share a cache.
    """
    ready = _Setup.of(model, system, requests, parallelism, engine, options, speculation, seed)
    site, made = ready.site, ready.replica(scheduler, price, concurrency)
    turns = [0]
    if front_ends > 1:
        chance = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_OF_ROUTER,)))
        turns = chance.integers(replicas, size=front_ends).tolist()
    pools = [Pool.of(made, replicas, router(routing, turns))]
    if disaggregation:
        deployed = deploy(site.model, site.system, site.engine)
        decode = ServingPool(deployed, site.parallelism, replicas, ready.options)
        first = prefill_pool(disaggregation, decode, requests, speculation, price, ready.chance)
        pools.insert(0, first)
    client = ready.client(concurrency, start_s)
    return Simulator(requests, ready.steps, pools, client, progress, cancelled, counted).run()


def simulate_replica_set(
    model: Model,
    system: System,
    requests: Requests,
    plan: ReplicaSetPlan,
    parallelism: Parallelism | None = None,
    engine: EngineProfile | None = None,
    *,
    options: Options | None = None,
    routing: Routing = "least_loaded",
    scheduler: Scheduler | None = None,
    speculation: Speculation | None = None,
    seed: int = 0,
    price: StepPrice | None = None,
    progress: Progress | None = None,
    cancelled: Cancel | None = None,
) -> tuple[Simulation, ReplicaSetCourse]:
    """Simulate requests one by one on replicas that start and stop, see `replica_set`.

    plan: number of replicas over time, and losses.  The other arguments: see `simulate`.

    Raises:
        InvalidParallelism, OutOfMemory, InvalidValue: see `simulate`.
    """
    ready = _Setup.of(model, system, requests, parallelism, engine, options, speculation, seed)
    return ReplicaSetSimulator(
        requests,
        ready.steps,
        ready.replica(scheduler, price, 0),
        plan,
        router(routing),
        ready.client(),
        progress,
        cancelled,
    ).run_with_course()


@dataclass(frozen=True, slots=True)
class _Setup:
    """The parts of a simulation other than its replicas.

    steps: decode steps of every request.  chance: generator of the engine's jitter.
    """

    site: Site
    requests: Requests
    options: Options
    steps: Array
    chance: np.random.Generator

    @classmethod
    def of(
        cls,
        model: Model,
        system: System,
        requests: Requests,
        parallelism: Parallelism | None,
        engine: EngineProfile | None,
        options: Options | None,
        speculation: Speculation | None,
        seed: int,
    ) -> _Setup:
        steps = requests.output_tokens - 1.0
        if speculation:
            model = speculative_model(model, speculation)
            steps = decode_steps(steps, speculation.acceptance, np.random.default_rng(seed))
        options = options or Options()
        engine = under(options.scheduler, engine or EngineProfile())
        site = Site.of(model, system, engine, parallelism or Parallelism())
        chance = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_OF_JITTER,)))
        return cls(site, requests, options, steps, chance)

    def client(self, concurrency: int = 0, start_s: float = 0.0) -> Client:
        """The client, with the time that the server's host takes for a request and its prompt."""
        engine = self.site.engine
        request_s = engine.host_request_s + self.options.wait_s
        return Client(concurrency, start_s, request_s=request_s, token_s=engine.host_token_s)

    def replica(
        self, scheduler: Scheduler | None, price: StepPrice | None, concurrency: int
    ) -> Callable[[], Sequence[Worker]]:
        """A function that makes the workers of a new replica."""
        return replica_of(
            self.site, self.requests, self.options, scheduler=scheduler, price=price,
            open_requests=concurrency, generator=self.chance,
        )  # fmt: skip
