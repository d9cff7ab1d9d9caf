"""The figures of a served model: latencies, throughput, bounds, and why loads are not served."""

from __future__ import annotations

from typing import cast

import numpy as np

from genz_core.limits import short
from genz_core.models.model_kinds import generates
from genz_core.models.speculative import steps_per_token
from genz_core.schedule import most_tokens, reading_engine
from genz_core.serving.balance import Balance
from genz_core.serving.deduplicate import step_seconds
from genz_core.serving.loads_batching import spilled
from genz_core.serving.served_model import ServedModel
from genz_core.serving.traffic import OVERLOADED, Novelty, ServingEstimate, between_tokens
from genz_core.steps.step_correction import StepCorrection, novelty
from genz_core.types import Array, Workload
from genz_core.workload import OUT_OF_MEMORY


def figures(
    served: ServedModel, balance: Balance, correction: StepCorrection, users: Array
) -> ServingEstimate:
    """The figures of all loads; no latency is below its bound.

    TPOT averages over many steps, so its median is taken as its mean.

    users: open requests, [configs].
    """
    decode_s, decode_host, bound_decode = served.decoding(balance.running)
    prompts = Workload(1.0, served.load.isl, 1.0, served.cached)
    prefill_s, prefill_host, bound_prefill = step_seconds(
        served.deployed, "prefill", prompts, served.parallelism
    )
    for_prompt, for_decode = _offload_s(served, balance.running)
    decode_s = correction.seconds(decode_s + for_decode, decode_host + for_decode, bound_decode)
    prefill_s = correction.seconds(
        prefill_s + for_prompt, prefill_host + for_prompt, bound_prefill, reads=True
    )
    over = (balance.utilisation >= 1.0) & (served.status == "ok")
    offered = np.broadcast_to(balance.requests_per_s, served.status.shape)
    messages = served.messages | served.blocked(users) | served.crowded(balance.running)
    for row, said in served.refusing().items():
        messages[row] = "; ".join(filter(None, (said, messages.get(row, ""))))
    for at in np.flatnonzero(over):
        most = short(balance.most_per_s[at], 3)
        messages[int(at)] = (
            f"{short(offered[at])} requests/s is more than the {most} this "
            "deployment sustains, so the queue grows without bound; add replicas or devices"
        )
    status = np.where(over, OVERLOADED, served.status)
    valid = np.isin(status, ["ok", OUT_OF_MEMORY, OVERLOADED])

    def masked(values: Array, least: Array | float = 0.0) -> Array:
        return np.where(valid, np.maximum(values, least), np.nan)

    each = steps_per_token(served.model, served.osl)
    bound_decode = _bound_s(served, balance, bound_decode) * each
    tpot = between_tokens(masked(balance.cycle_s * each, bound_decode), served.osl)
    if not generates(served.model):
        tpot = np.full_like(tpot, np.nan)
    per_s = np.minimum(balance.requests_per_s, balance.most_per_s)
    of_rank = users / served.chosen(served.ranks, np.arange(status.size))
    far = novelty(served.engine, served.model, served.system, *served.among_runs(users))
    return ServingEstimate(
        ttft_s=masked(balance.ttft_s, bound_prefill),
        tpot_s=tpot,
        ttft_median_s=masked(balance.ttft_median_s, bound_prefill),
        tpot_median_s=tpot,
        prefill_s=masked(prefill_s, bound_prefill),
        decode_step_s=masked(decode_s * each),
        bound_prefill_s=masked(bound_prefill),
        bound_decode_step_s=masked(bound_decode),
        running=masked(balance.running),
        correction=correction,
        novelty=Novelty(*far, of_rank),
        outside_s=balance.outside_s,
        capacity=masked(served.capacity),
        utilisation=masked(balance.utilisation),
        prompt_share=masked(balance.prompt_share),
        output_tokens_per_s=masked(per_s * served.osl * served.traffic.sharing.kept),
        osl=served.osl,
        devices=cast(Array, served.devices),
        ranks=served.ranks,
        memory=served.memory.where(valid),
        status=status,
        messages=messages,
        traffic=served.traffic,
        parallelism=served.parallelism,
        branches=served.traffic.sharing.branches,
        offloaded=served.offloaded_bytes(_admitted(served, balance.running)),
    )


def _offload_s(served: ServedModel, running: Array) -> tuple[Array | float, Array | float]:
    """Time that a prompt alone, and a decode step, spend on offloaded data [s], [configs]."""
    every = np.arange(served.status.size)
    moved = spilled(served, every, 1, _admitted(served, running))
    if moved is None:
        return 0.0, 0.0
    new = served.chosen(served.load.isl, every) - served.chosen(served.cached, every)
    passes = np.ceil(new / most_tokens(new, reading_engine(served.deployed)))
    none, decodes = np.zeros(every.size), running * served.traffic.sharing.branches / served.ranks
    stages = served.chosen(served.parallelism.pp, every)
    return stages * passes * moved(none, new / passes, none), stages * moved(decodes, none, none)


def _bound_s(served: ServedModel, balance: Balance, bound_s: Array) -> Array:
    """The lower bound of a steady step [s].

    If a step is shorter than if all running requests decoded, the number of decoding ones follows
    from Little's law.

    bound_s: of a step in which all running requests decode.
    """
    if not np.any(balance.cycle_s < bound_s):
        return bound_s
    steps = np.maximum(served.osl - 1.0, 0.0) * steps_per_token(served.model, served.osl)
    per_s = np.minimum(balance.requests_per_s, balance.most_per_s)
    decoding = np.minimum(per_s * steps * balance.cycle_s, balance.running)
    return np.where(balance.cycle_s < bound_s, served.decoding(decoding)[2], bound_s)


def _admitted(served: ServedModel, running: Array) -> Array:
    """Requests per rank that memory is reserved for: with weights on the host, all that may run."""
    most = served.limit
    if served.traffic.rate_per_s is None:
        most = np.minimum(served.load.batch, most)
    return np.asarray((running if served.traffic.spill == "kv" else most) / served.ranks)
