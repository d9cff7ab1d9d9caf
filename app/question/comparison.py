"""Comparison of a configuration with what was measured: its evidence.

A number format counts as measured if either kind of load had it, because the same kernels run in
both; where this engine was not measured with it under this kind of load, the interval is that of an
engine without measurements.  A parameter that is not in the table of measurements counts as
unmeasured.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields

import numpy as np

from app.question.evidence import Evidence
from app.question.facts import formats_of, input_facts, split_facts, traffic_numbers
from app.question.measured_ranges import Load, anywhere, measured, measured_with_pools
from genz_core import Estimate
from genz_core.graphs import Model
from genz_core.models.adapters import AdaptedModel
from genz_core.models.speculative import SpeculativeModel
from genz_core.serving import ServingEstimate
from genz_core.types import Array, Mask, Num, Parallelism
from hardware_db.intervals import Kind

#: Names of categories for a reader; other parameters keep their name.
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
    "overlap": "overlapped all-to-all",
    "order": "a placement of the parallelism degrees",
    "cached": "cached prompts",
    "offload": "weights, caches or experts on the host",
    "drafts": "speculative decoding",
    "sharing": "shared prompts, sampled outputs or beams",
    "spill": "weights, caches or experts on the host",
    "audio_s": "audio",
    "denoising": "block diffusion",
}
_FORMATS: Mapping[str, str] = {
    "weights": "{} weights",
    "experts": "{} experts",
    "kv": "{} caches",
    "activations": "{} activations",
    "compute": "arithmetic forced to {}",
}
#: Numbers of a load beside users and lengths, with the value at which each has no effect.
_LIMITS: Mapping[str, float] = {
    "length_ratio": 1.0,
    "stream_interval": 1.0,
    "recv_interval": 1.0,
    "batch_wait": 0.0,
    "max_num_seqs": 0.0,
    "max_num_batched_tokens": 0.0,
}
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
#: Values of words that are off.
_STANDARD: Mapping[str, str] = {
    f.name: "" if isinstance(f.default, tuple) else str(f.default)
    for f in fields(Parallelism)
    if isinstance(f.default, bool | str | tuple)
}
#: Smallest value of a size, instead of zero.
_TINY = 1e-9
#: Tolerance of a logarithm for rounding errors.
_ROUNDING = 1e-12
#: The drafting method of the measured runs: the model's own module.
DRAFTED = "mtp"


def of_batch(estimate: Estimate) -> Evidence:
    """The evidence for a static batch, or for several."""
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

    Arrivals at a rate, and users who pause, count as the requests that they keep open.

    engine: its profile's name.  named: categories in the caller's own words, instead of those of
    `Traffic.sharing` and `Traffic.spill`.
    """
    traffic = result.traffic
    users = traffic.concurrency
    if users is None or np.any(traffic.pause_s):
        users = result.novelty.users * result.ranks
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

    pooled: for a decode worker with a separate prefill pool.
    """
    return _evidence(load, engine, model, split, numbers, {}, pooled=pooled)


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

    others: {parameter that is in no table: which configurations use it}.  pooled: see `of_split`.
    """
    everyone, own = measured(load), measured(load, engine)
    kind = None
    if pooled:
        everyone = own = measured_with_pools()
        kind = Kind("pools", numbers.get("isl", math.nan))
    unmeasured = {CATEGORIES.get(name, name): mask for name, mask in others.items()}
    together = True
    if isinstance(model, SpeculativeModel):
        if load == "served" and model.speculation.method == DRAFTED:
            kind = kind or Kind("drafts", numbers.get("isl", math.nan))
        else:
            unmeasured[CATEGORIES["drafts"]] = np.asarray(True)
        model = model.model
    if isinstance(model, AdaptedModel):
        unmeasured[str(model.adapters)] = np.asarray(True)
    formats = formats_of(model)
    split_numbers, words = split_facts(split, mixed="experts" in formats)
    for name, value in {**words, **input_facts(model)}.items():
        if value not in everyone.words.get(name, {_STANDARD.get(name, "")}):
            called = f"{value} models" if name == "kind" else CATEGORIES.get(name, name)
            unmeasured[called] = np.asarray(True)
    for name, value in formats.items():
        together &= value in own.words.get(name, ())
        if value not in anywhere(name):
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


def _is_on(number: Num, off: float | None) -> Mask:
    """Where a number is known and differs from the value at which its category is off."""
    known = np.asarray(number, dtype=float)
    return np.asarray(~np.isnan(known) & (known != off))


def _beyond(value: Num, span: tuple[float, float], off: float | None) -> Array:
    """ln of the factor by which a number lies beyond a range, 0 inside of it and where it is off.

    An unknown number (NaN) counts as inside.
    """
    least, most = span
    known = np.asarray(value, dtype=float)
    sizes = np.maximum(known, _TINY)
    far = np.maximum(np.log(sizes / max(most, _TINY)), np.log(max(least, _TINY) / sizes))
    inside = ~(far > _ROUNDING) if off is None else ~(far > _ROUNDING) | (known == off)
    return np.where(inside, 0.0, far)
