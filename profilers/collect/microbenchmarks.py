"""Microbenchmarks of single operators; their results are the points of a calibration.

Each case draws its weights, keys and values from a pool larger than any cache, so that they are
as cold as in a step of a model.  Every case runs once per round, over several rounds, and the
median counts: a disturbance of the machine then affects one round of many cases, not every round
of one case.
"""

from __future__ import annotations

import datetime
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from genz_core.common.progress import Cancel, Cancelled, Progress, never, silent
from genz_core.errors import MeasurementError
from genz_core.latency.measured_operators import OperatorPoints
from genz_core.types import Num
from profilers.collect.bench import Bench, Case, Run
from profilers.collect.cases import standard_cases
from profilers.collect.clock import Clock
from profilers.collect.measured_model import first_line
from profilers.spread import relative_spread

_ROUNDS = 9
_LEAST_ROUNDS = 3
_STEPS_TOGETHER = 5


@dataclass(frozen=True, slots=True)
class CaseTimings:
    """A case with its seconds in each round.  work, moved: FLOPs and bytes of one run."""

    operator: str
    fmt: str
    dims: Mapping[str, float]
    work: float
    moved: float
    samples_s: tuple[float, ...]

    @property
    def median_s(self) -> float:
        return statistics.median(self.samples_s)

    @property
    def spread(self) -> float:
        return relative_spread(self.samples_s)

    def row(self) -> dict[str, Any]:
        """Operator, format, shape, median, spread and rates, for tables and files."""
        return {
            "operator": self.operator,
            "format": self.fmt,
            "shape": " ".join(f"{name}={value:g}" for name, value in self.dims.items()),
            "time_s": self.median_s,
            "spread": self.spread,
            "flops_per_s": self.work / self.median_s,
            "bytes_per_s": self.moved / self.median_s,
            "rounds": len(self.samples_s),
        }


@dataclass(frozen=True, slots=True)
class Suite:
    """Finished microbenchmarks.  facts: device, threads, clock, library versions, date."""

    results: tuple[CaseTimings, ...]
    facts: Mapping[str, str | float | int] = field(default_factory=dict)

    def rows(self) -> list[dict[str, Any]]:
        """A row per case."""
        return [result.row() for result in self.results]

    def results_of(self, operator: str, fmt: str = "") -> list[CaseTimings]:
        """The results of one operator, of all formats or of one."""
        return [r for r in self.results if r.operator == operator and fmt in ("", r.fmt)]

    def operator_points(self) -> tuple[OperatorPoints, ...]:
        """The results for operators that a latency profile has constants for, as the calibration
        takes them.
        """
        groups: dict[tuple[str, str], list[CaseTimings]] = {}
        for result in self.results:
            if (result.operator, result.fmt) in _CALIBRATED or result.operator == "collective":
                groups.setdefault((result.operator, result.fmt), []).append(result)
        return tuple(self._points_of_group(key, results) for key, results in groups.items())

    def _points_of_group(
        self, key: tuple[str, str], results: Sequence[CaseTimings]
    ) -> OperatorPoints:
        on_cpu = self.facts.get("device_type") == "cpu"
        dims: dict[str, Num] = {
            name: np.array([result.dims[name] for result in results]) for name in results[0].dims
        }
        return OperatorPoints(
            *key,
            dims,
            np.array([result.median_s for result in results]),
            warm_cache=key[0] == "pointwise",
            source=f"microbenchmarks with {self.facts.get('library', 'torch')}",
            on_cpu=on_cpu,
        )

    def joined(self, later: Suite) -> Suite:
        """Both suites' rounds, case by case; cases that only one of them ran are left out."""
        rounds = {_key(result): result.samples_s for result in later.results}
        both = tuple(
            replace(result, samples_s=result.samples_s + rounds[_key(result)])
            for result in self.results
            if _key(result) in rounds
        )
        seconds = float(self.facts.get("wall_s", 0.0)) + float(later.facts.get("wall_s", 0.0))
        return Suite(both, {**self.facts, "wall_s": seconds})

    @property
    def peak_flops_per_s(self) -> dict[str, float]:
        """Largest rate of the products of a kernel by number format.

        Those of attention count: a CPU without products of bf16 multiplies matrices of bf16 slowly,
        and the queries and keys of its attention as fp32, several times as fast.
        """
        rates: dict[str, float] = {}
        for result in (*self.results_of("gemm"), *self.results_of("prefill_attention")):
            fmt = result.fmt.partition("/")[0]
            rates[fmt] = max(rates.get(fmt, 0.0), result.work / result.median_s)
        return rates

    @property
    def memory_bytes_per_s(self) -> float:
        """Largest rate of a stream from memory, read or copied."""
        streams = [*self.results_of("read"), *self.results_of("copy")]
        return max(result.moved / result.median_s for result in streams)

    @property
    def spread(self) -> float:
        """Median spread of all cases: the noise of the machine."""
        return statistics.median(result.spread for result in self.results)


def _key(result: CaseTimings) -> tuple[str, str, tuple[tuple[str, float], ...]]:
    return result.operator, result.fmt, tuple(result.dims.items())


#: Operators and formats with constants in a latency profile.
_CALIBRATED = frozenset(
    {
        ("gemm", "bf16"),
        ("prefill_attention", "bf16/bf16"),
        ("decode_attention", "bf16/bf16"),
        ("moe", "bf16"),
        ("pointwise", "default"),
    }
)


def run_suite(
    device: Any,
    cases: Sequence[Case] | None = None,
    *,
    budget_s: float = 100.0,
    in_step: bool = False,
    progress: Progress = silent,
    cancelled: Cancel = never,
) -> Suite:
    """Run the cases in rounds: at least three, then more until the time budget is spent.

    Args:
        device: a torch device.
        cases: what to run, `standard_cases(device)` by default.
        budget_s: seconds on the wall clock.
        in_step: several ranks run the same cases and must make the same calls, so the number of
            runs must not depend on a clock.

    Raises:
        MeasurementError: none of the cases runs here.
        Cancelled: `cancelled` returned True.
    """
    import torch

    wanted = tuple(standard_cases(device) if cases is None else cases)
    bench, began = Bench.on(device), time.perf_counter()
    clock = Clock(device, "wall") if in_step else Clock.for_device(device)
    with torch.inference_mode():
        progress(0.0, "preparing operands")
        chosen, runs, missing = _prepared(wanted, bench)
        inner = [_STEPS_TOGETHER if in_step else _inner(clock, run) for run in runs]
        samples: list[list[float]] = [[] for _ in runs]
        for number in range(_ROUNDS):
            left = budget_s - (time.perf_counter() - began)
            if not in_step and number >= _LEAST_ROUNDS and left < (budget_s - left) / (number + 1):
                break
            for at, (case, run) in enumerate(zip(chosen, runs, strict=True)):
                if cancelled():
                    raise Cancelled(f"round {number + 1} of the microbenchmarks")
                progress((number + at / len(runs)) / _ROUNDS, f"{case.operator} {case.fmt}")
                samples[at].append(_sample(clock, run, inner[at]))
    progress(1.0, "done")
    results = tuple(
        CaseTimings(c.operator, c.fmt, c.dims, c.work, c.moved, tuple(s))
        for c, s in zip(chosen, samples, strict=True)
    )
    facts = _facts(device, clock, time.perf_counter() - began)
    return Suite(results, {**facts, "left_out": "; ".join(missing)} if missing else facts)


def _prepared(cases: Sequence[Case], bench: Bench) -> tuple[list[Case], list[Run], list[str]]:
    """The cases that run on this device with their functions, and a sentence on why each other case
    does not.
    """
    able: list[Case] = []
    runs: list[Run] = []
    missing: list[str] = []
    for case in cases:
        try:
            run = case.prepare(bench)
            run()
        except (RuntimeError, NotImplementedError) as error:
            missing.append(f"{case.operator} {case.fmt}: {first_line(error)}")
            continue
        able.append(case)
        runs.append(run)
    if not able:
        raise MeasurementError(f"no microbenchmark runs here: {missing[0]}")
    return able, runs, sorted(set(missing))


def _inner(clock: Clock, run: Run) -> int:
    """Number of runs per sample, so that a sample is long compared with reading the clock."""
    run()
    least, most = (5e-3, 50) if clock.device.type == "cuda" else (2e-3, 20)
    return int(np.clip(least / max(clock.time(run), 1e-7), 1, most))


def _sample(clock: Clock, run: Run, inner: int) -> float:
    """Seconds of one run; a short case runs once untimed first, to load its code."""
    if inner > 1:
        run()
    return clock.time(run, inner)


def _facts(device: Any, clock: Clock, wall_s: float) -> dict[str, str | float | int]:
    """Device, library, threads, clock, duration and day of a suite."""
    import torch

    return {
        "device_type": device.type,
        "library": f"torch {torch.__version__}",
        "threads": torch.get_num_threads(),
        "clock": clock.basis,
        "wall_s": round(wall_s, 1),
        "day": datetime.date.today().isoformat(),
    }
