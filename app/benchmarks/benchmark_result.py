"""Result files of serving benchmarks for a calibration: one measured run, its figures and load.

Any format of `profilers.serving_results` with a mean TPOT can be used; of a file with several runs
the last one is taken, since SGLang's client appends.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.benchmarks.comparison import measured_figures
from app.benchmarks.load import load_of, parameters
from app.benchmarks.replayed_load import listed_lengths
from app.question.question import LOADS
from genz_core.errors import InvalidValue, ReportError
from profilers.comparison import account
from profilers.serving_results import ServingMeasurement, read_results

_ARRIVALS = (*LOADS, "burst_start", "burstiness")
_LENGTHS_GIVEN = ("trace", "length_ratio", "length_spread", "lengths")


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """One measured run.

    tpot_s: mean.  figures: all measured figures, under the names of a simulation's figures, SI
    units.
    load: parameters of a question that the file states.
    """

    tpot_s: float
    figures: Mapping[str, float]
    load: Mapping[str, Any]

    def asked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of a simulation of the run: what was given, completed from the file."""
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
        InvalidValue: it cannot be read, has no mean TPOT, or fails a check.
    """
    try:
        measurement = read_results(path)[-1]
    except ReportError as error:
        raise InvalidValue(str(error)) from None
    tpot = measurement.decode_tpot_s.mean
    if tpot is None or not 0 < tpot < math.inf:
        raise InvalidValue(
            f"{measurement.file} has no mean TPOT: give the result of a benchmark that streams "
            "answers, such as vllm bench serve, sglang.bench_serving or aiperf"
        )
    if apart := account.failed(account.of_result(measurement)):
        said = "; ".join(check.sentence for check in apart)
        raise InvalidValue(f"{measurement.file}: a result that fails a check is not used: {said}")
    return BenchmarkResult(tpot, measured_figures(measurement), _load(measurement))


def _load(measurement: ServingMeasurement) -> dict[str, Any]:
    """Parameters of the load, as far as the file states them.

    All users of a closed loop start together.  Lengths are those of every request where they were
    saved.
    """
    load = load_of(measurement, {})
    told = {name: value for name, value in parameters(measurement, load).items() if value}
    told.pop("batch", None)
    told |= {"burst_start": True} if "concurrency" in told else {}
    told |= {"requests": load.requests} if load.requests else {}
    pairs = listed_lengths(measurement.requests)
    unknown = [name for name in ("isl", "osl") if not getattr(load, name)]
    for name in unknown if pairs is None else ("isl", "osl", "length_ratio"):
        told.pop(name, None)
    return told if pairs is None else {**told, "lengths": pairs}
