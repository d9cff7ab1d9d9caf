"""What the closed form says of a measured run: every figure with its interval and its bound.

Whole requests (E2E) and the throughput of a closed loop have no held-out points of their own: their
interval is that of TTFT and TPOT, taken to err the same way.  Percentiles beyond the median are not
predicted in closed form; the simulation has them, without an interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.benchmarks.deployment import Deployment
from app.benchmarks.levels import at_level
from app.benchmarks.load import Load
from app.scenario import intervals, served_rows
from app.scenario.scenario import Resolved, estimate_resolved
from app.scenario.served_rows import completed
from genz_core.errors import InvalidValue
from genz_core.serving import ServingEstimate
from genz_core.workload import WITH_TIMES

_NAN = math.nan


@dataclass(frozen=True, slots=True)
class Predicted:
    """A predicted figure, SI units; NaN where there is none.

    low, high: ends of its interval.  bound: the least that a latency can be, the most that a
    throughput can.  basis: what the interval rests on, "" for held-out points of this figure.
    """

    value: float
    low: float = _NAN
    high: float = _NAN
    bound: float = _NAN
    basis: str = ""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Figures of a run by name ("ttft_mean_s"), and what was assumed.

    resolved: with the user's own calibration of this deployment, where there is one.
    """

    resolved: Resolved
    figures: Mapping[str, Predicted]
    level: float
    notes: tuple[str, ...] = ()


_SUM = "those of TTFT and TPOT, as if both erred the same way"


def predict(deployment: Deployment, level: float) -> Prediction:
    """Predict every figure that the closed form has.

    level: share of runs within an interval, 0.8.

    Raises:
        InvalidValue: something that is needed is missing, or the load cannot be served.
    """
    resolved = deployment.priced()
    if deployment.measurement.phase:
        return _alone(deployment, completed(resolved, deployment.objects), level)
    calibrated = completed(served_rows.as_calibrated(resolved), deployment.objects)
    return served(calibrated, deployment.load, level)


def served(resolved: Resolved, load: Load, level: float) -> Prediction:
    """The figures of a deployment under a load.

    Raises:
        InvalidValue: it cannot be served.
    """
    result = served_rows.served(resolved)
    status = str(result.status[0])
    if status != "ok":
        raise InvalidValue(f"this load cannot be served: {result.messages.get(0, status)}")
    known = intervals.of_served(resolved.system, resolved.engine, resolved.model, result)
    bounds = intervals.bounds_of_load(result)
    figures: dict[str, Predicted] = {}
    for name, source in _FROM.items():
        value, bound = _at(getattr(result, source)), _at(bounds[source])
        widened = at_level(intervals.single(known[source]), level)
        latency = intervals.Latency.of(value, widened, bound)
        figures[name] = Predicted(value, latency.low_s, latency.high_s, bound)
    figures["e2e_mean_s"] = _e2e(figures, _at(result.osl))
    figures |= _rates(result, load, figures["e2e_mean_s"])
    return Prediction(resolved, figures, level)


#: Figures of a run by the figure of the closed form that says them.
_FROM: Mapping[str, str] = {
    "ttft_mean_s": "ttft_s",
    "ttft_p50_s": "ttft_median_s",
    "tpot_mean_s": "tpot_s",
    "tpot_p50_s": "tpot_median_s",
    "itl_mean_s": "tpot_s",
}


def _e2e(figures: Mapping[str, Predicted], osl: float) -> Predicted:
    first, later = figures["ttft_mean_s"], figures["tpot_mean_s"]

    def total(part: str) -> float:
        return float(getattr(first, part) + getattr(later, part) * (osl - 1.0))

    return Predicted(total("value"), total("low"), total("high"), total("bound"), _SUM)


def _rates(result: ServingEstimate, load: Load, e2e: Predicted) -> dict[str, Predicted]:
    """Rates of tokens and requests; of a closed loop they err with the time of a request.

    A run at a rate lasts until its last request is answered, so its rates lie below what was sent.
    """
    out = _at(result.output_tokens_per_s)
    closed = not load.rate
    if not closed and load.requests:
        out *= load.requests / (load.requests + load.rate * e2e.value)
    requests = out / _at(result.osl)
    values = {
        "requests_per_s": requests,
        "input_tokens_per_s": requests * load.mean_isl,
        "output_tokens_per_s": out,
        "total_tokens_per_s": out + requests * load.mean_isl,
    }
    if not closed:
        return {name: Predicted(value) for name, value in values.items()}
    return {
        name: Predicted(
            value,
            value * e2e.value / e2e.high,
            value * e2e.value / e2e.low,
            value * e2e.value / e2e.bound,
            _SUM,
        )
        for name, value in values.items()
    }


def _at(values: Any) -> float:
    return float(np.broadcast_to(np.asarray(values, dtype=float), (1,))[0])


# ------------------------------------------------------------------------------- one phase alone


def _alone(deployment: Deployment, resolved: Resolved, level: float) -> Prediction:
    """A prefill or a decode alone, as llama-bench runs them: the tokens of it per second."""
    load, phase = deployment.load, deployment.measurement.phase
    batch = max(load.concurrency, 1.0)
    cached = load.context
    isl = load.isl + cached if phase == "prefill" else max(cached, 1.0)
    osl = 1.0 if phase == "prefill" else max(load.osl, 2.0)
    estimate = estimate_resolved(resolved, batch=[batch], isl=[isl], osl=[osl])
    status = str(estimate.status[0])
    if status not in ("ok", *WITH_TIMES):
        raise InvalidValue(f"this load cannot be priced: {status}")
    name = "ttft_s" if phase == "prefill" else "tpot_s"
    value, bound = _at(getattr(estimate, name)), _at(intervals.bounds_of(estimate)[name])
    known = at_level(intervals.of_batch(estimate)[name], level)
    latency = intervals.Latency.of(value, known, bound)
    tokens = batch * (load.isl if phase == "prefill" else 1.0)
    rate = Predicted(
        tokens / value, tokens / latency.high_s, tokens / latency.low_s, tokens / bound
    )
    figure = "input_tokens_per_s" if phase == "prefill" else "output_tokens_per_s"
    seconds = Predicted(value, latency.low_s, latency.high_s, bound)
    stem = name.removesuffix("_s")
    notes = ("the cached tokens are taken as part of the prompt",) if cached else ()
    figures = {figure: rate, f"{stem}_mean_s": seconds, f"{stem}_p50_s": seconds}
    return Prediction(resolved, figures, level, notes)
