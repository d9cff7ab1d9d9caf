"""The requests of a measured run sent through the simulation, and where the two diverge.

The simulation uses the same lengths, and the same arrivals if the file lists them.  Otherwise a
closed loop sends the requests in their order, and a rate draws new arrivals, so only the
distributions can be compared.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from app.benchmarks.deployment import Deployment
from app.benchmarks.replayed_load import MOST, as_trace, run_as_measured, trace_of
from app.question.question import Question
from app.scenario.scenario import asking
from app.simulation.run import Run
from app.simulation.trace_file import Trace
from app.wording import quantities
from genz_core.common.progress import Cancel, Progress, never, silent
from genz_core.errors import InvalidValue
from genz_core.serving.simulation import draws
from genz_core.types import Array

LATENCIES = ("ttft", "e2e")
#: Least requests on either side of a divergence, and least difference between the sides.
_LEAST, _APART = 8, 1.25
_AXES = {
    "arrival_s": "requests that arrived after {value}",
    "isl": "prompts of more than {value} tokens",
    "osl": "answers of more than {value} tokens",
}


@dataclass(frozen=True, slots=True)
class Parting:
    """Where measured over simulated changes most along an axis.

    axis: "arrival_s", "isl" or "osl".  value: position on it.  before, after: median ratio on
    both sides.
    """

    latency: str
    axis: str
    value: float
    before: float
    after: float

    @property
    def sentence(self) -> str:
        """The divergence in words."""
        shown = quantities.seconds(self.value) if self.axis == "arrival_s" else f"{self.value:,.0f}"
        return (
            f"{self.latency.upper()}: {_AXES[self.axis].format(value=shown)} took "
            f"{self.after:.2f} x the simulated time, the others {self.before:.2f} x"
        )


@dataclass(frozen=True, slots=True)
class Replay:
    """Requests measured and simulated.

    table: one row per request: request, arrival_s, isl, osl, and for TTFT and E2E *_measured_s,
    *_simulated_s and *_ratio.  arrivals: "of the file", "one after another" or "drawn".
    """

    table: pd.DataFrame
    run: Run
    arrivals: str
    partings: tuple[Parting, ...]
    notes: tuple[str, ...] = ()

    @property
    def sentences(self) -> list[str]:
        """How far off the requests are, and where they diverge."""
        found = []
        for latency in LATENCIES:
            ratio = self.table[f"{latency}_ratio"].dropna()
            if len(ratio):
                low, middle, high = np.percentile(ratio, (10, 50, 90))
                found.append(
                    f"{latency.upper()} of {len(ratio):,} requests: measured is {middle:.2f} x the "
                    f"simulated in the median, {low:.2f} to {high:.2f} x for 80 % of them"
                )
        return [*found, *(parting.sentence for parting in self.partings)]

    def document(self, most: int = 0) -> dict[str, Any]:
        """The replay as `ridgeline compare --replay --json` prints it.  most: largest number of
        rows, 0 for all.
        """
        shown = self.table.head(most) if most else self.table
        return {
            "requests": len(self.table),
            "arrivals": self.arrivals,
            "sentences": self.sentences,
            "notes": list(self.notes),
            "rows": shown.to_dict("records"),
        }


def can_replay(deployment: Deployment) -> bool:
    """Whether the file lists requests with latencies to compare, and nothing is missing."""
    requests = deployment.measurement.requests
    return (
        deployment.resolved is not None and requests is not None and bool(_usable(requests).any())
    )


def replay(
    deployment: Deployment, progress: Progress = silent, cancelled: Cancel = never
) -> Replay:
    """Send the requests of a run through the simulation.

    Raises:
        InvalidValue: the file lists no requests, or something required is missing.
        Cancelled: `cancelled` returned True.
    """
    resolved, listed = deployment.priced(), deployment.measurement.requests
    if listed is None or not can_replay(deployment):
        raise InvalidValue(
            f"{deployment.measurement.file} lists no requests with lengths and latencies: save them"
            " with the benchmark (vllm bench serve --save-detailed, sglang --output-details, "
            "aiperf's profile_export.jsonl)"
        )
    kept = listed[_usable(listed)].reset_index(drop=True)
    notes = _cut_notes(len(listed), len(kept))
    kept, arrivals = _arranged(kept.head(MOST), deployment)
    trace = trace_of(kept, deployment.measurement.file)
    question = _asked(resolved.scenario, arrivals, trace, len(kept))
    asked = asking(resolved, question)
    outcome = run_as_measured(asked, deployment.objects, progress, cancelled, trace)
    table = _beside(kept, outcome)
    if arrivals == "drawn":
        words = "the file does not say when requests came: arrivals are drawn anew at its rate"
        return Replay(table, outcome, arrivals, (), (*notes, words))
    return Replay(table, outcome, arrivals, tuple(_partings(table)), notes)


def _usable(requests: pd.DataFrame) -> Any:
    """Requests with both lengths and a latency."""
    lengths = (requests["isl"] >= 1) & (requests["osl"] >= 1)
    return requests["ok"] & lengths & (requests["ttft_s"].notna() | requests["e2e_s"].notna())


def _asked(question: Question, arrivals: str, trace: Trace, count: int) -> Question:
    """The question with the requests of a run instead of a random load."""
    name = trace.name or "requests"
    if arrivals == "one after another" and question.concurrency:
        users = min(question.concurrency, count)
        return replace(
            question, concurrency=users, burst_start=True, requests=count, lengths=name,
            length_ratio=None,
        )  # fmt: skip
    return as_trace(question, name)


def _cut_notes(listed: int, kept: int) -> tuple[str, ...]:
    notes = []
    if kept < listed:
        notes.append(f"{listed - kept:,} of {listed:,} requests have no lengths or no answer")
    if kept > MOST:
        notes.append(f"the first {MOST:,} of {kept:,} requests are replayed")
    return tuple(notes)


def _arranged(requests: pd.DataFrame, deployment: Deployment) -> tuple[pd.DataFrame, str]:
    """The requests in sending order, and the origin of their arrival times."""
    if requests["arrival_s"].notna().all():
        ordered = requests.sort_values("arrival_s", kind="stable", ignore_index=True)
        return ordered.assign(arrival_s=ordered["arrival_s"] - ordered["arrival_s"].iloc[0]), (
            "of the file"
        )
    load, count = deployment.load, len(requests)
    if load.rate:
        generator = np.random.default_rng(0)
        shape = max(load.burstiness, 1e-3)
        times = draws.bursty_arrivals(count, load.rate, shape, generator)
        return requests.assign(arrival_s=times), "drawn"
    return requests.assign(arrival_s=0.0), "one after another"


def _beside(requests: pd.DataFrame, outcome: Run) -> pd.DataFrame:
    table = pd.DataFrame(
        {
            "request": np.arange(len(requests)),
            "arrival_s": outcome.simulation.arrival_s,
            "isl": requests["isl"],
            "osl": requests["osl"],
        }
    )
    for latency in LATENCIES:
        measured = requests[f"{latency}_s"].to_numpy(dtype=float)
        simulated = np.asarray(getattr(outcome.simulation, f"{latency}_s"))
        table[f"{latency}_measured_s"] = measured
        table[f"{latency}_simulated_s"] = simulated
        with np.errstate(all="ignore"):
            table[f"{latency}_ratio"] = np.where(simulated > 0, measured / simulated, math.nan)
    return table


# ------------------------------------------------------------------------------- partings


def _partings(table: pd.DataFrame) -> Iterator[Parting]:
    """For each latency, the axis along which measured over simulated changes most, if by much."""
    for latency in LATENCIES:
        found = [_parting(table, latency, axis) for axis in _AXES]
        known = [one for one in found if one is not None]
        if known:
            yield max(known, key=lambda one: abs(math.log(one.after / one.before)))


def _parting(table: pd.DataFrame, latency: str, axis: str) -> Parting | None:
    """The largest step of the ratio along an axis, None where it is small.

    The step is where the cumulative sum of the logarithm's deviation from its mean is largest.
    """
    ratio = table[f"{latency}_ratio"].to_numpy(dtype=float)
    known = np.isfinite(ratio) & (ratio > 0)
    values, ratio = table[axis].to_numpy(dtype=float)[known], ratio[known]
    order = np.argsort(values, kind="stable")
    values, ratio = values[order], ratio[order]
    at = _step(values, np.log(ratio))
    if at is None:
        return None
    before, after = float(np.median(ratio[:at])), float(np.median(ratio[at:]))
    if abs(math.log(after / before)) < math.log(_APART):
        return None
    return Parting(latency, axis, float(values[at - 1]), before, after)


def _step(values: Array, logs: Array) -> int | None:
    """Row before which a sorted series steps; None where either side would have too few rows."""
    if len(logs) < 2 * _LEAST:
        return None
    rows = np.arange(1, len(logs))
    allowed = (rows >= _LEAST) & (rows <= len(logs) - _LEAST) & (np.diff(values) > 0)
    if not allowed.any():
        return None
    drift = np.abs(np.cumsum(logs - logs.mean()))[:-1]
    return int(rows[np.argmax(np.where(allowed, drift, -1.0))])
