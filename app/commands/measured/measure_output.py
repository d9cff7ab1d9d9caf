"""Output of `ridgeline measure`: a run, a sweep or ranks as tables or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from app.commands import options as opt
from app.measuring.comparison import folded
from app.measuring.outcome import Outcome, Swept
from app.measuring.prediction import phase_rows

if TYPE_CHECKING:
    from profilers.collect.model import ModelRun


def print_run(outcome: Outcome, identity: str, json: bool) -> None:
    """Print phases, operators and notes of a run in this process.

    identity: of the kept run, "" where it is not kept.
    """
    run = outcome.live
    assert run is not None
    rows = phase_rows(run, outcome.context)
    operators = run.measurement.operators
    notes = [*outcome.measurement.notes, *outcome.context.notes]
    columns = ["phase", "name", "kind", "count", "time_s"]
    longest = operators[columns].head(12).to_dict("records") if len(operators) else []
    use = [run.use.summary()] if run.use else []
    document = _run_document(run, rows, notes, identity)
    opt.show(json, document, list(map(folded, rows)), longest, use, _end(notes, identity))


def _run_document(
    run: ModelRun, rows: list[dict[str, Any]], notes: list[str], identity: str
) -> dict[str, Any]:
    """A run as the document for `--json`.  rows: from `phase_rows`."""
    measurement = run.measurement
    operators = measurement.operators
    status = "out_of_memory" if run.out_of_memory else "ok"
    return {
        "status": "cancelled" if run.cancelled else status,
        "model": measurement.model,
        "parameters": run.parameters,
        "device": measurement.system.name if measurement.system else None,
        "engine": measurement.engine,
        "batch": run.settings.batch,
        "isl": run.settings.isl,
        "osl": run.settings.osl,
        "phases": rows,
        "samples_s": {k: list(v.samples_s) for k, v in measurement.phases.items()},
        "operators": operators.astype(object).where(operators.notna(), None).to_dict("records"),
        "use": run.use.summary() if run.use else None,
        "facts": dict(run.facts),
        "notes": notes,
        "run": identity or None,
    }


def print_prompts(outcome: Outcome, identity: str, json: bool) -> None:
    """Print TTFT and TPOT of each prompt with their predictions."""
    measured, rows = outcome.measurement, list(outcome.prompts)
    notes = [*measured.notes, *outcome.context.notes]
    document = {
        "model": measured.model,
        "prompts": rows,
        **outcome.metrics,
        "facts": dict(measured.facts),
        "notes": notes,
        "run": identity or None,
    }
    columns = ("id", "isl", "osl", "status")
    figures = ("s", "predicted_s", "error")
    shown = [
        {
            **{name: row[name] for name in columns},
            **{f"{of}_{name}": row[f"{of}_{name}"] for of in ("ttft", "tpot") for name in figures},
        }
        for row in rows
    ]
    errors = {of: outcome.metrics.get(f"{of}_median_error") for of in ("ttft", "tpot")}
    words = [
        f"{of.upper()}: median error {error:.0%}"
        for of, error in errors.items()
        if error is not None and error == error  # not NaN
    ]
    opt.show(json, document, shown, "\n".join(words), _end(notes, identity))


def print_ranks(outcome: Outcome, identity: str, json: bool) -> None:
    """Print phases, skew and collectives of a run over ranks."""
    measured, figures = outcome.measurement, outcome.metrics
    rows = [
        {
            "phase": name,
            "samples": len(timing.samples_s),
            "p50_s": timing.median_s,
            "mean_s": timing.mean_s,
            "std_s": timing.std_s,
        }
        for name, timing in measured.phases.items()
    ]
    document = {
        "phases": rows,
        "ranks": [{k: list(v) for k, v in rank.items()} for rank in figures["ranks"]],
        "skew": figures["skew"],
        "collectives": [dict(row) for row in figures["collectives"]],
        "facts": dict(measured.facts),
        "notes": list(measured.notes),
        "run": identity or None,
    }
    words = f"{measured.notes[0]}; slowest over fastest rank +{figures['skew']:.0%}"
    columns = ("format", "shape", "time_s", "spread")
    shown = [{key: row[key] for key in columns} for row in figures["collectives"]]
    opt.show(json, document, rows, words, shown, _end([], identity))


def print_sweep(swept: Swept, identity: str, json: bool) -> None:
    """Print the steps of a sweep with their predictions, and how well the two agree."""
    fits = {name: fit.row() for name, fit in swept.agreement.items()}
    document = {"rows": swept.rows, "agreement": fits, "notes": list(swept.notes),
                "run": identity or None}  # fmt: skip
    shown = [{"phase": name, **fit.row()} for name, fit in swept.agreement.items() if fit.points]
    opt.show(json, document, list(map(folded, swept.rows)), shown, _end(swept.notes, identity))


def _end(notes: Sequence[str], identity: str) -> str:
    """The notes, and how to find the kept run."""
    found = f"kept as {identity[:8]}: `ridgeline runs show {identity[:8]}`"
    return "\n".join([*(f"note: {note}" for note in notes), *([found] if identity else [])])
