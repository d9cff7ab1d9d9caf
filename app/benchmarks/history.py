"""Results among the kept runs, and the history of one deployment over versions and dates.

A result is stored as its file, with what the user stated where the file is silent.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app.benchmarks.comparison import measured_figures
from app.benchmarks.deployment import Deployment, deployment
from app.benchmarks.upload_parsing import SentResult
from app.measuring.endpoint_run import FILE, SOURCE, listed, results_of
from app.measuring.run_store import store, stores
from genz_core import Workload
from genz_core.errors import RidgelineError
from profilers import Measurement

#: The key among a kept result's facts for what the user stated.
GIVEN_FACT = "given"
_FOLDER = "result"
_MOST = 200
FIGURES = (
    "ttft_mean_s", "ttft_p99_s", "tpot_mean_s", "tpot_p99_s", "e2e_mean_s", "output_tokens_per_s",
)  # fmt: skip


def keep(sent: SentResult, runs: Sequence[Deployment], given: Mapping[str, Any]) -> str:
    """Store a result file among the runs; returns its id.

    runs: of the file.  given: what the user stated.

    Raises:
        MeasurementError: nothing can be stored.
    """
    kept = store()
    name = Path(sent.name.replace("\\", "/")).name or "result"
    measurement = _measurement(runs[0], f"{_FOLDER}/{name}", given)
    with kept.draft(measurement, label=name) as draft:
        (draft / _FOLDER).mkdir()
        (draft / _FOLDER / name).write_bytes(sent.content)
        identity = kept.identity(draft)
    kept.tag(identity, "benchmark")
    return identity


def _measurement(one: Deployment, file: str, given: Mapping[str, Any]) -> Measurement:
    """A result as listed in the store, by what it is priced as."""
    load, resolved = one.load, one.resolved
    words = json.dumps({name: value for name, value in given.items() if value})
    facts = {FILE: file, GIVEN_FACT: words, "tool": one.measurement.subject.tool}
    found = listed(one.measurement, facts)
    workload = Workload(*(max(round(n), 1) for n in (load.users, load.mean_isl, load.mean_osl)))
    if resolved is None:
        return replace(found, workload=workload)
    model, engine = resolved.model.name, resolved.engine.name
    return replace(found, workload=workload, model=model, engine=engine)


def rows(like: Deployment | None = None) -> list[dict[str, Any]]:
    """Every run of the kept results, the oldest first; only those of one deployment if it is given.

    when: engine version and date as far as the file states them, otherwise when it was stored.
    A result that can no longer be read is left out; `ridgeline runs` says why.
    """
    wanted = name_of(like) if like else ""
    found: list[dict[str, Any]] = []
    for shelf in stores():
        kept = [run for run in shelf.runs() if run.source == SOURCE]
        for run in reversed(kept[:_MOST]):
            try:
                measurement = shelf.load(run.id)
                words = measurement.facts.get(GIVEN_FACT)
                given = json.loads(words) if isinstance(words, str) else {}
                results = results_of(shelf.path(run.id), measurement)
                found += [_row(deployment(one, given), run.created, run.label) for one in results]
            except RidgelineError:
                continue
    chosen = [row for row in found if not wanted or row["deployment"] == wanted]
    return sorted(chosen, key=lambda row: row["date"])


def _row(one: Deployment, created: float, label: str) -> dict[str, Any]:
    subject = one.measurement.subject
    date = subject.date or datetime.fromtimestamp(created, UTC).isoformat()[:19]
    version = subject.engine_version or ""
    figures = measured_figures(one.measurement)
    return {
        "deployment": name_of(one),
        "load": one.load.words,
        "engine_version": version or None,
        "date": date,
        "when": f"{version} {date[:10]}".strip(),
        "label": label,
        **{name: figures.get(name) for name in FIGURES},
    }


def name_of(one: Deployment) -> str:
    """A name for a deployment, independent of its engine's version."""
    if one.resolved is None:
        return one.measurement.subject.model or "unknown"
    resolved, scenario = one.resolved, one.scenario
    weights = "+".join(sorted(set(resolved.model.precision.weights.values())))
    degrees = " ".join(
        f"{name}{getattr(scenario, name)}" for name in ("tp", "pp", "dp", "ep")
        if getattr(scenario, name) > 1
    )  # fmt: skip
    parts = (resolved.model.name, resolved.system.slug, resolved.engine.name, weights, degrees)
    return ", ".join(part for part in parts if part)
