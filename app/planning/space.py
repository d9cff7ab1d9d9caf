"""The deployments to try: degrees that split a model, replicas, limits of a batch."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from app.planning import demand
from app.question.parameters import PARAMETERS
from app.question.query import Query
from app.question.question import Question
from app.scenario.gate import experts_of
from app.scenario.known_systems import SystemSource
from genz_core.errors import InvalidValue
from genz_core.graphs import Model
from genz_core.limits import LIMITS, brief
from genz_core.systems import System
from genz_core.types import Array, Parallelism

#: Degrees of a replica that a search chooses, the rows of its tables.
DEGREES = ("tp", "pp", "dp", "ep")
#: Pipeline stages that are tried unless said.
_STAGES = (1, 2, 4)
_MOST_DEVICES = 4096
_MOST_SYSTEMS = 64
#: Batch limits that are tried in a closed loop.
_LIMITS = (4, 16, 64, 256, 1024)
#: Accepted values of `pools`.
KINDS = PARAMETERS["pools"].choices
_CHECKPOINT = ("", "checkpoint", "auto")


def choices(query: Query, name: str) -> tuple[Any, ...]:
    """Values of a parameter to choose among: several, the given one, or () for all."""
    if name in query.several:
        return tuple(dict.fromkeys(query.several[name]))
    value = getattr(query.question, name)
    return (value,) if name in query.given and value not in ("", None) else ()


def systems(query: Query) -> tuple[SystemSource | System, ...]:
    """Systems to try: names, files or objects.

    Raises:
        InvalidValue: more than can be tried.
    """
    found = query.several.get("system", (query.named("system"),))
    if len(found) > _MOST_SYSTEMS:
        raise InvalidValue(f"{len(found)} systems: give at most {_MOST_SYSTEMS}")
    return tuple(found)


def formats(query: Query, name: str) -> tuple[str, ...]:
    """Number formats of "weights" or "kv" to try, "" for the checkpoint's."""
    named = choices(query, name) or ("",)
    return tuple(dict.fromkeys("" if one in _CHECKPOINT else one for one in named))


def devices(question: Question) -> tuple[int, int]:
    """Least and most devices of the whole deployment, from 8, "8", "1:64" or a pair.

    Raises:
        InvalidValue: anything else.
    """
    given = question.devices
    ends = given.split(":") if isinstance(given, str) else np.ravel(given).tolist()
    try:
        numbers = [int(end) for end in ends]
    except (TypeError, ValueError):
        numbers = []
    if not 1 <= len(numbers) <= 2 or not 1 <= numbers[0] <= numbers[-1] <= _MOST_DEVICES:
        raise InvalidValue(
            f"devices = {brief(given)}: give the minimum and the maximum, 1 to "
            f'{_MOST_DEVICES:,}, as "1:64", or one number'
        )
    return numbers[0], numbers[-1]


def kinds(question: Question) -> tuple[str, ...]:
    """Kinds of deployments to try, of `KINDS`."""
    return tuple(question.pools) or KINDS


def reach(system: System) -> float:
    """Most devices that the links of a system connect: 1 without links, infinite without
    a limit.
    """
    domains = [math.inf if link.domain == 0 else link.domain for link in system.links]
    return max([1.0, *domains])


def shapes(
    model: Model, system: System, query: Query, engine: str = "", copies: int | None = None
) -> Array:
    """Degrees of a replica that split the model and that the links reach, [4, shapes].

    Rows: tp, pp, dp, ep.  Attention ranks (dp) are used only in a model with experts; in others
    each would be a replica.  Tensor parallel ranks stay within the nearest link's domain unless
    degrees are given.  engine: its options must be able to express the degrees.
    copies: redundant experts, by default those of the question; degrees that divide experts plus
    copies are included.
    """
    question = query.question
    question = question if copies is None else replace(question, redundant_experts=copies)
    most = int(min(devices(question)[1], reach(system)))
    nearest = system.links[0].domain or most if system.links else 1
    rows = _degrees(query, experts_of(model), int(question.redundant_experts), most, nearest)
    sayable = (row for row in rows if can_be_told(engine, *row))
    sound = [row for row in sayable if model.invalid(split(question, *row)) is None]
    return np.array(sound, dtype=float).reshape(len(sound), 4).T


def most_shapes(experts: int, query: Query) -> int:
    """At most so many `shapes` has a model with that number of experts, on any system."""
    most = devices(query.question)[1]
    return len(_degrees(query, experts, int(query.question.redundant_experts), most, most))


def _degrees(
    query: Query, experts: int, copies: int, most: int, nearest: int
) -> list[tuple[int, int, int, int]]:
    """Every tp, pp, dp, ep of at most so many devices, with tp within the nearest link's domain."""
    doubled, slots = _doublings(most), experts + copies
    tp = choices(query, "tp") or tuple(degree for degree in doubled if degree <= nearest)
    pp = choices(query, "pp") or tuple(degree for degree in _STAGES if degree <= most)
    dp = choices(query, "dp") or (doubled if experts else (1,))
    named = bool(choices(query, "ep"))
    return [
        (t, p, d, e)
        for t in tp
        for p in pp
        for d in dp
        if t * p * d <= most
        for e in _expert_degrees(query, t * d, bool(experts))
        if named or slots % e == 0  # redundant experts are added only if the user chooses them
    ]


def why_no_shape(model: Model, query: Query, engine: str = "") -> str:
    """Why no replica can have the stated degrees, "" if some can: the model's reason against the
    largest replica, or that the engine's options cannot express them.
    """
    most = devices(query.question)[1]
    tried = [choices(query, name) or (1,) for name in DEGREES]
    tried[0] = choices(query, "tp") or _doublings(most)
    rows = [row for row in product(*tried) if math.prod(row[:3]) <= most]
    reasons = {row: model.invalid(split(query.question, *row)) for row in rows}
    if rows and all(reasons.values()):
        return reasons[rows[-1]] or ""
    sayable = any(can_be_told(engine, *row) for row in rows if not reasons[row])
    return "" if sayable or not rows else f"{engine} has no options for these degrees"


def split(question: Question, tp: Any, pp: Any, dp: Any, ep: Any) -> Parallelism:
    """Degrees of a replica, numbers or arrays, with the other parallelism fields of the
    question.
    """
    own = replace(question.parallelism, cp=1, micro_batches=0, sequence_parallel=False)
    return replace(own, tp=tp, pp=pp, dp=dp, ep=ep)


def can_be_told(engine: str, tp: int, pp: int, dp: int, ep: int) -> bool:
    """Whether an engine's options can express the degrees; see `engine_flags.yaml` for sources.

    TensorRT-LLM's attention ranks are single devices (`enable_attention_dp`); vLLM spreads experts
    over all ranks of a replica or over none (`--enable-expert-parallel`).
    """
    if engine == "trtllm":
        return dp == 1 or tp == 1
    return engine != "vllm" or ep in (1, tp * dp)


def _expert_degrees(query: Query, ranks: int, experts: bool) -> tuple[int, ...]:
    """Expert degrees to try: as given, or as `moe_tp` implies; otherwise none and all ranks."""
    if not experts:
        return (1,)
    held = query.question.moe_tp
    if held is not None:
        return (ranks // held,) if ranks % held == 0 else ()
    named = choices(query, "ep") or (1, ranks)
    return tuple(degree for degree in dict.fromkeys(named) if ranks % degree == 0)


def _doublings(most: int) -> tuple[int, ...]:
    return tuple(2**at for at in range(max(most, 1).bit_length()))


def batch_limits(query: Query, *, spills: bool = False) -> tuple[int, ...]:
    """Limits of a rank's batch to try, 0 for the engine's own.

    At an arrival rate, a limit could only refuse requests; in a closed loop, fewer running requests
    are faster.  spills: the limit decides what has to be offloaded to the host.
    """
    if named := choices(query, "max_num_seqs"):
        return named
    if not demand.is_closed(query.question):
        return (0, *_LIMITS) if spills else (0,)
    users = int(demand.amount(query.question))
    return (0, *(limit for limit in _doublings(users) if limit >= 4))


def replicated(degrees: Array, query: Query, limits: Sequence[int] | None = None) -> Array:
    """Every shape at every number of replicas, [7, deployments].

    Rows: tp, pp, dp, ep, devices of a replica, replicas, max_num_seqs.  Every replica has at least
    one user.  limits: of a batch, by default those of `batch_limits`.
    """
    limits = batch_limits(query) if limits is None else limits
    closed, users = demand.is_closed(query.question), demand.amount(query.question)
    each = degrees[0] * degrees[1] * degrees[2]
    least, most = devices(query.question)
    columns = []
    for at, size in enumerate(each):
        first, last = math.ceil(least / size), math.floor(most / size)
        if closed:
            last = min(last, int(users))
        replicas = np.arange(max(first, 1), last + 1, dtype=float)
        for limit in limits:
            share = np.ceil(users / np.maximum(replicas, 1.0)) / degrees[2, at]
            binds = share > limit if limit and closed and 0 in limits else replicas > 0
            kept = replicas[binds]
            block = np.repeat([[*degrees[:, at], size, 0.0, limit]], len(kept), axis=0).T
            block[5] = kept
            columns.append(block)
    table = np.concatenate(columns, axis=1) if columns else np.zeros((7, 0))
    if table.shape[1] > (limit := LIMITS["cells"].most):
        raise InvalidValue(f"{table.shape[1]:,} deployments; at most {limit:,} are priced at once")
    return table
