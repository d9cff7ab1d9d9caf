"""A pool of prefill workers, and the transfer of their caches to the decode workers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from genz_core.errors import OutOfMemory
from genz_core.models.speculative import Speculation
from genz_core.serving.disaggregation import Disaggregation, ServingPool
from genz_core.serving.simulation.deployment import Site, replica_of
from genz_core.serving.simulation.interpolation import Curve
from genz_core.serving.simulation.price_grids import nodes
from genz_core.serving.simulation.requests import Requests
from genz_core.serving.simulation.router import router
from genz_core.serving.simulation.simulator import HandOver, Pool
from genz_core.serving.simulation.step_price import StepPrice


def prefill_pool(
    disaggregation: Disaggregation,
    decode: ServingPool,
    requests: Requests,
    speculation: Speculation | None = None,
    price: StepPrice | None = None,
    generator: np.random.Generator | None = None,
) -> Pool:
    """The prefill workers, empty.

    A worker keeps a prompt's cache until it has been transferred; caches are sent one after
    another.
    decode: the receiving pool.  speculation: its draft model also reads the prompts.
    generator: see `replica_of`.

    Raises:
        InvalidParallelism, OutOfMemory: see `simulate`.
        InvalidValue: pools that cannot share a cache.
    """
    prefill = disaggregation.prefill
    if speculation:
        prefill = prefill.drafting(speculation)
        disaggregation = replace(disaggregation, prefill=prefill)
    disaggregation.refuse_mismatch(decode.deployed)
    deployed, transfer = prefill.deployed, disaggregation.transfer
    site = Site.of(deployed.model, deployed.system, deployed.engine, prefill.parallelism)
    alone = replace(requests, output_tokens=np.ones(len(requests)))
    try:
        made = replica_of(site, alone, prefill.options, price=price, generator=generator)
    except OutOfMemory as error:
        raise OutOfMemory(f"prefill pool: {error}") from None
    tokens = np.unique(np.concatenate([[1.0], nodes(requests.input_tokens.max(), 2**0.25)]))
    busy_s = Curve(tokens, disaggregation.busy_s(decode, tokens))
    way = HandOver(busy_s, float(transfer.latency_s), transfer.shown_by)
    return Pool.of(made, prefill.workers, router("least_loaded"), way)
