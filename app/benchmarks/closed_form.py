"""The closed form's prediction of a measured run: every figure with its interval and its bound.

Whole requests (E2E) and the throughput of a closed loop have no held-out points of their own: their
interval is derived from those of TTFT and TPOT, assuming fully correlated errors.  The closed form
does not predict percentiles beyond the median; the simulation does, without an interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.answers.column import ends
from app.benchmarks.deployment import Deployment
from app.benchmarks.levels import at_level
from app.benchmarks.load import RunLoad
from app.benchmarks.replayed_load import figures_of, offered, run_as_measured, with_room
from app.question import comparison
from app.scenario import intervals, served_rows
from app.scenario.scenario import Resolved, estimate_resolved
from app.scenario.served_rows import completed
from genz_core.errors import InvalidValue
from genz_core.serving import ServingEstimate
from genz_core.serving.traffic import OVERLOADED
from genz_core.systems import System
from genz_core.workload import OUT_OF_MEMORY, WITH_TIMES, Estimate
from profilers.serving_results.measurement import Throughput

#: Rates of a run: requests, input tokens, output tokens, and all tokens.
RATES = Throughput.__slots__


@dataclass(frozen=True, slots=True)
class Predicted:
    """A predicted figure, SI units; NaN where there is none.  A number, or an array [loads].

    low, high: ends of its interval.  bound: least value of a latency, largest of a throughput.
    basis: what the interval is based on, "" for held-out points of this figure.
    """

    value: Any
    low: Any = math.nan
    high: Any = math.nan
    bound: Any = math.nan
    basis: str = ""

    def single(self) -> Predicted:
        """The first of an array's loads."""
        value, low, high, bound = map(_at, (self.value, self.low, self.high, self.bound))
        return Predicted(value, low, high, bound, self.basis)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Figures of a run by name ("ttft_mean_s"), and assumptions.

    resolved: with the user's own calibration of this deployment, if there is one; notes name it.
    status: "ok", or why a steady load of this kind could not be served ("overloaded").
    """

    resolved: Resolved
    figures: Mapping[str, Predicted]
    level: float
    notes: tuple[str, ...] = ()
    status: str = "ok"


_SUM = "those of TTFT and TPOT, assuming fully correlated errors"


def predict(deployment: Deployment, level: float) -> Prediction:
    """Predict every figure that the closed form has.

    The measured load was served, so it is priced, with a note, even if it exceeds the memory or the
    rate that the closed form can sustain.

    level: share of runs within an interval, such as 0.8.

    Raises:
        InvalidValue: something required is missing, or the deployment is impossible.
    """
    resolved = deployment.priced()
    if deployment.measurement.phase:
        return _alone(deployment, completed(resolved, deployment.objects), level)
    calibrated = served_rows.as_calibrated(resolved)
    learnt = calibrated.notes[len(resolved.notes) :]
    found = _under_load(deployment, completed(calibrated, deployment.objects), level)
    return replace(found, notes=(*learnt, *found.notes))


def _under_load(deployment: Deployment, calibrated: Resolved, level: float) -> Prediction:
    """The figures of a load on a server."""
    result = served_rows.served(calibrated)
    status, said = str(result.status[0]), result.messages.get(0, "")
    if status == OUT_OF_MEMORY:
        calibrated = with_room(calibrated)
        result = served_rows.served(calibrated)
        note = f"{said}; since it ran, it is priced with enough memory"
        found = _of_status(deployment, calibrated, result, level)
        return replace(found, notes=(note, *found.notes), status=status)
    return _of_status(deployment, calibrated, result, level)


def _of_status(
    deployment: Deployment, resolved: Resolved, result: ServingEstimate, level: float
) -> Prediction:
    """The figures of a load that can be served, or that exceeds what is sustained."""
    status = str(result.status[0])
    if status == OVERLOADED:
        return _overloaded(deployment, resolved, result, level)
    if status != "ok":
        raise InvalidValue(f"this load cannot be served: {result.messages.get(0, status)}")
    return served(resolved, deployment.load, result, level)


def _overloaded(
    deployment: Deployment, resolved: Resolved, result: ServingEstimate, level: float
) -> Prediction:
    """For more requests than are sustained, the run is simulated to its last request.

    TPOT keeps the interval of the steady step.  Its bounds are those of a single request, as at the
    start and end of the run.  A run with an unknown number of requests has no end: its waiting
    times are not predicted.
    """
    load, messages = deployment.load, result.messages
    full = figures_under_load(resolved, result, load, level)
    steady = {name: one.single() for name, one in full.items()}
    alone = replace(resolved.scenario, rate=None, burstiness=1.0, concurrency=1, requests=None)
    single = intervals.bounds_of_load(served_rows.served(replace(resolved, scenario=alone)))
    found = {name: one.value for name, one in steady.items() if name in ("tpot_mean_s", *RATES)}
    how = "the steps and rates are those of a fully loaded server"
    if load.requests:
        found = figures_of(run_as_measured(*offered(deployment)))
        how = f"its {load.requests:,} requests are simulated with their own arrivals"
    figures = {}
    for name, value in found.items():
        of, bound = steady.get(name, Predicted(math.nan)), math.nan
        if name in _FROM:
            bound = _at(single[_FROM[name]])
        share = value / of.value if name.startswith(("tpot", "itl")) else math.nan
        figures[name] = Predicted(value, of.low * share, of.high * share, bound, _AS_IT_RAN)
    note = f"overloaded, by the prediction: {messages.get(0, '')}; {how}"
    return Prediction(resolved, figures, level, (note,), OVERLOADED)


_AS_IT_RAN = "the run is simulated from start to end; intervals are those of the steady step"


def served(resolved: Resolved, load: RunLoad, result: ServingEstimate, level: float) -> Prediction:
    """The figures of a deployment under a load that it sustains."""
    figures = figures_under_load(resolved, result, load, level)
    every = {name: one.single() for name, one in figures.items()}
    if load.rate and load.requests:  # a run ends with the answer to its last request
        share = load.requests / (load.requests + load.rate * every["e2e_mean_s"].value)
        every |= {name: Predicted(every[name].value * share) for name in RATES}
    return Prediction(resolved, every, level)


def bounds_on(deployment: Deployment, system: System) -> dict[str, float]:
    """Bounds of the latencies [s] of a run on another device, with enough memory.

    Raises:
        RidgelineError: it cannot be priced there.
    """
    resolved = with_room(replace(deployment.priced(), system=system))
    if deployment.measurement.phase:
        priced = _phase_alone(deployment, resolved)
        return {name: _at(bound) for name, bound in intervals.bounds_of(priced).items()}
    result = served_rows.served(resolved)
    return {name: _at(bound) for name, bound in intervals.bounds_of_load(result).items()}


#: Figures of a run by the closed form's figure that predicts them.
_FROM: Mapping[str, str] = {
    "ttft_mean_s": "ttft_s",
    "ttft_p50_s": "ttft_median_s",
    "tpot_mean_s": "tpot_s",
    "tpot_p50_s": "tpot_median_s",
    "itl_mean_s": "tpot_s",
}


def figures_under_load(
    resolved: Resolved, result: ServingEstimate, load: RunLoad, level: float
) -> dict[str, Predicted]:
    """Every figure that the closed form has, each part an array [loads].

    Rates of tokens and requests in a closed loop share the error of a request's time; at a given
    rate they have no interval.

    load: gives the prompts and the kind of load; its own number of users or rate is ignored.
    """
    intervals_ = intervals.of_served(resolved.system, resolved.engine, resolved.model, result)
    known = {name: at_level(one, level) for name, one in intervals_.items()}
    bounds = intervals.bounds_of_load(result)
    sources = dict.fromkeys(_FROM.values())
    timed = intervals.beside({name: getattr(result, name) for name in sources}, known, bounds)
    figures: dict[str, Predicted] = {}
    for name, source in _FROM.items():
        low, high = ends(source)
        figures[name] = Predicted(timed[source], timed[low], timed[high], bounds[source])
    first, later = figures["ttft_mean_s"], figures["tpot_mean_s"]
    gaps = np.asarray(result.osl, dtype=float) - 1.0
    e2e = Predicted(
        first.value + later.value * gaps,
        first.low + later.low * gaps,
        first.high + later.high * gaps,
        first.bound + later.bound * gaps,
        _SUM,
    )
    figures["e2e_mean_s"] = e2e
    out = np.asarray(result.output_tokens_per_s, dtype=float)
    requests = out / result.osl
    tokens_in = requests * load.mean_isl
    rates = (requests, tokens_in, out, out + tokens_in)
    for name, rate in zip(RATES, rates, strict=True):
        figures[name] = Predicted(rate)
        if not load.rate:
            least, most, bound = (
                rate * e2e.value / side for side in (e2e.high, e2e.low, e2e.bound)
            )
            figures[name] = Predicted(rate, least, most, bound, _SUM)
    return figures


def _at(values: Any) -> float:
    return float(np.broadcast_to(np.asarray(values, dtype=float), (1,))[0])


# ------------------------------------------------------------------------------- one phase alone


def _alone(deployment: Deployment, resolved: Resolved, level: float) -> Prediction:
    """A single prefill or decode, as in llama-bench: its tokens per second."""
    load, phase = deployment.load, deployment.measurement.phase
    estimate = _phase_alone(deployment, resolved)
    status = str(estimate.status[0])
    if status not in ("ok", *WITH_TIMES):
        raise InvalidValue(f"this load cannot be priced: {status}")
    name = "ttft_s" if phase == "prefill" else "tpot_s"
    value, bound = _at(getattr(estimate, name)), _at(intervals.bounds_of(estimate)[name])
    of = comparison.of_batch(estimate)
    known = at_level(intervals.of_batch(estimate, of)[name], level)
    latency = intervals.Ranged.of(value, known, bound)
    tokens = max(load.users, 1.0) * (load.isl if phase == "prefill" else 1.0)
    rate = Predicted(tokens / value, tokens / latency.high, tokens / latency.low, tokens / bound)
    figure = "input_tokens_per_s" if phase == "prefill" else "output_tokens_per_s"
    seconds = Predicted(value, latency.low, latency.high, bound)
    stem = name.removesuffix("_s")
    figures = {figure: rate, f"{stem}_mean_s": seconds, f"{stem}_p50_s": seconds}
    notes = (of.words(),) if np.any(of.without) else ()
    return Prediction(resolved, figures, level, notes)


def _phase_alone(deployment: Deployment, resolved: Resolved) -> Estimate:
    """The estimate of a single prefill or decode, after the tokens that are in its cache.

    A prefill computes its own tokens, which also attend to those in the cache.
    """
    load, batch = deployment.load, [max(deployment.load.users, 1.0)]
    if deployment.measurement.phase == "prefill":
        isl = [load.isl + load.context]
        return estimate_resolved(resolved, batch=batch, isl=isl, osl=[1.0], cached=[load.context])
    isl, osl = [max(load.context, 1.0)], [float(max(load.osl, 2))]
    return estimate_resolved(resolved, batch=batch, isl=isl, osl=osl)
