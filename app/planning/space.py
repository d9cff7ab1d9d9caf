"""The deployments to try: degrees that split a model, replicas, limits of a batch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from app.planning.demand import Demand
from app.scenario.drafting import Drafting
from app.scenario.load_options import OFFLOADS
from app.scenario.scenario import SystemSource
from genz_core.adapters import Adapters
from genz_core.errors import InvalidValue
from genz_core.limits import LIMITS, checked_size
from genz_core.memo import ByIdentity
from genz_core.types import Array, Model, Parallelism, Step, System

_DEGREES = ("tp", "pp", "dp", "ep")
#: Pipeline stages that are tried unless said.
_STAGES = (1, 2, 4)
_MOST_DEVICES = 4096
#: Limits of a batch that are tried where users wait for their answers.
_LIMITS = (4, 16, 64, 256, 1024)
KINDS = ("aggregated", "disaggregated")
#: Engines that are tried unless said, by the vendor of a system; others have the generic one.
ENGINES: Mapping[str, tuple[str, ...]] = {
    "nvidia": ("vllm", "sglang", "trtllm"),
    "amd": ("vllm", "sglang"),
}


@dataclass(frozen=True, slots=True)
class Space:
    """What may be chosen; empty tuples are "all that can be".

    systems: names, files or objects.  engines: names; empty for those that run on a system.
    weights, kv: number formats, "" for the checkpoint's.  devices: least and most of the whole
    deployment.  tp, pp, dp, ep: degrees of a replica.  max_num_seqs: sequences of a rank's batch
    at most, 0 for the engine's own limit.  kinds: of `KINDS`.  drafting: ways to speculate, beside
    none.  adapters: LoRA adapters of the requests.  offload: what the host may hold, "weights",
    "kv" or "experts", tried beside nothing.  prices: rent of a device [USD per hour] by the name in
    `systems`.
    cross_systems: whether the pools of a disaggregated deployment may be of two systems.

    Raises:
        InvalidValue: no system, a range or a degree that cannot be, or an unknown kind.
    """

    systems: tuple[SystemSource | System, ...]
    engines: tuple[str, ...] = ()
    weights: tuple[str, ...] = ("",)
    kv: tuple[str, ...] = ("",)
    devices: tuple[int, int] = (1, 8)
    tp: tuple[int, ...] = ()
    pp: tuple[int, ...] = ()
    dp: tuple[int, ...] = ()
    ep: tuple[int, ...] = ()
    max_num_seqs: tuple[int, ...] = ()
    kinds: tuple[str, ...] = KINDS
    drafting: tuple[Drafting, ...] = ()
    adapters: Adapters | None = None
    offload: tuple[str, ...] = ()
    prices: Mapping[str, float] = field(default_factory=dict)
    cross_systems: bool = False

    def __post_init__(self) -> None:
        if not self.systems:
            raise InvalidValue("name at least one system")
        least, most = self.devices
        if not 1 <= least <= most <= _MOST_DEVICES:
            raise InvalidValue(
                f"devices {least}:{most}: give the least and the most, 1 to {_MOST_DEVICES:,}, as "
                '"1:64"'
            )
        for name in _DEGREES:
            for degree in getattr(self, name):
                checked_size(name, degree)
        for limit in self.max_num_seqs:
            if limit:
                checked_size("batch", limit, "max_num_seqs")
        wrong = [kind for kind in self.kinds if kind not in KINDS]
        if wrong or not self.kinds:
            raise InvalidValue(f"kind {wrong[0] if wrong else ''!r}: choose {' or '.join(KINDS)}")
        for what in self.offload:
            if what not in OFFLOADS:
                raise InvalidValue(f"offload {what!r}: choose {', '.join(OFFLOADS)}")
        for name, price in self.prices.items():
            if not 0.0 < price < math.inf:
                raise InvalidValue(f"price of {name}: give US dollars per hour above 0")


def has_experts(model: Model) -> bool:
    """Whether a model's experts can be spread over attention ranks."""
    return _EXPERTS.get(lambda: _has_experts(model), model)


_EXPERTS: ByIdentity[bool] = ByIdentity()


def _has_experts(model: Model) -> bool:
    graph = model.graph(Step.decode(1.0, 1.0), Parallelism())
    return any(op.operator_class == "moe" for op in graph.ops)


def reach(system: System) -> float:
    """Devices that the links of a system connect at most: 1 without any, infinite without end."""
    domains = [math.inf if link.domain == 0 else link.domain for link in system.links]
    return max([1.0, *domains])


def shapes(model: Model, system: System, space: Space, engine: str = "") -> Array:
    """Degrees of a replica that split the model and that the links reach, [4, shapes].

    Rows: tp, pp, dp, ep.  Attention ranks (dp) stand beside each other in a model with experts
    only: without them each is a replica.  Tensor parallel ranks stay within the nearest link's
    domain unless degrees were asked for.  engine: whose options have to be able to say them.
    """
    most = int(min(space.devices[1], reach(system)))
    nearest = system.links[0].domain or most if system.links else 1
    doubled = _doublings(most)
    experts = has_experts(model)
    tp = space.tp or tuple(degree for degree in doubled if degree <= nearest)
    pp = space.pp or tuple(degree for degree in _STAGES if degree <= most)
    dp = space.dp or (doubled if experts else (1,))
    rows = [
        (t, p, d, e)
        for t in dict.fromkeys(tp)
        for p in dict.fromkeys(pp)
        for d in dict.fromkeys(dp)
        if t * p * d <= most
        for e in _expert_degrees(space, t * d, experts)
    ]
    sayable = (row for row in rows if can_be_told(engine, *row))
    sound = [row for row in sayable if model.invalid(Parallelism(*row)) is None]
    return np.array(sound, dtype=float).reshape(len(sound), 4).T


def can_be_told(engine: str, tp: int, pp: int, dp: int, ep: int) -> bool:
    """Whether an engine's options can say the degrees; see `engine_flags.yaml` for their sources.

    TensorRT-LLM's attention ranks are single devices (`enable_attention_dp`); vLLM spreads experts
    over all ranks of a replica or over none (`--enable-expert-parallel`).
    """
    if engine == "trtllm":
        return dp == 1 or tp == 1
    return engine != "vllm" or ep in (1, tp * dp)


def _expert_degrees(space: Space, ranks: int, experts: bool) -> tuple[int, ...]:
    """Expert degrees to try: as asked; none and all ranks with experts, else 1."""
    if not experts:
        return (1,)
    asked = tuple(dict.fromkeys(space.ep)) or (1, ranks)
    return tuple(degree for degree in dict.fromkeys(asked) if ranks % degree == 0)


def _doublings(most: int) -> tuple[int, ...]:
    return tuple(2**at for at in range(max(most, 1).bit_length()))


def batch_limits(space: Space, demand: Demand, *, spills: bool = False) -> tuple[int, ...]:
    """Limits of a rank's batch to try, 0 for the engine's own.

    At a rate as many run as keep up with it, so that a limit only refuses; where users wait for
    their answer, fewer at once are faster.  spills: a limit decides what has to lie on the host.
    """
    if space.max_num_seqs:
        return tuple(dict.fromkeys(space.max_num_seqs))
    if not demand.closed:
        return (0, *_LIMITS) if spills else (0,)
    return (0, *(limit for limit in _doublings(demand.concurrency) if limit >= 4))


def replicated(
    degrees: Array, space: Space, demand: Demand, limits: Sequence[int] | None = None
) -> Array:
    """Every shape at every number of replicas, [7, deployments].

    Rows: tp, pp, dp, ep, devices of a replica, replicas, max_num_seqs.  No replica is without a
    user.  limits: of a batch, by default those of `batch_limits`.
    """
    limits = batch_limits(space, demand) if limits is None else limits
    each = degrees[0] * degrees[1] * degrees[2]
    least, most = space.devices
    columns = []
    for at, size in enumerate(each):
        first, last = math.ceil(least / size), math.floor(most / size)
        if demand.closed:
            last = min(last, demand.concurrency)
        replicas = np.arange(max(first, 1), last + 1, dtype=float)
        for limit in limits:
            users = np.ceil(demand.concurrency / np.maximum(replicas, 1.0)) / degrees[2, at]
            kept = replicas if not limit or not demand.closed else replicas[users > limit]
            block = np.repeat([[*degrees[:, at], size, 0.0, limit]], len(kept), axis=0).T
            block[5] = kept
            columns.append(block)
    table = np.concatenate(columns, axis=1) if columns else np.zeros((7, 0))
    if table.shape[1] > (limit := LIMITS["cells"].most):
        raise InvalidValue(f"{table.shape[1]:,} deployments; at most {limit:,} are priced at once")
    return table
