"""A serving benchmark's result in one form, whichever tool wrote it: `ServingMeasurement`.

What the file does not state is None (in a mapping: no entry) and never guessed.  Latencies are in
seconds, lengths in tokens, rates per second; `definitions` says what a latency means in that tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pandas as pd

LATENCIES = ("ttft_s", "tpot_s", "itl_s", "e2e_s")

#: Column -> dtype of `ServingMeasurement.requests`; NaN where a request has no such figure.
REQUEST_COLUMNS: Mapping[str, str] = {
    "arrival_s": "float64",  # after the first request of the run
    "isl": "float64",
    "osl": "float64",
    "ttft_s": "float64",
    "tpot_s": "float64",
    "e2e_s": "float64",
    "ok": "bool",
}


@dataclass(frozen=True, slots=True)
class Percentiles:
    """The distribution of a figure over a run, as far as it is known.

    at: percent -> value (50.0 is the median), in ascending order of percent.
    count: number of values, where it is known.
    """

    mean: float | None = None
    std: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    at: Mapping[float, float] = field(default_factory=dict)
    count: int | None = None

    def __bool__(self) -> bool:
        return self.mean is not None or bool(self.at)

    @property
    def p50(self) -> float | None:
        return self.at.get(50.0)

    @property
    def typical(self) -> float | None:
        """The mean, or the median where there is no mean."""
        return self.mean if self.mean is not None else self.p50


@dataclass(frozen=True, slots=True)
class Subject:
    """What was measured and with what, as the file states it.

    engine: under the name of Ridgeline's engine where there is one ("vllm", "sglang").
    devices: accelerators of one replica.  degrees: "tp", "pp", "dp", "ep" -> ranks.
    precision: of the weights, in the tool's own words.  bits_per_weight: bytes of the weights over
    parameters, where the file states both.  date: ISO 8601.
    label: distinguishes this measurement from others of its file.
    """

    tool: str
    tool_version: str | None = None
    engine: str | None = None
    engine_version: str | None = None
    model: str | None = None
    device: str | None = None
    devices: int | None = None
    degrees: Mapping[str, int] = field(default_factory=dict)
    precision: str | None = None
    kv_precision: str | None = None
    bits_per_weight: float | None = None
    date: str | None = None
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Stated:
    """A parameter's value and where it was found, as a phrase."""

    value: Any
    evidence: str


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """The load that was sent.

    concurrency: limit of open requests; `concurrency_mean`: their measured mean.
    rate: requests/s as configured, infinity for all at once.  burstiness: shape of the gamma
    distribution of gaps, 1 for Poisson arrivals.  rate_achieved: requests/s that were sent.
    requests: number sent.  completed: number answered.  errors: number failed.
    """

    concurrency: float | None = None
    concurrency_mean: float | None = None
    rate: float | None = None
    rate_achieved: float | None = None
    burstiness: float | None = None
    requests: int | None = None
    completed: int | None = None
    errors: int | None = None
    duration_s: float | None = None
    dataset: str | None = None

    @property
    def unanswered(self) -> int | None:
        """Requests that failed, or were sent and never answered; None where that is unknown."""
        if self.errors is not None or self.requests is None or self.completed is None:
            return self.errors
        return max(self.requests - self.completed, 0)

    @property
    def failure(self) -> str:
        """How many requests were not answered, as a sentence; "" where none is known."""
        lost = self.unanswered
        if not lost:
            return ""
        of = f" of {self.completed + lost:,}" if self.completed is not None else ""
        happened = "failed" if self.errors is not None else "were not answered"
        return f"{lost:,}{of} requests {happened}"


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of a request.

    isl, osl: as measured.  isl_asked, osl_asked: as configured.
    length_ratio: lengths were drawn uniformly in [ratio, 1] times those configured.
    context: tokens in the cache before the prompt (llama-bench's depth).
    """

    isl: Percentiles = Percentiles()
    osl: Percentiles = Percentiles()
    isl_asked: float | None = None
    osl_asked: float | None = None
    length_ratio: float | None = None
    context: float | None = None


@dataclass(frozen=True, slots=True)
class Throughput:
    """Rates over the whole run [1/s]."""

    requests_per_s: float | None = None
    input_tokens_per_s: float | None = None
    output_tokens_per_s: float | None = None
    total_tokens_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class ServingMeasurement:
    """One measured run at one load.

    format: tool that wrote the file ("vllm bench serve").
    phase: "prefill" or "decode" where only one was run (llama-bench); "" for serving.
    definitions: field -> its meaning in the tool, where that is known.
    tpot_includes_first: whether the tool's TPOT is the whole time over all tokens.
    requests: one row per request (`REQUEST_COLUMNS`), where the file lists them.
    server: figures of the serving process by name (KV use, queue), where the file has them.
    notes: sentences on figures that were reinterpreted or should not be trusted.
    truncated: where the file breaks off, in a sentence; "" where it is complete.
    stated: what the server reported about itself, in its log or in the file, by parameter: limits,
    parallel degrees, version.
    file: name of the file.
    """

    format: str
    subject: Subject
    load: MeasuredLoad = MeasuredLoad()
    lengths: Lengths = Lengths()
    ttft_s: Percentiles = Percentiles()
    tpot_s: Percentiles = Percentiles()
    itl_s: Percentiles = Percentiles()
    e2e_s: Percentiles = Percentiles()
    throughput: Throughput = Throughput()
    phase: Literal["", "prefill", "decode"] = ""
    definitions: Mapping[str, str] = field(default_factory=dict)
    tpot_includes_first: bool = False
    requests: pd.DataFrame | None = None
    server: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    truncated: str = ""
    stated: Mapping[str, Stated] = field(default_factory=dict)
    file: str = ""

    @property
    def decode_tpot_s(self) -> Percentiles:
        """Mean gap between output tokens, as in a predicted TPOT: the tool's TPOT, or its
        inter-token latency if the tool's TPOT includes the first token.
        """
        return self.itl_s if self.tpot_includes_first else self.tpot_s

    def with_latencies(self, found: Mapping[str, Percentiles]) -> ServingMeasurement:
        """A copy with some latencies replaced, by field."""
        changes: dict[str, Any] = dict(found)
        return replace(self, **changes)

    def latencies(self) -> dict[str, Percentiles]:
        """The latencies that were measured, by field."""
        return {name: value for name in LATENCIES if (value := getattr(self, name))}


def missing(measurement: ServingMeasurement) -> tuple[str, ...]:
    """What must be asked, because the file does not state it, to predict the same run.

    Returns: some of "model", "device", "devices" (or degrees), "engine", "precision", "isl",
    "osl" and "load" (a concurrency, or a rate), in that order.
    """
    subject, load, lengths = measurement.subject, measurement.load, measurement.lengths
    known = {
        "model": subject.model is not None,
        "device": subject.device is not None,
        "devices": subject.devices is not None or bool(subject.degrees),
        "engine": subject.engine is not None,
        "precision": subject.precision is not None,
        "isl": measurement.phase == "decode" or (lengths.isl.typical or lengths.isl_asked or 0) > 0,
        "osl": measurement.phase == "prefill"
        or (lengths.osl.typical or lengths.osl_asked or 0) > 0,
        "load": (load.concurrency or load.rate or load.concurrency_mean) is not None,
    }
    return tuple(name for name, is_known in known.items() if not is_known)


def table(measurements: Iterable[ServingMeasurement]) -> list[dict[str, Any]]:
    """One row per measurement, all with the same columns, None where nothing is known."""
    return [_row(measurement) for measurement in measurements]


_SHOWN = (50.0, 90.0, 95.0, 99.0)


def _row(m: ServingMeasurement) -> dict[str, Any]:
    subject, load, lengths, rates = m.subject, m.load, m.lengths, m.throughput
    degrees = ", ".join(f"{name} {ranks}" for name, ranks in subject.degrees.items())
    row: dict[str, Any] = {
        "file": m.file, "format": m.format, "label": subject.label, "phase": m.phase or None,
        "tool": subject.tool, "tool_version": subject.tool_version,
        "engine": subject.engine, "engine_version": subject.engine_version,
        "model": subject.model, "device": subject.device, "devices": subject.devices,
        "degrees": degrees or None, "precision": subject.precision, "date": subject.date,
        "concurrency": load.concurrency, "concurrency_mean": load.concurrency_mean,
        "rate": load.rate, "rate_achieved": load.rate_achieved, "burstiness": load.burstiness,
        "requests": load.requests, "completed": load.completed, "errors": load.errors,
        "duration_s": load.duration_s,
        "isl": _length(lengths.isl, lengths.isl_asked),
        "osl": _length(lengths.osl, lengths.osl_asked),
        "context": lengths.context,
    }  # fmt: skip
    for name in LATENCIES:
        found: Percentiles = getattr(m, name)
        stem = name.removesuffix("_s")
        row[f"{stem}_mean_s"], row[f"{stem}_std_s"] = found.mean, found.std
        row |= {f"{stem}_p{percent:g}_s": found.at.get(percent) for percent in _SHOWN}
    row |= {
        "requests_per_s": rates.requests_per_s,
        "input_tokens_per_s": rates.input_tokens_per_s,
        "output_tokens_per_s": rates.output_tokens_per_s,
        "total_tokens_per_s": rates.total_tokens_per_s,
        "request_rows": None if m.requests is None else len(m.requests),
        "missing": ", ".join(missing(m)) or None,
    }
    return row


def _length(real: Percentiles, asked: float | None) -> float | None:
    return real.typical if real else asked
