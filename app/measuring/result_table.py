"""Results of serving benchmarks as rows: everything known, or what fits in a terminal."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from app.answers.table import without_empty
from profilers.comparison import account
from profilers.serving_results import ServingMeasurement, missing, table
from profilers.serving_results.server_log import ServerLog

#: Columns for a terminal: who and at which load, the latencies, the rates.
_SHORT = (
    "label", "phase", "concurrency", "rate", "requests", "errors", "isl", "osl", "context",
    "ttft_mean_s", "ttft_p50_s", "ttft_p99_s", "tpot_mean_s", "tpot_p50_s", "tpot_p99_s",
    "itl_mean_s", "itl_p99_s", "e2e_mean_s", "e2e_p50_s", "e2e_p99_s", "requests_per_s",
    "input_tokens_per_s", "output_tokens_per_s",
)  # fmt: skip
#: Columns that a mean or a median replaces in a terminal.
_INSTEAD = {"ttft_p50_s": "ttft_mean_s", "tpot_p50_s": "tpot_mean_s", "e2e_p50_s": "e2e_mean_s"}
_WORDS = {
    "model": "the model", "device": "the hardware", "devices": "how many devices",
    "engine": "the engine", "precision": "the precision of the weights", "isl": "prompt tokens",
    "osl": "output tokens", "load": "the concurrency or the rate",
}  # fmt: skip


def full_rows(measurements: Sequence[ServingMeasurement]) -> list[dict[str, Any]]:
    """One row per measurement, with every column that at least one measurement has."""
    return without_empty(table(measurements))


def short_rows(measurements: Sequence[ServingMeasurement]) -> list[dict[str, Any]]:
    """One row per measurement with load, latencies and rates, for a terminal."""
    rows = [{name: row[name] for name in _SHORT} for row in table(measurements)]
    rows = without_empty(rows)
    known = set(rows[0]) if rows else set()
    dropped = {name for name, better in _INSTEAD.items() if {name, better} <= known}
    return [{name: value for name, value in row.items() if name not in dropped} for row in rows]


def documents(measurements: Sequence[ServingMeasurement]) -> list[dict[str, Any]]:
    """One document per measurement: its row, what it lacks, what its figures mean, and notes."""
    found = []
    for measurement, row in zip(measurements, table(measurements), strict=True):
        plain = {name: "inf" if value == math.inf else value for name, value in row.items()}
        found.append(
            {
                "kind": "benchmark result",
                "truncated": measurement.truncated,
                **plain,
                "missing": list(missing(measurement)),
                "tpot_includes_first": measurement.tpot_includes_first,
                "definitions": dict(measurement.definitions),
                "server": dict(measurement.server),
                "checks": [check.document() for check in account.of_result(measurement)],
                "notes": list(measurement.notes),
            }
        )
    return found


def log_document(log: ServerLog) -> dict[str, Any]:
    """Limits and figures stated in a server's log, as `--json` prints them."""
    stated = {name: asdict(one) for name, one in log.stated.items()}
    return {"kind": "server log", "file": log.file, "engine": log.engine, "stated": stated}


def heading(measurements: Sequence[ServingMeasurement]) -> str:
    """What all measurements of a file share: its format, engine, model and device."""
    first = measurements[0]
    parts = []
    for name in ("model", "engine", "engine_version", "device", "devices", "precision"):
        values = {getattr(measurement.subject, name) for measurement in measurements}
        if len(values) == 1 and (value := values.pop()) is not None:
            parts.append(f"{name.replace('_', ' ')} {value}")
    degrees = [f"{name} {size}" for name, size in first.subject.degrees.items()]
    return f"{first.file}: {first.format}; " + "; ".join([*parts, *degrees] or ["nobody is named"])


def notes(measurements: Sequence[ServingMeasurement]) -> list[str]:
    """The notes of all measurements, each once, and what must be asked."""
    found = list(dict.fromkeys(note for m in measurements for note in m.notes))
    lacking = [name for name in _WORDS if any(name in missing(m) for m in measurements)]
    if lacking:
        *first, last = (_WORDS[name] for name in lacking)
        found.append(f"the file does not say {', '.join(first)}{' and ' if first else ''}{last}")
    if any(measurement.tpot_includes_first for measurement in measurements):
        found.append("this tool's TPOT includes the first token; use its ITL to compare")
    return found
