"""What of a priced configuration was measured: categories that nobody measured, distances.

A *category* is a choice that is on or off (context parallelism, an overlap, an int4 cache).  One
that no measured run had gives a prediction no interval.  A *number* (users, lengths, degrees)
beyond the measured range keeps an interval, which widens with the distance from that range.

Categories and ranges come from `hardware_db/engines/measured.csv`, which `app.engine_fit` counts in
the measurements that ship, by kind of load: a degree that was measured under load may not have been
in a static batch.  A number format counts as measured if either kind had it, because the same
kernels run in both; where this engine had it not under this kind of load, the interval is that of
an engine that nobody measured there.  A parameter that the table does not have is unmeasured.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from genz_core import Estimate
from genz_core.memo import ByIdentity
from genz_core.model_kinds import model_kind
from genz_core.precision import FORMATS, arithmetic, bytes_of
from genz_core.serving import ServingEstimate, Traffic
from genz_core.speculative import SpeculativeModel
from genz_core.types import Array, Mask, Model, Num, Parallelism, Step
from hardware_db.intervals import Kind
from hardware_db.tables import table

Load = Literal["batch", "served"]
LOADS: Mapping[Load, str] = {"batch": "in a static batch", "served": "under load"}
#: Name of the rows that count all engines, and the least number of rows for ranges of an engine.
ALL, LEAST_ROWS = "*", 10

#: How a reader calls a category; any other parameter is called by its name.
CATEGORIES: Mapping[str, str] = {
    "tp": "tensor parallelism",
    "pp": "pipeline parallelism",
    "dp": "attention data parallelism",
    "ep": "expert parallelism",
    "cp": "context parallelism",
    "micro_batches": "micro-batches",
    "sequence_parallel": "sequence parallelism",
    "expert_imbalance": "unevenly loaded experts",
    "redundant_experts": "redundant experts",
    "overlap": "an overlap of exchange and compute",
    "order": "a placement of the degrees",
    "cached": "cached prompts",
    "offload": "weights, caches or experts on the host",
    "drafts": "drafted tokens",
    "sharing": "prompts or answers in common",
    "spill": "weights, caches or experts on the host",
    "audio_s": "sound",
    "denoising": "refinement of whole blocks",
}
#: How a reader calls a number.
NUMBERS: Mapping[str, str] = {
    "isl": "prompt tokens",
    "osl": "output tokens",
    "batch": "sequences at once",
    "users": "users",
    "devices": "devices",
    "tp": "tensor-parallel ranks",
    "pp": "pipeline stages",
    "dp": "attention ranks",
    "ep": "expert ranks",
}
_FORMATS: Mapping[str, str] = {
    "weights": "{} weights",
    "experts": "{} experts",
    "kv": "{} caches",
    "activations": "{} activations",
    "compute": "products forced to {}",
}
#: Degrees that one distance stands for: devices are their product.
_DEGREES = ("tp", "pp", "dp", "ep", "cp", "devices")
#: Numbers whose distance the novelty of a load tells already.
_AMONG_RUNS = ("users", "isl", "osl", *_DEGREES)
#: Parameters of a split that mean something for a mixture of experts alone.
_OF_EXPERTS = ("ep", "expert_imbalance", "redundant_experts", "overlap")
#: Follows from the other degrees.
_IMPLIED = ("moe_tp",)
#: Numbers of a load beside users and lengths, and the value of each that leaves the engine alone.
_LIMITS: Mapping[str, float] = {
    "length_ratio": 1.0,
    "stream_interval": 1.0,
    "recv_interval": 1.0,
    "batch_wait": 0.0,
    "max_num_seqs": 0.0,
    "max_num_batched_tokens": 0.0,
}
#: Fields of `Traffic` that are no fact of their own: the load itself, and the protocol of a run.
_PROTOCOL = ("concurrency", "rate_per_s", "waves")
#: Value of a number at which its category is off; sizes have none.
_OFF: Mapping[str, float] = {
    **{
        f.name: float(f.default)
        for f in fields(Parallelism)
        if isinstance(f.default, int | float) and not isinstance(f.default, bool)
    },
    **_LIMITS,
    "cached": 0.0,
}
_TINY, _ROUNDING = 1e-9, 1e-12  # of a size in place of zero, and of a logarithm
_MOST_COPIES = 65_536.0  # of experts
#: What drafted in the measured runs: the model's own module.
DRAFTED = "mtp"
#: Sizes that a first token does not depend on.
_LATER = ("osl",)


@dataclass(frozen=True, slots=True)
class Evidence:
    """What of some configurations was measured.

    load: kind of load.  unmeasured: {category that nobody measured: which configurations have it,
    [configs] or one for all}.  beyond: {number: ln of how many times it lies beyond the measured
    range, [configs] or one}; those of degrees stand for all of these.  together: whether the engine
    was measured with these number formats under this kind of load.
    values, ranges: of the numbers, for words.
    kind: of deployments measured apart from plain ones, if it is one.
    """

    load: Load = "batch"
    unmeasured: Mapping[str, Mask] = field(default_factory=dict)
    beyond: Mapping[str, Array] = field(default_factory=dict)
    together: bool = True
    values: Mapping[str, Num] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    kind: Kind | None = None

    @property
    def without(self) -> Mask:
        """Which configurations have a category that nobody measured, [configs] or one for all."""
        return np.any(np.broadcast_arrays(False, *self.unmeasured.values()), axis=0)

    def distance(self, *, first_token: bool = False, among_runs: bool = False) -> Array:
        """How far the numbers lie beyond the measured range, in natural logarithms.

        Users and lengths add; degrees and devices count once, by the farthest of them.
        first_token: of a figure that does not depend on the output's length.  among_runs: without
        the sizes in which `genz_core.measured_runs` tells how far runs of the same recipe lie.
        """
        left_out = (*(_LATER if first_token else ()), *(_AMONG_RUNS if among_runs else ()))
        kept = {name: far for name, far in self.beyond.items() if name not in left_out}
        degrees = [far for name, far in kept.items() if name in _DEGREES]
        others = [far for name, far in kept.items() if name not in _DEGREES]
        zero = np.zeros(())
        split = np.max(np.broadcast_arrays(zero, *degrees), axis=0)
        return np.asarray(np.sum(np.broadcast_arrays(split, *others), axis=0))

    def categories(self, at: int = 0) -> list[str]:
        """Names of the categories of a configuration that nobody measured."""
        return [name for name, mask in self.unmeasured.items() if _at(mask, at)]

    def words(self, at: int = 0) -> str:
        """What to tell of a configuration: categories that nobody measured, numbers beyond."""
        return self._said({text for text, mask in self._conditions() if _at(mask, at)})

    def messages(self, size: int) -> NDArray[Any]:
        """`words` of every configuration, [configs] of text; computed once for each kind of them.

        size: number of configurations.
        """
        conditions = list(self._conditions())
        code = np.zeros(size, dtype=np.int64)
        for bit, (_, mask) in enumerate(conditions):
            code |= np.asarray(mask, dtype=np.int64) << bit
        kinds, of = np.unique(code, return_inverse=True)
        texts = [
            self._said({text for bit, (text, _) in enumerate(conditions) if kind >> bit & 1})
            for kind in kinds.tolist()
        ]
        return np.array(texts, dtype=object)[of.ravel()]

    def _conditions(self) -> Iterator[tuple[str, Mask]]:
        """(category, or words of a number; which configurations have it)."""
        yield from self.unmeasured.items()
        for name, far in self.beyond.items():
            called = NUMBERS.get(name, name.replace("_", " "))
            least, most = self.ranges[name]
            above = np.asarray(self.values[name]) > most
            yield f"above {most:,.6g} {called}", (far > 0.0) & above
            yield f"below {least:,.6g} {called}", (far > 0.0) & ~above

    def _said(self, true: Collection[str]) -> str:
        """A sentence of the conditions that hold."""
        names = [name for name in self.unmeasured if name in true]
        numbers = [text for text, _ in self._conditions() if text in true and text not in names]
        said = []
        if names:
            said.append(f"not validated: nobody measured {' or '.join(names)} {LOADS[self.load]}")
        if numbers:
            said.append(f"beyond the measured range: {', '.join(numbers)}")
        return "; ".join(said)


def _at(mask: Any, at: int) -> bool:
    return bool(np.ravel(mask)[at if np.size(mask) > 1 else 0])


# ------------------------------------------------------------------------------- what was measured


@dataclass(frozen=True, slots=True)
class Measured:
    """What the runs of a kind of load had.

    words: {fact: values that a run had}.  ranges: {number: (least, most)}.
    """

    words: Mapping[str, frozenset[str]]
    ranges: Mapping[str, tuple[float, float]]


@cache
def measured(load: Load, engine: str = ALL) -> Measured:
    """What the measured runs of an engine had; of all, where it has fewer than `LEAST_ROWS`."""
    own = [row for row in table("engines", "measured") if row["load"] == load]
    of_engine = [row for row in own if row["engine"] == engine]
    if engine != ALL and max((int(row["rows"]) for row in of_engine), default=0) < LEAST_ROWS:
        return measured(load)
    words: dict[str, frozenset[str]] = {}
    ranges: dict[str, tuple[float, float]] = {}
    for row in of_engine:
        if row["least"]:
            ranges[row["fact"]] = float(row["least"]), float(row["most"])
        else:
            words[row["fact"]] = words.get(row["fact"], frozenset()) | {row["value"]}
    return Measured(words, ranges)


@cache
def _formats_anywhere() -> Mapping[str, frozenset[str]]:
    """{kind of tensor: formats that were measured under any kind of load}."""
    every = [measured(load).words for load in LOADS]
    return {name: frozenset().union(*(w.get(name, ()) for w in every)) for name in _FORMATS}


# ------------------------------------------------------------------------------- facts


def of_batch(estimate: Estimate) -> Evidence:
    """The evidence for a static batch, or several side by side."""
    load, offload = estimate.workload, estimate.offload
    numbers = {f.name: getattr(load, f.name) for f in fields(load)}
    moved = offload is not None and np.asarray(offload.step_s) > 0
    others = {"offload": np.asarray(moved)} if np.any(moved) else {}
    return _evidence(
        "batch", estimate.engine.name, estimate.model, estimate.parallelism, numbers, others
    )


def of_served(
    result: ServingEstimate, engine: str, model: Model, named: Iterable[str] = ()
) -> Evidence:
    """The evidence for loads on a server, closed or open.

    Arrivals at a rate count as the requests that they keep open.

    engine: its profile's name.  named: categories that the caller knows in words of its own, in
    place of those of `Traffic.sharing` and `Traffic.spill`.
    """
    traffic = result.traffic
    open_requests = result.novelty.users * result.ranks
    users = open_requests if traffic.concurrency is None else traffic.concurrency
    numbers = {"users": users, **dict(traffic_numbers(traffic))}
    others = {name: np.asarray(True) for name in named}
    if not others:
        others = {name: np.asarray(True) for name in ("sharing", "spill") if getattr(traffic, name)}
    return _evidence(
        "served", engine, model, result.parallelism, numbers, others, pooled=result.pooled
    )


def of_split(
    load: Load,
    engine: str,
    model: Model,
    split: Parallelism,
    numbers: Mapping[str, Num],
    *,
    pooled: bool = False,
) -> Evidence:
    """The evidence for a split of a model and some numbers of a load, by the names of `NUMBERS`.

    pooled: of a decode worker, where prompts have workers of their own.
    """
    return _evidence(load, engine, model, split, numbers, {}, pooled=pooled)


def traffic_numbers(traffic: Traffic) -> Iterator[tuple[str, Num]]:
    """(name, value) of the numbers of a load beside its users."""
    for entry in fields(traffic):
        if entry.name not in (*_PROTOCOL, "sharing", "spill"):
            yield entry.name, getattr(traffic, entry.name)


def split_facts(split: Parallelism, mixed: bool) -> tuple[dict[str, Num], dict[str, str]]:
    """Numbers and words of a split.  mixed: whether the model is a mixture of experts."""
    numbers: dict[str, Num] = {"devices": split.devices}
    words: dict[str, str] = {}
    for entry in fields(split):
        value = getattr(split, entry.name)
        if entry.name in _IMPLIED or (not mixed and entry.name in _OF_EXPERTS):
            continue
        if isinstance(value, bool | str | tuple):
            words[entry.name] = " ".join(value) if isinstance(value, tuple) else str(value)
        else:
            numbers[entry.name] = value
    return numbers, words


def formats_of(model: Model) -> Mapping[str, str]:
    """{kind of tensor: number format} of a model; all 16-bit floats are one format.

    "experts" is absent from a model without any.
    """
    return _KEPT.get(lambda: _formats_of(model), model)


_KEPT: ByIdentity[Mapping[str, str]] = ByIdentity()


def _formats_of(model: Model) -> Mapping[str, str]:
    precision = model.precision
    held: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    for op in model.graph(Step.decode(1.0, 1.0), Parallelism()).ops:
        if op.weights:
            parameters = float(np.max(op.held_weight_bytes)) * op.count / bytes_of(op.weights)
            held[op.kind == "moe"][op.weights] += int(parameters)
    plain, experts = (
        precision.mixture or max(held[kind], key=held[kind].__getitem__, default="")
        for kind in (False, True)
    )
    natural = arithmetic(plain, precision.activations)
    forced = arithmetic(plain, precision.activations, precision.compute)
    found = {
        "weights": plain,
        "kv": precision.kv,
        "activations": precision.activations,
        "compute": precision.compute if _alike(forced) != _alike(natural) else "",
    }
    if held[True]:
        found["experts"] = experts
    return {name: _alike(value) for name, value in found.items()}


def _alike(fmt: str) -> str:
    """A format's name; "16 bit" for floats of 16 bits, which cost the same."""
    return "16 bit" if fmt in FORMATS and FORMATS[fmt].bits == 16 else fmt


def input_facts(model: Model) -> dict[str, str]:
    """What a model is and reads, in words: its kind, and inputs beside text that are asked for."""
    found: dict[str, str] = {"kind": model_kind(model)}
    inputs = getattr(model, "inputs", None)
    for entry in fields(inputs) if inputs is not None else ():
        if entry.name not in ("width", "height") and getattr(inputs, entry.name):
            found[entry.name] = "asked"
    return found


# ------------------------------------------------------------------------------- comparison


def _evidence(
    load: Load,
    engine: str,
    model: Model,
    split: Parallelism,
    numbers: Mapping[str, Num],
    others: Mapping[str, Mask],
    *,
    pooled: bool = False,
) -> Evidence:
    """Compare facts with what was measured under a kind of load.

    others: {parameter that no table has: which configurations use it}.  pooled: see `of_split`.
    """
    everyone, own = measured(load), measured(load, engine)
    kind = None
    if pooled:
        everyone = own = _with_pools()
        kind = Kind("pools", numbers.get("isl", math.nan))
    unmeasured = {CATEGORIES.get(name, name): mask for name, mask in others.items()}
    together = True
    if isinstance(model, SpeculativeModel):
        if load == "served" and model.speculation.method == DRAFTED:
            kind = kind or Kind("drafts", numbers.get("isl", math.nan))
        else:
            unmeasured[CATEGORIES["drafts"]] = np.asarray(True)
        model = model.model
    formats = formats_of(model)
    split_numbers, words = split_facts(split, mixed="experts" in formats)
    for name, value in {**words, **input_facts(model)}.items():
        if value not in everyone.words.get(name, {_STANDARD.get(name, "")}):
            called = f"{value} models" if name == "kind" else CATEGORIES.get(name, name)
            unmeasured[called] = np.asarray(True)
    for name, value in formats.items():
        together &= value in own.words.get(name, ())
        if value not in _formats_anywhere()[name]:
            unmeasured[_FORMATS[name].format(value)] = np.asarray(True)
    beyond: dict[str, Array] = {}
    values: dict[str, Num] = {}
    for name, number in {**numbers, **split_numbers}.items():
        off, span = _OFF.get(name), everyone.ranges.get(name)
        if span is None or span == (off, off):
            if np.any(used := _is_on(number, off)):
                unmeasured[CATEGORIES.get(name, name.replace("_", " "))] = used
            continue
        far = _beyond(number, own.ranges.get(name, span), off)
        if np.any(far > 0.0):
            beyond[name], values[name] = far, number
    ranges = {name: own.ranges.get(name, everyone.ranges[name]) for name in beyond}
    return Evidence(load, unmeasured, beyond, bool(together), values, ranges, kind)


@cache
def _with_pools() -> Measured:
    """What the measured runs under load had, those with prompts on workers of their own with them.

    Degrees are those of a decode worker.
    """
    plain = measured("served")
    rows = table("measurements", "disaggregated")
    names = {"users": "concurrency", **{n: n for n in ("isl", "osl", "tp", "dp", "ep")}}
    columns = {name: [float(row[of]) for row in rows] for name, of in names.items()}
    columns["devices"] = [a * b for a, b in zip(columns["tp"], columns["dp"], strict=True)]
    columns["redundant_experts"] = [float(bool(int(row["eplb_slots"] or 0))) for row in rows]
    ranges = dict(plain.ranges)
    for name, values in columns.items():
        least, most = ranges.get(name, (math.inf, -math.inf))
        ranges[name] = min([least, *values]), max([most, *values])
    if ranges["redundant_experts"][1]:  # their number follows from the ranks
        ranges["redundant_experts"] = 0.0, _MOST_COPIES
    return Measured(plain.words, ranges)


def _is_on(number: Num, off: float | None) -> Mask:
    """Where a number is known and is not the one that leaves its category out."""
    known = np.asarray(number, dtype=float)
    return np.asarray(~np.isnan(known) & (known != off))


#: Values of words that are off.
_STANDARD: Mapping[str, str] = {
    f.name: "" if isinstance(f.default, tuple) else str(f.default)
    for f in fields(Parallelism)
    if isinstance(f.default, bool | str | tuple)
}


def _beyond(value: Num, span: tuple[float, float], off: float | None) -> Array:
    """ln of how many times a number lies beyond a range, 0 inside of it and where it is off.

    A number that is not known (NaN) lies inside.
    """
    least, most = span
    known = np.asarray(value, dtype=float)
    sizes = np.maximum(known, _TINY)
    far = np.maximum(np.log(sizes / max(most, _TINY)), np.log(max(least, _TINY) / sizes))
    inside = ~(far > _ROUNDING) if off is None else ~(far > _ROUNDING) | (known == off)
    return np.where(inside, 0.0, far)
