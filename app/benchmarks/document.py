"""Comparisons and verdicts as documents, for `--json` and for tables."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from app.benchmarks import identity, report
from app.benchmarks.comparison import Comparison, Point, Row
from app.benchmarks.deployment import Deployment
from app.benchmarks.findings import findings
from app.benchmarks.guard import Guarded
from app.benchmarks.replay import Replay
from app.scenario.scenario import basis


def of_guard(guarded: Guarded, compared: Comparison) -> dict[str, Any]:
    """A guard's verdicts as `ridgeline guard --json` prints them."""
    return {
        "passed": guarded.passed,
        "outcome": guarded.sentence,
        "level": guarded.level,
        "verdicts": [verdict.to_dict() for verdict in guarded.verdicts],
        "not_judged": list(guarded.unjudged),
        "runs": [run_of(point) for point in compared.points],
    }


def run_of(point: Point) -> dict[str, Any]:
    """What ran, what it is priced as, and what was filled in, assumed and contradicted."""
    one, m = point.deployment, point.measurement
    return {
        "run": point.label,
        "file": m.file,
        "truncated": m.truncated,
        "format": m.format,
        "tool": m.subject.tool,
        "engine_version": m.subject.engine_version,
        "date": m.subject.date,
        "load": one.load.document(),
        "priced": priced_as(one),
        "refused": point.refused,
        "status": point.prediction.status if point.prediction else "not predicted",
        "identity": [known.document() for known in identity.of_run(one)],
        "checks": [check.document() for check in point.checks],
        "filled": [asdict(filling) for filling in one.fillings],
        "missing": [asdict(missing) for missing in one.missing],
        "differences": [asdict(difference) for difference in one.differences],
        "notes": list(notes_of(point)),
    }


def priced_as(one: Deployment) -> dict[str, Any] | None:
    """Names and degrees that a run is priced as; None where it cannot be."""
    if one.resolved is None:
        return None
    resolved = one.resolved
    return {
        "model": resolved.model.name,
        "system": resolved.system.slug,
        "engine": resolved.engine.name,
        "weights": dict(resolved.model.precision.weights),
        **{name: getattr(one.scenario, name) for name in ("tp", "pp", "dp", "ep")},
        "basis": basis(resolved),
    }


def notes_of(point: Point) -> tuple[str, ...]:
    """Notes of the file's reader and of the prediction."""
    predicted = point.prediction.notes if point.prediction else ()
    return tuple(dict.fromkeys((*point.measurement.notes, *predicted)))


def of_comparison(compared: Comparison, replayed: Sequence[Replay] = ()) -> dict[str, Any]:
    """A comparison as `ridgeline compare --json` prints it."""
    return {
        "kind": "benchmark results",
        "level": compared.level,
        "runs": [
            {**run_of(point), "figures": [row.to_dict() for row in point.rows]}
            for point in compared.points
        ],
        "findings": [asdict(finding) for finding in findings(compared)],
        "report": [
            {"run": compared.label(point), **made.document()}
            for point, made in report.reports(compared)
        ],
        "replays": [one.document() for one in replayed],
        "notes": list(compared.notes),
    }


def short_row(row: Row, level: float) -> dict[str, Any]:
    """A figure for a reader, with its interval in one cell."""
    one = row.predicted

    def words(value: float) -> str:
        return row.column.words(value) if math.isfinite(value) else ""

    ends = f"{words(one.low)} to {words(one.high)}" if math.isfinite(one.low) else ""
    return {
        "figure": row.column.head,
        "measured": words(row.measured),
        "predicted": words(one.value),
        f"{level * 100:g} %": ends,
        "bound": words(one.bound),
        "measured / predicted": row.ratio,
        "simulated": words(row.simulated),
        "place": row.place if row.place != "not predicted" else "",
    }


def cuts(compared: Comparison) -> list[str]:
    """A sentence for each truncated file."""
    every = (point.measurement for point in compared.points)
    return list(dict.fromkeys(f"{m.file}: {m.truncated}" for m in every if m.truncated))


def sentences(compared: Comparison) -> list[str]:
    """What was assumed and noted, one line each."""
    told = {
        f"filled: {filling}": None for p in compared.points for filling in p.deployment.fillings
    }
    asked = {f"asked: {one}": None for p in compared.points for one in p.deployment.missing}
    ran = {
        f"ran: {one}": None
        for p in compared.points for one in identity.of_run(p.deployment)
        if one.certainty == "likely" and one.candidates
    }  # fmt: skip
    said = (*noted(compared), *compared.notes)
    return [*told, *asked, *ran, *(f"note: {words}" for words in said)]


def noted(compared: Comparison) -> list[str]:
    """The notes of all runs; a note that not all runs have names its run."""
    every = [(compared.label(point), notes_of(point)) for point in compared.points]
    shared = set.intersection(*(set(notes) for _, notes in every)) if every else set()
    found = {
        words if words in shared else f"{run}: {words}": None
        for run, notes in every for words in notes
    }  # fmt: skip
    return list(found)


def assumptions(compared: Comparison) -> list[str]:
    """Assumptions, one sentence each; those that several runs share appear once."""
    found: dict[str, None] = {}
    for point in compared.points:
        one = point.deployment
        for filling in one.fillings:
            if filling.field not in ("model", "engine", "load"):
                found[f"{filling.field} {filling.value}: {filling.evidence}"] = None
        for missing in one.missing:
            if missing.assumed:
                found[str(missing)] = None
    return list(found)
