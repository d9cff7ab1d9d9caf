"""Deployments with a separate prefill pool: every pair of worker shapes and counts of two
families.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from app.planning import aggregated, demand
from app.planning.candidates import CHOICES, COLUMNS, Candidates, economy_columns, latency_columns
from app.planning.families import Family, asking_for
from app.planning.space import DEGREES, choices, devices, shapes, split, why_no_shape
from app.question.query import Query
from app.question.question import Question
from app.question.validity import tiers_of
from app.scenario import sharing
from app.scenario.drafting import drafted
from app.scenario.pools import stated_link
from app.scenario.scenario import Resolved
from app.scenario.served_rows import traffic
from genz_core.deployment import Deployment
from genz_core.engine import EngineProfile
from genz_core.errors import InvalidValue, MissingSpec
from genz_core.limits import LIMITS
from genz_core.models.model_kinds import prompt_tokens
from genz_core.models.speculative import steps_per_token
from genz_core.serving.disaggregation import ServingPool
from genz_core.serving.kv_capacity import sequences_that_fit
from genz_core.serving.pools.load import PooledLoad, pooled_load
from genz_core.serving.pools.pools_question import Combinations, Habits, Learned
from genz_core.serving.pools.workers import (
    DecodeWorkers,
    PrefillWorkers,
    decode_workers,
    prefill_workers,
)
from genz_core.serving.series import before_a_prompt_s, correction_of
from genz_core.serving.traffic import OVERLOADED, after_first, between_tokens
from genz_core.steps.step_correction import StepCorrection
from genz_core.systems import System
from genz_core.types import Array, Workload
from genz_core.workload import OUT_OF_MEMORY

#: Numbers of users within this factor share one correction from measured runs.
_NEAR = 1.15
#: Relative difference of TTFT and TPOT below which more workers gain nothing: judgement.
_GAIN = 0.01


def pairs(found: Sequence[Family], query: Query) -> Iterator[Family]:
    """Families with a separate prefill pool: one engine and one cache format for both pools.

    Both pools use one system unless `cross_systems` is set.  If decode workers use a draft model,
    prefill workers also fill the draft's cache.
    """
    decoding = [family for family in found if not family.spill]
    plain = [family for family in decoding if family.speculation is None]
    for first, second in product(plain, decoding):
        same_engine = first.resolved.engine.name == second.resolved.engine.name
        same_cache = first.resolved.model.precision.kv == second.resolved.model.precision.kv
        same_system = first.system.slug == second.system.slug
        copies = {one.copies for one in (first, second)}
        if (
            same_engine
            and same_cache
            and len(copies) == 1
            and (same_system or query.question.cross_systems)
        ):
            yield replace(second, kind="disaggregated", prefill=_reading(first, second, query))


def _reading(first: Family, second: Family, query: Query) -> Resolved:
    """The prefill workers for the decode workers of `second`: with its draft model, if any, and
    without copies of experts, see `app.scenario.pools`.
    """
    once = asking_for(first.resolved, redundant_experts=0)
    if second.speculation is None:
        return once
    q = second.question
    same = {name: getattr(q, name) for name in ("speculation", "draft_tokens", "acceptance")}
    named = asking_for(once, draft_model=q.draft_model, **same)
    return drafted(named, query.objects.get("draft_model", "") if q.draft_model else "")


def price(family: Family, query: Query) -> Candidates:
    """Candidates of a disaggregated family under the load of a question.

    Raises:
        RidgelineError: a system states no figure that an operator needs.
    """
    assert family.prefill is not None
    if not decodes(family):
        return aggregated.empty(family)
    if family.speculation is not None and sharing.branches(family.question) > 1:
        raise InvalidValue("speculative decoding with several outputs per prompt is not modelled")
    told = query, family.resolved.engine.name
    decode = _one_stage(shapes(family.resolved.model, family.system, *told, family.copies), query)
    prefill = _of_prefill(shapes(family.prefill.model, family.prefill.system, *told, 0), query)
    prefill, decode = _held(family.prefill, prefill), _held(family.resolved, decode)
    table = numbers_of_workers(prefill, decode, query.question)
    if not table.shape[1]:
        return aggregated.empty(family)
    priced = of_table(family, prefill, decode, table)
    return priced.picked(_gaining(priced, table))


def _gaining(priced: Candidates, table: Array) -> NDArray[np.bool_]:
    """The deployments whose workers gain something: where one with fewer workers of a pool has the
    same latencies within `_GAIN`, only the fewest stay.

    table: of `numbers_of_workers`, fewest workers of each pair of shapes first.
    """
    runs = priced.status == "ok"
    figures = np.stack([priced.columns["ttft_s"], priced.columns["tpot_s"]])
    same = np.floor(np.log(np.where(runs, figures, 1.0)) / _GAIN)
    kept = np.full(len(priced), True)
    for pool in (2, 3):
        alike = np.concatenate([np.delete(table, pool, axis=0), same])
        fewest = np.unique(alike[:, runs], axis=1, return_index=True)[1]
        stays = ~runs
        stays[np.flatnonzero(runs)[fewest]] = True
        kept &= stays
    return kept


def decodes(family: Family) -> bool:
    """Whether answers are longer than the token that ends the prompt."""
    return demand.lengths(family.question).output > 1.0


def why_empty(family: Family, query: Query) -> str:
    """Why a family without candidates has none."""
    if family.prefill is not None and not decodes(family):
        return "an output of one token needs no decode steps"
    if reason := why_no_shape(family.resolved.model, query, family.resolved.engine.name):
        return reason
    if family.prefill is None:
        return "the model cannot be split over so few devices"
    return "too few devices: a worker of each pool has to hold the model"


def _held(resolved: Resolved, degrees: Array) -> Array:
    """Indices of shapes whose workers hold the weights and one sequence."""
    if not degrees.shape[1]:
        return degrees
    lengths = demand.lengths(resolved.scenario)
    load = Workload(1.0, prompt_tokens(resolved.model, lengths.prompt), lengths.output)
    shape = split(resolved.scenario, *degrees)
    deployed = (resolved.model, resolved.system, load, shape, _told(resolved))
    return degrees[:, sequences_that_fit(*deployed, lengths.sharing)[1] >= 1.0]


def _one_stage(degrees: Array, query: Query) -> Array:
    """Worker shapes of a pool: without pipeline stages unless they were requested."""
    return degrees[:, (degrees[1] == 1.0) | bool(choices(query, "pp"))]


def _of_prefill(degrees: Array, query: Query) -> Array:
    """Prefill worker shapes: one stage and one attention rank unless more were requested."""
    kept = _one_stage(degrees, query)
    return kept[:, (kept[2] == 1.0) | bool(choices(query, "dp"))]


def numbers_of_workers(prefill: Array, decode: Array, question: Question) -> Array:
    """Every pair of shapes with every number of workers of each, [4, deployments].

    Rows: index of the prefill and of the decode shape, number of prefill and of decode workers.

    Raises:
        InvalidValue: more combinations than can be priced at once.
    """
    least, most = devices(question)
    columns = []
    sizes = [degrees[0] * degrees[1] * degrees[2] for degrees in (prefill, decode)]
    _refuse_too_many(sizes, most)
    for i, j in product(range(sizes[0].size), range(sizes[1].size)):
        readers = np.arange(1.0, most // sizes[0][i] + 1.0)
        writers = np.arange(1.0, most // sizes[1][j] + 1.0)
        grid = np.array(np.meshgrid(readers, writers, indexing="ij")).reshape(2, -1)
        total = grid[0] * sizes[0][i] + grid[1] * sizes[1][j]
        kept = grid[:, (total >= least) & (total <= most)]
        columns.append(np.concatenate([np.full((1, kept.shape[1]), i, float),
                                       np.full((1, kept.shape[1]), j, float), kept]))  # fmt: skip
    return np.concatenate(columns, axis=1) if columns else np.zeros((4, 0))


def _refuse_too_many(sizes: Sequence[Array], most: int) -> None:
    readers = np.arange(1.0, most + 1.0)[:, None, None] * sizes[0][None, :, None]
    writers = np.maximum((most - readers) // sizes[1][None, None, :], 0.0)
    if (count := int(writers.sum())) > (limit := LIMITS["cells"].most):
        raise InvalidValue(
            f"{count:,} deployments with a separate prefill pool, more than the {limit:,} that one "
            "plan may have: give fewer devices or parallelism degrees"
        )


def of_table(family: Family, prefill: Array, decode: Array, table: Array) -> Candidates:
    """Candidates from rows in the form of `numbers_of_workers`.

    prefill, decode: degrees of the shapes, [4, shapes].
    """
    assert family.prefill is not None
    question, lengths = family.question, demand.lengths(family.question)
    _refuse(question)
    isl, osl = float(prompt_tokens(family.resolved.model, lengths.prompt)), lengths.output
    reader, writer = _deployment(family.prefill), _deployment(family.resolved)
    once = split(family.prefill.scenario, *prefill)
    readers = prefill_workers(reader, once, isl, lengths.cached)
    steps = (osl - 1.0) * float(steps_per_token(family.resolved.model, osl))
    writers = decode_workers(writer, split(question, *decode), isl, osl, steps, lengths.sharing)
    first, second = table[0].astype(np.intp), table[1].astype(np.intp)
    each = [d[0] * d[1] * d[2] for d in (prefill, decode)]
    counts = (table[2] * each[0][first], table[3] * each[1][second])
    cache = np.maximum(readers.cache_bytes[first], writers.cache_bytes[second])
    busy, latency = _link(family.prefill.system, family.system, counts[0] + counts[1], cache)
    which = Combinations(first, second, table[2], table[3], busy, latency)
    pools = _Pools(family, (reader, writer), (prefill, decode), which)
    habits = Habits(
        late_steps=(question.stream_interval - 1.0) * writer.engine.held_share,
        look_every=question.recv_interval,
    )

    def balanced(learned: Learned) -> PooledLoad:
        return pooled_load(
            readers, writers, which, osl, learned=learned, habits=habits,
            rate_per_s=float(question.rate or 0.0),
            concurrency=float(question.concurrency or 0.0),
            pause_s=sharing.pause_s(question),
        )  # fmt: skip

    before_s = pools.before_s()
    load = balanced(pools.learned(pools.users(osl, balanced, before_s), before_s))
    return _candidates(family, (prefill, decode), which, (readers, writers), load, counts)


def _refuse(question: Question) -> None:
    """Refuse options that are not priced with prefill workers."""
    if tiers := tiers_of(question):
        raise InvalidValue("cache tiers of prefill workers are not modelled in closed form: "
                           f"simulate them, or leave out {tiers[0]}_cache_gib")  # fmt: skip
    if question.batch_wait:
        raise InvalidValue("batch_wait is not modelled with a prefill pool: leave it out")


@dataclass(frozen=True, slots=True)
class _Pools:
    """Both pools of a family's deployments.

    deployed: the deployment of one worker of each; degrees: of the shapes of each, [4, shapes].
    """

    family: Family
    deployed: tuple[Deployment, Deployment]
    degrees: tuple[Array, Array]
    which: Combinations

    def users(
        self, osl: float, balanced: Callable[[Learned], PooledLoad], before_s: Array
    ) -> Array:
        """Open requests per decode worker, [deployments].

        At a rate, and where users pause, they follow from Little's law, with uncorrected step
        times, accurate to a few per cent.
        """
        question, workers = self.family.question, self.which.decode_workers
        if question.concurrency and not question.think_s:
            return np.maximum(np.floor(question.concurrency / workers), 1.0)
        found = balanced(Learned.nothing(workers.size, before_s))
        first = np.where(np.isfinite(found.ttft_s), found.ttft_s, 0.0)
        served = np.minimum(found.requests_per_s, found.most_per_s)
        users = served * (first + after_first(found.tpot_s, osl)) / workers
        near = _NEAR ** np.round(np.log(np.maximum(users, 1.0)) / np.log(_NEAR))
        return np.maximum(np.round(near), 1.0)

    def learned(self, users: Array, before_s: Array) -> Learned:
        """Corrections from measured runs for the steps of both pools.  users: per decode worker."""
        first, later = (
            self._correction(at, shape, users)
            for at, shape in enumerate((self.which.prefill, self.which.decode))
        )
        return Learned(first, later, before_s)

    def _correction(self, pool: int, shape: NDArray[np.intp], users: Array) -> StepCorrection:
        rows, of = np.unique(np.stack([shape, users]), axis=1, return_inverse=True)
        workers = self._workers(pool, self.degrees[pool][:, rows[0].astype(np.intp)])
        return correction_of(workers, traffic(self.family.resolved), rows[1]).picked(of.ravel())

    def before_s(self) -> Array:
        """Time outside the steps before a prompt is read [s], [deployments]."""
        workers = self._workers(0, self.degrees[0])
        return before_a_prompt_s(workers, traffic(self.family.resolved))[self.which.prefill]

    def _workers(self, pool: int, degrees: Array) -> ServingPool:
        resolved = self.family.resolved if pool else self.family.prefill
        assert resolved is not None
        return ServingPool(self.deployed[pool], split(resolved.scenario, *degrees))


def _deployment(resolved: Resolved) -> Deployment:
    return Deployment(resolved.model, resolved.system, _told(resolved))


def _told(resolved: Resolved) -> EngineProfile:
    """The engine of a worker with the step limits given by the question."""
    q, engine = resolved.scenario, resolved.engine
    return replace(
        engine,
        max_sequences=q.max_num_seqs or engine.max_sequences,
        chunk_tokens=q.max_num_batched_tokens or engine.chunk_tokens,
    )


def _link(prefill: System, decode: System, devices: Array, cache: Array) -> tuple[Array, Array]:
    """Time that a prompt's cache occupies the link between the pools, and the link's latency [s];
    NaN if the systems state no link that connects both pools.
    """
    seconds, latency = np.full(devices.shape, np.nan), np.full(devices.shape, np.nan)
    for count in np.unique(devices):
        try:
            link = stated_link(prefill, decode, int(count))
        except MissingSpec:
            continue
        at = devices == count
        seconds[at], latency[at] = cache[at] / link.bytes_per_s, link.latency_s
    return seconds, latency


def _candidates(
    family: Family,
    degrees: tuple[Array, Array],
    which: Combinations,
    workers: tuple[PrefillWorkers, DecodeWorkers],
    load: PooledLoad,
    counts: tuple[Array, Array],
) -> Candidates:
    assert family.prefill is not None
    writers = workers[1]
    size, gaps = which.prefill.size, demand.lengths(family.question).output - 1.0
    columns: dict[str, Array] = {name: np.full(size, np.nan) for name in COLUMNS}
    columns |= {name: np.zeros(size) for name in CHOICES}
    columns |= {name: degrees[1][row][which.decode] for row, name in enumerate(DEGREES)}
    columns |= {
        f"prefill_{name}": degrees[0][row][which.prefill] for row, name in enumerate(DEGREES)
    }
    columns |= {"replicas": which.decode_workers, "prefill_workers": which.prefill_workers}
    alone = load.prefill_s + load.travel_s
    columns |= latency_columns(load.ttft_s, load.ttft_median_s, alone, load.tpot_s, family.question)
    used = [(family.prefill.system, counts[0]), (family.system, counts[1])]
    columns |= economy_columns(used, load.requests_per_s, family.question)
    engine = _told(family.resolved)
    columns |= {
        "max_num_seqs": np.full(size, float(engine.max_sequences)),
        "utilisation": load.use,
        "running": load.running * which.decode_workers,
        "capacity": writers.most_running[which.decode] * which.decode_workers,
        "memory_bytes": writers.memory_bytes[which.decode],
        "usable_bytes": np.full(size, family.system.memory_bytes * engine.memory_fraction),
        "offloaded_bytes": np.zeros(size),
        "bound_ttft_s": load.bound_prefill_s,
        "bound_tpot_s": between_tokens(
            load.bound_step_s * writers.steps / max(gaps, 1.0), 1.0 + gaps
        ),
        "isl": np.full(size, float(family.question.isl)),
        "osl": np.full(size, float(family.question.osl)),
    }
    status, messages = _statuses(which, workers, load)
    return Candidates((family,), np.zeros(size, dtype=np.intp), columns, status, messages)


def _statuses(
    which: Combinations, workers: tuple[PrefillWorkers, DecodeWorkers], load: PooledLoad
) -> tuple[np.ndarray, dict[int, str]]:
    """Reason codes, and one sentence per code, stored with its last deployment."""
    readers, writers = workers
    fits = readers.fits[which.prefill] & writers.fits[which.decode]
    status = np.full(which.prefill.size, "ok", dtype="U24")
    status[np.isnan(which.busy_s)] = "missing_spec"
    status[~(load.use < 1.0) & (status == "ok")] = OVERLOADED
    status[~fits] = OUT_OF_MEMORY
    sentences = {
        "missing_spec": "no known link of the systems reaches both pools",
        OVERLOADED: "the slower pool does not sustain the load",
        OUT_OF_MEMORY: "in one pool, a worker cannot hold the weights and one sequence",
    }
    messages = {
        int(np.flatnonzero(status == code)[-1]): words
        for code, words in sentences.items()
        if (status == code).any()
    }
    return status, messages
