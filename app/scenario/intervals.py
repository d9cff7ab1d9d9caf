"""How far off a latency may be: an 80 % interval from held-out points, or "not validated".

That of a step or a request follows from measured ones of the same tier and engine; a combination
without measurements has none.  Those of operators are in `app.scenario.operator_intervals`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import hardware_db
from app.answers.column import THROUGHPUT_ENDS, ends
from app.question import comparison
from app.question.evidence import Evidence, texts_by_row
from app.question.facts import device_kind
from app.question.measured_ranges import DEVICE, anywhere
from app.wording import quantities
from genz_core import Estimate
from genz_core.economics import joules_per_token, usd_per_million_tokens
from genz_core.engine import EngineProfile
from genz_core.graphs import Model
from genz_core.serving import Novelty, ServingEstimate
from genz_core.systems import System
from genz_core.types import Array, Num
from genz_core.workload import WITH_TIMES
from hardware_db.intervals import (
    Interval,
    kind_interval,
    load_interval,
    validated_tier,
    wider,
)

#: Held-out points that give a figure's interval, in order of preference. Whole requests, which are
#: mostly decode, are used where too few decode steps were measured.
_STEPS: Mapping[str, tuple[str, ...]] = {
    "prefill_s": ("prefill",),
    "decode_step_s": ("decode", "e2e"),
}
OF_BATCH: Mapping[str, tuple[str, ...]] = {
    **_STEPS,
    "ttft_s": ("prefill",),
    "tpot_s": ("decode", "e2e"),
    "e2e_s": ("e2e",),
}
OF_LOAD: Mapping[str, tuple[str, ...]] = {
    "ttft_s": ("ttft_s",),
    "ttft_median_s": ("ttft_s",),
    "tpot_s": ("tpot_s",),
    "tpot_median_s": ("tpot_s",),
    "e2e_s": ("e2e_s",),
}

#: Costs per token that follow from a throughput, with the function that computes each.
COSTS = {
    "usd_per_million_tokens": usd_per_million_tokens,
    "joules_per_token": joules_per_token,
}
COST_COLUMNS = tuple(column for name in COSTS for column in (name, *ends(name)))
#: Figures that do not depend on the output's length.
_FIRST_TOKEN = ("prefill_s", "ttft_s", "ttft_median_s")
_SHORTEST_S = 1e-12  # a step, used instead of none at all
#: Which novelty of a load applies to a figure; most of a request is TPOT.
_NOVELTY: Mapping[str, Callable[[Novelty], Array]] = {
    "ttft_s": lambda novelty: novelty.ttft,
    "tpot_s": lambda novelty: novelty.tpot,
    "e2e_s": lambda novelty: novelty.tpot,
}

Known = Mapping[str, Interval | None]


@dataclass(frozen=True, slots=True)
class Ranged:
    """A predicted figure [s, or the unit of its column] and the ends of its 80 % interval, NaN
    where not validated.
    """

    value: float
    low: float = math.nan
    high: float = math.nan

    @property
    def trust(self) -> str:
        """The interval of a latency for a reader: "18.3 to 41.7 ms", or "not validated"."""
        return quantities.span(self.low, self.high)

    @classmethod
    def of(cls, seconds: float, interval: Interval | None, bound_s: float = 0.0) -> Ranged:
        low, high = _ends(seconds, interval, bound_s)
        return cls(seconds, float(low), float(high))

    @classmethod
    def total(cls, parts: Iterable[Ranged]) -> Ranged:
        """Sum with perfectly correlated errors: the ends of the intervals add.

        NaN ends if any part that takes time has no interval.
        """
        timed = [part for part in parts if part.value > 0]
        return cls(*(sum(getattr(part, end) for part in timed) for end in cls.__slots__))

    def beyond(self, bound_s: float, factor: float) -> Ranged:
        """The figure with the part beyond its bound multiplied, and its ends likewise."""
        ends = (self.value, self.low, self.high)
        return Ranged(*(bound_s + factor * (end - bound_s) for end in ends))


def _ends(seconds: Any, interval: Interval | None, bound_s: Any = 0.0) -> tuple[Any, Any]:
    """Ends of an interval, of a number or an array [s], with no end below the bound."""
    if interval is None:
        return seconds * math.nan, seconds * math.nan
    low = np.maximum(seconds * interval.low, bound_s)
    return np.minimum(low, seconds), seconds * interval.high


# ------------------------------------------------------------------------------- whole figures


def of_batch(estimate: Estimate, of: Evidence | None = None) -> dict[str, Interval | None]:
    """The intervals of a static batch's latencies; for several batches, their ends are arrays.

    NaN (or None for all) where a category of the configuration was never measured
    (`app.question.evidence`).

    of: what of the batches was measured, if the caller has it (`comparison.of_batch`).
    """
    of = of or comparison.of_batch(estimate)
    known = _known(OF_BATCH, estimate.system, estimate.engine, of)
    if estimate.status.size > 1:
        return known
    return {name: single(one) for name, one in known.items()}


def of_load(
    system: System,
    engine: EngineProfile,
    of: Evidence | None = None,
    novelty: Novelty | None = None,
) -> dict[str, Interval | None]:
    """The intervals of latencies under load, and of a single prompt or step.

    NaN (or None for all) where a category of the loads was never measured.

    of: what of the loads was measured (`comparison.of_served`); by default all of it.
    novelty: of the loads (`ServingEstimate.novelty`), for which intervals are arrays; by default
    that of a usual load.
    """
    return _known({**_STEPS, **OF_LOAD}, system, engine, of or Evidence("served"), novelty)


def of_served(
    system: System, engine: EngineProfile, model: Model, result: ServingEstimate
) -> dict[str, Interval | None]:
    """The intervals of priced loads, with arrays as ends; see `of_load`."""
    of = comparison.of_served(result, engine.name, model)
    return of_load(system, engine, of, result.novelty)


def single(interval: Interval | None, at: int = 0) -> Interval | None:
    """The interval of one of several loads, None if that load has none."""
    if interval is None:
        return None
    both = (interval.low, interval.high)
    low, high = (float(np.ravel(end)[at if np.ndim(end) else 0]) for end in both)
    return None if np.isnan(high) else replace(interval, low=low, high=high)


def _known(
    figures: Mapping[str, Sequence[str]],
    system: System,
    engine: EngineProfile,
    of: Evidence,
    novelty: Novelty | None = None,
) -> dict[str, Interval | None]:
    tier = "" if never_measured(system) else validated_tier(system.latency)

    def under(metric: str, profile: EngineProfile) -> Interval | None:
        if of.kind is not None and metric in _NOVELTY:
            return kind_interval(metric, of.kind) if tier else None
        if novelty is None or metric not in _NOVELTY:
            return load_interval(metric, tier, profile)
        return load_interval(metric, tier, profile, _NOVELTY[metric](novelty), novelty.users)

    def known(figure: str, metric: str) -> Interval | None:
        found = under(metric, engine)
        if not of.together:
            found = wider(found, under(metric, replace(engine, measured_on="")))
        if found is None:
            return None
        distance = of.distance(first_token=figure in _FIRST_TOKEN)
        return found.widened(distance, of.without, of.load)

    return {
        figure: next(filter(None, (known(figure, metric) for metric in metrics)), None)
        for figure, metrics in figures.items()
    }


def unmeasured_kind(system: System) -> str:
    """A sentence where no run of a device's kind was measured, so nothing on it has an interval; ""
    where some were.
    """
    kind = device_kind(system)
    if kind in anywhere(DEVICE):
        return ""
    named = kind.replace(system.kind, system.kind.upper())
    article = "an" if named[0] in "AEIOU" else "a"
    return f"not validated: no shipped run was measured on {article} {named}"


def never_measured(system: System) -> bool:
    """Whether a device is hypothetical, or of a kind of which no run was measured."""
    return hardware_db.is_hypothetical(system) or bool(unmeasured_kind(system))


def bounds_of(estimate: Estimate) -> dict[str, Array]:
    """The bounds of a static batch's latencies [s], [configs]."""
    return {
        "prefill_s": estimate.bound_ttft_s,
        "decode_step_s": estimate.bound_decode_step_s,
        "ttft_s": estimate.bound_ttft_s,
        "tpot_s": estimate.bound_tpot_s,
        "e2e_s": estimate.bound_e2e_s,
    }


def bounds_of_load(result: ServingEstimate) -> dict[str, Array]:
    """The bounds of latencies under load [s], [configs]: a single prompt and the steady step."""
    first, step = result.bound_prefill_s, result.bound_decode_step_s
    return {
        "prefill_s": first,
        "decode_step_s": step,
        "ttft_s": first,
        "ttft_median_s": first,
        "tpot_s": step,
        "tpot_median_s": step,
    }


def beside(
    latencies: Mapping[str, Any], known: Known, bounds: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Each latency followed by the low and high end of its interval, NaN where it has none.

    {"ttft_s": 0.02} becomes ttft_s, ttft_low_s, ttft_high_s; `not_validated` lists those without an
    interval, as an array where rows of a figure differ in that.
    latencies: seconds, or arrays of them, by names that `known` has.  bounds: of some of them.
    """
    columns: dict[str, Any] = {}
    for name, value in latencies.items():
        pair = _ends(value, known[name], (bounds or {}).get(name, 0.0))
        columns |= {name: value, **dict(zip(ends(name), pair, strict=True))}
    if {"ttft_s", "tpot_s", "e2e_s"} <= columns.keys():
        columns |= _request_ends(columns)
    return columns | {"not_validated": _missing({name: known[name] for name in latencies})}


def _missing(known: Known) -> Any:
    """Names of the figures without an interval, joined; an array where rows differ."""
    lacking = {name: True if i is None else np.isnan(i.low) for name, i in known.items()}
    somewhere = [rows for rows in lacking.values() if rows is not True and np.any(rows)]
    if not somewhere:
        return " ".join(name for name, rows in lacking.items() if rows is True)
    size = max(map(np.size, somewhere))
    return texts_by_row(list(lacking.items()), size, " ".join).astype(str)


def _request_ends(columns: Mapping[str, Any]) -> dict[str, Any]:
    """The ends of a whole request [s], no wider than the sum of the ends of its parts.

    Requests have held-out points of their own, which differ from those of first tokens and steps
    and may have larger errors.  A sum whose parts have correlated errors has their relative error,
    and one with independent errors a smaller one; so the narrower interval applies.  Where a part
    has no interval, the request's own is used.
    """
    with np.errstate(invalid="ignore"):  # the load is not sustained
        after = columns["e2e_s"] - columns["ttft_s"]
    steps = after / np.maximum(columns["tpot_s"], _SHORTEST_S)
    one_token = np.isnan(columns["tpot_s"])  # without a gap, the request ends with its first token
    low, high = (columns[f"ttft_{end}_s"]
                 + np.where(one_token, 0.0, steps * columns[f"tpot_{end}_s"])
                 for end in ("low", "high"))  # fmt: skip
    own_low, own_high = columns["e2e_low_s"], columns["e2e_high_s"]
    known = np.isfinite(own_low)
    same = one_token & np.isfinite(low)
    low = np.where(known & ~same, np.fmax(own_low, low), np.where(same, low, own_low))
    high = np.where(known & ~same, np.fmin(own_high, high), np.where(same, high, own_high))
    return {"e2e_low_s": low[()], "e2e_high_s": high[()]}


def of_throughput(tokens_per_s: Any, latencies: Mapping[str, Any]) -> dict[str, Any]:
    """The ends of a throughput's interval [tokens/s]: requests in flight over the time of each.

    latencies: of `beside`, with those of a whole request.
    """
    low, high = ends("e2e_s")
    work = tokens_per_s * latencies["e2e_s"]
    pair = (work / latencies[high], work / latencies[low])
    return dict(zip(THROUGHPUT_ENDS, pair, strict=True))


def token_costs(system: System, devices: Num, served: Mapping[str, Any]) -> dict[str, Any]:
    """Cost per million tokens and energy per token, with the ends of their intervals.

    The ends come from the throughput's interval; rent and power are exact.  Figures that a system
    does not state are None.  served: "output_tokens_per_s" with the ends of `of_throughput`.
    """
    rate, (low, high) = served["output_tokens_per_s"], (served[end] for end in THROUGHPUT_ENDS)
    found: dict[str, Any] = {}
    for name, priced in COSTS.items():
        value = priced(system, devices, rate)
        known = value is not None
        whole = (value, value * rate / high, value * rate / low) if known else (None, None, None)
        found |= dict(zip((name, *ends(name)), whole, strict=True))
    return found


def where_it_runs(columns: Mapping[str, Any], status: Any) -> dict[str, Any]:
    """Columns without costs, energy and intervals in rows that cannot run and have only times.

    status: reason codes, [rows].
    """
    runs = ~np.isin(np.asarray(status, dtype=str), WITH_TIMES)
    if runs.all():
        return dict(columns)
    both = (end for name in columns for end in ends(name) if end in columns)
    emptied = {
        name: np.where(runs, columns[name], np.nan)
        for name in {*both, *COSTS}
        if columns.get(name) is not None
    }
    if "not_validated" in columns:
        emptied["not_validated"] = np.where(runs, columns["not_validated"], "")
    return {**columns, **emptied}


def latency(estimate: Estimate, name: str, config: int = 0) -> Ranged:
    """A latency of a static batch by the name of its property, "ttft_s"."""
    names = ("ttft_s", "tpot_s", "e2e_s") if name == "e2e_s" else (name,)
    seconds = {one: float(getattr(estimate, one)[config]) for one in names}
    bounds = {one: float(values[config]) for one, values in bounds_of(estimate).items()}
    known = {figure: single(one, config) for figure, one in of_batch(estimate).items()}
    columns = beside(seconds, known, bounds)
    return Ranged(*(float(columns[one]) for one in (name, *ends(name))))


def step_latency(estimate: Estimate, phase: str, config: int = 0) -> Ranged:
    """The whole step of "prefill" or "decode"."""
    step = estimate.prefill if phase == "prefill" else estimate.decode
    name = "prefill_s" if phase == "prefill" else "decode_step_s"
    bound = float(step.bound_total_s[config])
    return Ranged.of(float(step.total_s[config]), single(of_batch(estimate)[name], config), bound)
