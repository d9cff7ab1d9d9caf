"""Serving figures as columns: one table for the command, the page, the points file and Python."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

import genz_core
from app.answers.column import THROUGHPUT_ENDS
from app.answers.table import Table, later
from app.question import comparison
from app.question.evidence import Evidence
from app.question.query import Query
from app.question.question import Question
from app.question.validity import has_pool, tiers_of
from app.scenario import cache_tiers, intervals, pools, sharing
from app.scenario.drafting import drafted
from app.scenario.encoder_figures import of_kind
from app.scenario.gate import longest, with_served_contexts
from app.scenario.scenario import Resolved, basis, resolve, told
from app.scenario.summary import messages
from app.scenario.waiting_users import waiting_users
from genz_core.capacity.offload import What
from genz_core.deployment import deploy, recipe_key
from genz_core.errors import InvalidValue
from genz_core.models.model_kinds import generates, prompt_tokens
from genz_core.models.speculative import SpeculativeModel, speculative_model
from genz_core.serving import ServingEstimate, Traffic
from genz_core.serving.load_checks import real_lengths
from genz_core.serving.replicas import UsersOfReplicas
from genz_core.systems import System
from genz_core.types import Array, Parallelism, Workload
from hardware_db import recipes
from hardware_db.recipes import StepScale

#: Requests that each user of a public benchmark sends.
WAVES = 10.0
_DEGREES = ("tp", "pp", "dp", "ep", "moe_tp", "expert_imbalance", "redundant_experts")
#: Figures of a load: latencies, which may have an interval, and the others.
LATENCIES = ("ttft_s", "ttft_median_s", "tpot_s", "tpot_median_s", "e2e_s")
OTHERS = (
    "prefill_s", "wait_s", "output_tokens_per_s", "output_tokens_per_s_per_device",
    "interactivity", "running", "capacity", "utilisation", "prompt_share",
)  # fmt: skip
#: Those that a load has by its kind: one at a rate, the other in a closed loop.
_BY_KIND = ("utilisation", "prompt_share")


def deployed(query: Query) -> Resolved:
    """The deployment of a question: resolved names, calibration, drafts and adapters.

    Raises:
        RidgelineError: an unknown name, or drafts or adapters that the model does not support.
    """
    resolved = resolve(query.question, query.objects)
    if query.question.kind != "batch":
        resolved = as_calibrated(resolved)
    return completed(resolved, query.objects)


def completed(resolved: Resolved, objects: Mapping[str, Any]) -> Resolved:
    """A deployment with its drafts, the adapters of its requests, and the system of its prefill
    pool.

    objects: objects given instead of names, as in `Query`.

    Raises:
        RidgelineError: an invalid draft or adapter.
    """
    read_by = objects.get("prefill_system", "")
    found = sharing.adapted(drafted(resolved, objects.get("draft_model", "")))
    return replace(found, prefill_system=read_by) if read_by else found


def as_calibrated(resolved: Resolved) -> Resolved:
    """A deployment with the user's own step scale, given or saved, if there is one.

    It replaces all other measured corrections, as in a simulation.  It does not depend on the
    split, so that deployments which differ in it are priced alike.
    """
    if scale := resolved.scenario.step_scale:
        return _scaled(resolved, scale, f"steps x {scale:g}, as stated")
    kept = kept_step_scale(resolved)
    return resolved if kept is None else _scaled(resolved, kept.scale, kept.sentence)


def kept_step_scale(resolved: Resolved) -> StepScale | None:
    """The user's saved step scale of a deployment's model, format, engine and system, if any."""
    return recipes.step_scale(recipe_key(resolved.engine, resolved.model, resolved.system))


def _scaled(resolved: Resolved, scale: float, sentence: str) -> Resolved:
    scales = replace(resolved.engine.recipe, tpot_scale=scale, ttft_scale=scale, points=1)
    engine = replace(resolved.engine, recipe=scales, neighbours=None, measured_on="own_few")
    return replace(resolved, engine=engine, notes=(*resolved.notes, sentence))


def served(resolved: Resolved, arrays: Mapping[str, Array] | None = None) -> ServingEstimate:
    """Serve a question's load, [loads]; a load that cannot be served has a reason code.

    arrays: loads, lengths, degrees and limits that replace the question's, [loads] each.

    Raises:
        InvalidValue: see `genz_core.serve`.
    """
    split: dict[str, Any] = {n: values for n, values in (arrays or {}).items() if n in _DEGREES}
    degrees = replace(
        resolved.scenario.parallelism, cp=1, micro_batches=0, sequence_parallel=False, **split
    )
    load = traffic(resolved, arrays)
    isl, osl, ratio = (
        (arrays or {}).get(name, getattr(resolved.scenario, name))
        for name in ("isl", "osl", "length_ratio")
    )
    if has_pool(resolved.scenario):
        if tiers_of(resolved.scenario):
            raise InvalidValue(
                "cache tiers of prefill workers are not modelled in closed form: simulate them, or "
                "leave out "
                f"{tiers_of(resolved.scenario)[0]}_cache_gib"
            )
        found = pools.served(resolved, prefill_pool(resolved), load, degrees)
    else:
        found = cache_tiers.with_tiers(
            resolved, load, (isl, osl, ratio), lambda part: _replicated(resolved, part, degrees)
        )
    return with_served_contexts(found, resolved.model, longest(resolved.scenario, isl, osl), osl)


def prefill_pool(resolved: Resolved) -> pools.Prefill:
    """The prefill workers of a question that has some, with the user's own step scale for them, if
    any, and with the drafts of the decode workers.

    Raises:
        RidgelineError: as `pools.beside`.
    """
    drafting = resolved.model if isinstance(resolved.model, SpeculativeModel) else None
    model = drafting.model if drafting else resolved.model
    deployment = deploy(model, resolved.system, resolved.profile)
    engine = told(deployment.engine, resolved.scenario, resolved.system)
    plain = replace(resolved, model=model, engine=engine)
    found = pools.beside(plain, resolved.prefill_system)
    assert found is not None
    read = as_calibrated(found.resolved)
    if drafting:
        read = replace(read, model=speculative_model(read.model, drafting.speculation))
    return replace(found, resolved=read)


def mean_device(resolved: Resolved) -> System:
    """The system of a question's replicas, with rent and design power averaged over all devices.

    The average includes prefill workers; a figure is None if any of the systems does not state it.

    Raises:
        RidgelineError: as `prefill_pool`.
    """
    own = resolved.system
    if not has_pool(resolved.scenario):
        return own
    read_by = prefill_pool(resolved).resolved.system
    readers, others = pools.devices_of(resolved.scenario)

    def mean(name: str) -> float | None:
        first, second = getattr(read_by, name), getattr(own, name)
        if first is None or second is None:
            return None
        return float((readers * first + others * second) / (readers + others))

    return replace(own, price_usd_per_hour=mean("price_usd_per_hour"), tdp_w=mean("tdp_w"))


def _replicated(resolved: Resolved, load: Traffic, degrees: Parallelism) -> ServingEstimate:
    """Serve a load with equal deployments, each with its share; the figures are totals."""
    replicas = resolved.scenario.replicas

    def one(part: Traffic) -> ServingEstimate:
        return genz_core.serve(
            resolved.model, resolved.system, part, degrees, resolved.engine, on_error="status"
        )

    if replicas == 1:
        return one(load)
    if load.concurrency is not None:
        users = UsersOfReplicas.of(load.concurrency, replicas)
        full = one(replace(load, concurrency=users.more))
        fewer = replace(load, concurrency=users.fewer)
        found = users.together(full, one(fewer) if np.any(users.others) else full)
    else:
        rate = np.asarray(load.rate_per_s, dtype=float) / replicas
        each = one(replace(load, rate_per_s=rate))
        found = replace(
            each,
            running=each.running * replicas,
            output_tokens_per_s=each.output_tokens_per_s * replicas,
        )
    return replace(
        found,
        capacity=found.capacity * replicas,
        devices=np.asarray(found.devices) * replicas,
        ranks=np.asarray(found.ranks) * replicas,
        traffic=load,
    )


def traffic(resolved: Resolved, arrays: Mapping[str, Array] | None = None) -> Traffic:
    """A question's load in the engine's types.

    arrays: see `served`.
    """
    q, arrays = resolved.scenario, arrays or {}

    loads = next((np.shape(values) for values in arrays.values()), ())

    def of(name: str) -> Any:
        return arrays.get(name, getattr(q, name))

    longest = sharing.nominal(q, of("isl"), of("osl"), of("length_ratio"))
    users = of("concurrency")
    if q.burst_start and q.requests and users is not None:
        users = np.minimum(users, q.requests)  # each sends at most one of so few requests
    return Traffic(
        isl=prompt_tokens(resolved.model, longest.isl),
        osl=longest.osl,
        concurrency=np.broadcast_to(users, loads) if q.kind == "concurrency" else None,
        rate_per_s=np.broadcast_to(of("rate"), loads) if q.kind == "rate" else None,
        pause_s=sharing.pause_s(q),
        length_ratio=longest.length_ratio,
        waves=_waves(q, users),
        stream_interval=of("stream_interval"),
        recv_interval=of("recv_interval"),
        batch_wait=of("batch_wait"),
        max_num_seqs=of("max_num_seqs"),
        max_num_batched_tokens=of("max_num_batched_tokens"),
        spill=cast(What, q.offload) or None,
        sharing=longest.sharing,
    )


def _waves(q: Question, users: Any) -> Any:
    """Requests that each user sends from a common start; 0 for a steady loop."""
    if not q.burst_start:
        return 0.0
    if not q.requests or users is None:
        return WAVES
    return np.maximum(q.requests / np.asarray(users), 1.0)


def columns(
    resolved: Resolved,
    result: ServingEstimate,
    latencies: Sequence[str] = LATENCIES,
    others: Sequence[str] = OTHERS,
    *,
    closed: bool,
) -> dict[str, Any]:
    """Figures of every load as columns [loads].

    "status", each latency followed by the ends of its 80 % interval, "not_validated" (names of
    latencies without one), the other figures, throughput with its interval; loads that cannot run
    have no interval.

    closed: whether the loads are numbers of open requests; otherwise arrivals set the throughput
    that is sustained, so both ends equal it, and what an overloaded deployment serves has no
    interval.
    """
    of = evidence(resolved, result)
    known = intervals.of_load(resolved.system, resolved.engine, of, result.novelty)
    seconds = {name: _column(result, name) for name in latencies}
    timed = intervals.beside(seconds, known, intervals.bounds_of_load(result))
    rate = _column(result, "output_tokens_per_s")
    trusted = (
        intervals.of_throughput(rate, timed)
        if closed
        else dict.fromkeys(THROUGHPUT_ENDS, np.where(result.status == "ok", rate, np.nan))
    )
    rest = {name: _column(result, name) for name in others}
    every = {
        "status": result.status,
        **timed,
        **{n: one for n, one in rest.items() if n not in _BY_KIND or not np.all(np.isnan(one))},
        **trusted,
        **_of_tiers(result),
    }
    return intervals.where_it_runs(every, result.status)


def _of_tiers(result: ServingEstimate) -> dict[str, Array]:
    """Share of the prompt tokens found on the device and in each tier, if there are tiers."""
    found = result.traffic.sharing
    if not found.below:
        return {}
    isl = np.asarray(result.traffic.isl, dtype=float)
    cached = np.asarray(found.cached_tokens) / isl * np.ones(result.status.shape)
    shares = {each.tier.name: cached * np.asarray(each.share) for each in found.below}
    device = cached - np.sum(list(shares.values()), axis=0)
    return {f"{name}_hit_share": one for name, one in {"device": device, **shares}.items()}


def figures_of(resolved: Resolved, result: ServingEstimate, *, closed: bool) -> dict[str, Any]:
    """All figures of every load as columns [loads]: `columns`, devices, bounds, cost, memory.

    Cost and energy are computed when they are read: of a model that generates nothing, those of the
    tokens that it reads.  closed: see `columns`.
    """
    figures = columns(resolved, result, closed=closed)

    @cache
    def costs() -> dict[str, Any]:
        load = result.traffic
        read = real_lengths(Workload(1.0, load.isl, load.osl), load.length_ratio).isl
        each = 1.0 if generates(resolved.model) else np.asarray(read, dtype=float)
        billed = {n: each * figures[n] for n in ("output_tokens_per_s", *THROUGHPUT_ENDS)}
        found = intervals.token_costs(mean_device(resolved), result.devices, billed)
        return intervals.where_it_runs(found, result.status)

    return {
        "devices": np.broadcast_to(result.devices, result.status.shape).astype(int),
        **figures,
        "bound_ttft_s": result.bound_prefill_s,
        "bound_tpot_s": result.bound_tpot_s,
        **later(intervals.COST_COLUMNS, costs),
        "memory_bytes_per_device": result.memory_bytes,
    }


def table(
    resolved: Resolved,
    result: ServingEstimate,
    load: str,
    values: Array,
) -> Table:
    """One row per load, as `ridgeline serve` prints them: the load, the figures, a message.

    load: "concurrency" or "rate".  values: of the load, [loads].
    """
    figures = figures_of(resolved, result, closed=load == "concurrency")
    priced = {
        "model": resolved.model.name,
        "system": resolved.system.slug,
        "engine": resolved.engine.name,
        "devices": figures["devices"],
        load: np.asarray(values, dtype=float if load == "rate" else int),
        **figures,
        "message": partial(sentences, resolved, result, load),
    }
    return Table(of_kind(resolved.model, priced), len(result.status))


def evidence(resolved: Resolved, result: ServingEstimate) -> Evidence:
    """What of the loads of a question was measured."""
    beyond = sharing.unmeasured(resolved.scenario)
    return comparison.of_served(result, resolved.engine.name, resolved.model, beyond)


def sentences(resolved: Resolved, result: ServingEstimate, load: str) -> NDArray[np.object_]:
    """The sentences of every row; in a closed loop also why users wait, [rows].

    load: see `table`.
    """
    of = evidence(resolved, result)
    said = messages(resolved, result, [*resolved.notes, basis(resolved)], of)
    if load != "concurrency":
        return said
    waiting = waiting_users(resolved, result)
    for at in np.flatnonzero(waiting != ""):
        said[at] = "; ".join(filter(None, (waiting[at], said[at])))
    return said


def _column(result: ServingEstimate, name: str) -> Array:
    values = np.asarray(getattr(result, name), dtype=float)
    return np.broadcast_to(values, result.status.shape)
