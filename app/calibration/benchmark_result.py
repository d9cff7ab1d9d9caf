"""Result files of serving benchmarks for a calibration: one measured run, its figures and load.

Any format of `profilers.serving_results` will do that states a mean TPOT; of a file with several
runs the last one is taken, as SGLang's client appends.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.question.question import LOADS
from genz_core.errors import InvalidValue, ReportError
from profilers.serving_results import Percentiles, ServingMeasurement, read_results

_ARRIVALS = (*LOADS, "burst_start", "burstiness")
_LENGTHS_GIVEN = ("trace", "length_ratio", "length_spread", "lengths")
_STATISTICS = {50.0: "p50", 90.0: "p90", 95.0: "p95", 99.0: "p99"}


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """One measured run.

    tpot_s: mean.  figures: all that were measured, by the names of a simulation's figures, SI.
    load: parameters of a question that the file names.
    """

    tpot_s: float
    figures: Mapping[str, float]
    load: Mapping[str, Any]

    def asked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What a simulation of the run is asked: what was given, and the rest from the file."""
        stated = {name: value for name, value in given.items() if value is not None}
        known = dict(self.load)
        if any(name in stated for name in LOADS):
            known = {name: value for name, value in known.items() if name not in _ARRIVALS}
        if any(name in stated for name in _LENGTHS_GIVEN):
            known.pop("lengths", None)
        return known | stated


def read(path: Path) -> BenchmarkResult:
    """Read a result file.

    Raises:
        InvalidValue: it cannot be read, it holds no mean TPOT, or a rate that a limit of open
            requests held back.
    """
    try:
        measurement = read_results(path)[-1]
    except ReportError as error:
        raise InvalidValue(str(error)) from None
    return of_measurement(measurement)


def of_measurement(measurement: ServingMeasurement) -> BenchmarkResult:
    """What a calibration takes of a measurement.  Errors as `read`, but for files."""
    tpot = measurement.decode_tpot_s.mean
    if tpot is None or not 0 < tpot < math.inf:
        raise InvalidValue(
            f"{measurement.file} has no mean TPOT: give the result of a benchmark that streams "
            "answers, such as vllm bench serve, sglang.bench_serving or aiperf"
        )
    load = _arrivals(measurement) | _lengths(measurement)
    return BenchmarkResult(tpot, dict(_figures(measurement)), load)


def _figures(measurement: ServingMeasurement) -> Iterator[tuple[str, float]]:
    found = {**measurement.latencies(), "tpot_s": measurement.decode_tpot_s}
    for name, spread in found.items():
        for what, value in _statistics(spread):
            yield f"{name.removesuffix('_s')}_{what}_s", value
    for name in ("requests_per_s", "output_tokens_per_s"):
        rate = getattr(measurement.throughput, name)
        if rate is not None:
            yield name, rate


def _statistics(spread: Percentiles) -> Iterator[tuple[str, float]]:
    if spread.mean is not None:
        yield "mean", spread.mean
    for percent, word in _STATISTICS.items():
        if percent in spread.at:
            yield word, spread.at[percent]


def _arrivals(measurement: ServingMeasurement) -> dict[str, Any]:
    """What the file says of arrivals: a rate, or a closed loop whose users start together.

    Raises:
        InvalidValue: a rate that a concurrency held back.
    """
    load = measurement.load
    requests = load.completed or load.requests or 0
    found: dict[str, Any] = {"requests": requests} if requests else {}
    open_requests = int(load.concurrency) if load.concurrency and load.concurrency >= 1 else 0
    if load.rate is not None and math.isfinite(load.rate):
        if open_requests:
            raise InvalidValue(
                f"{measurement.file} was measured at {load.rate:g} requests/s held back to "
                f"{open_requests} open ones: say which of the two held, with --rate or "
                "--concurrency"
            )
        shape = load.burstiness if load.burstiness and math.isfinite(load.burstiness) else 1.0
        return found | {"rate": load.rate, "burstiness": shape}
    at_once = requests if load.rate is not None or measurement.format in _ALL_AT_ONCE else 0
    users = open_requests or at_once
    return found | ({"concurrency": users, "burst_start": True} if users else {})


#: Clients that send all requests at once unless told, and do not write that they did.
_ALL_AT_ONCE = ("vllm bench serve", "sglang.bench_serving", "serving benchmark console")


def _lengths(measurement: ServingMeasurement) -> dict[str, Any]:
    """Lengths of every request where they were saved, those that were asked for, or the means."""
    lengths, rows = measurement.lengths, measurement.requests
    if rows is not None:
        pairs = rows[["isl", "osl"]].to_numpy(dtype=float)
        known = pairs[(pairs >= 1).all(axis=1)]
        if len(known):
            return {"lengths": known}
    ratio = lengths.length_ratio or 0.0
    asked = (lengths.isl_asked or 0, lengths.osl_asked or 0)
    if 0 < ratio <= 1 and min(asked) >= 1:
        return {"isl": int(asked[0]), "osl": int(asked[1]), "length_ratio": ratio}
    means = (lengths.isl.typical or asked[0], lengths.osl.typical or asked[1])
    return {
        side: round(mean) for side, mean in zip(("isl", "osl"), means, strict=True) if mean >= 1
    }
