"""What `ridgeline measure` prints of a run, a sweep and ranks."""

from __future__ import annotations

import typer

from app.measuring.comparison import folded
from app.measuring.outcome import Outcome, Swept
from app.measuring.prediction import phase_rows
from app.wording.tables import Format, render, to_json


def print_run(outcome: Outcome, kept: str, json: bool) -> None:
    done, known = outcome.live, outcome.known
    assert done is not None
    rows = phase_rows(done, known)
    operators = done.measurement.operators
    notes = [*outcome.measurement.notes, *known.notes]
    status = "out_of_memory" if done.out_of_memory else "ok"
    if json:
        table = operators.astype(object).where(operators.notna(), None)
        facts = {
            "status": "cancelled" if done.cancelled else status,
            "model": done.measurement.model,
            "parameters": done.parameters,
            "device": done.measurement.system.name if done.measurement.system else None,
            "engine": done.measurement.engine,
            "batch": done.settings.batch,
            "isl": done.settings.isl,
            "osl": done.settings.osl,
            "phases": rows,
            "samples_s": {k: list(v.samples_s) for k, v in done.measurement.phases.items()},
            "operators": table.to_dict("records"),
            "use": done.use.summary() if done.use else None,
            "facts": dict(done.facts),
            "notes": notes,
            "run": kept or None,
        }
        typer.echo(to_json(facts))
        return
    if rows:
        typer.echo(render(list(map(folded, rows)), Format.text))
    if len(operators):
        columns = ["phase", "name", "kind", "count", "time_s"]
        typer.echo("\n" + render(operators[columns].head(12).to_dict("records"), Format.text))
    if done.use:
        typer.echo("\n" + render([done.use.summary()], Format.text))
    for note in notes:
        typer.echo(f"note: {note}")
    _print_kept(kept)


def print_ranks(outcome: Outcome, kept: str, json: bool) -> None:
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
    if json:
        facts = {
            "phases": rows,
            "ranks": [{k: list(v) for k, v in rank.items()} for rank in figures["ranks"]],
            "skew": figures["skew"],
            "collectives": [dict(row) for row in figures["collectives"]],
            "facts": dict(measured.facts),
            "notes": list(measured.notes),
            "run": kept or None,
        }
        typer.echo(to_json(facts))
        return
    typer.echo(render(rows, Format.text))
    typer.echo(f"\n{measured.notes[0]}; slowest over fastest rank +{figures['skew']:.0%}")
    if figures["collectives"]:
        columns = ("format", "shape", "time_s", "spread")
        shown = [{key: row[key] for key in columns} for row in figures["collectives"]]
        typer.echo("\n" + render(shown, Format.text))
    _print_kept(kept)


def print_sweep(done: Swept, kept: str, json: bool) -> None:
    rows, agreed, notes = done.rows, done.agreement, list(done.notes)
    if json:
        fits = {name: found.row() for name, found in agreed.items()}
        facts = {"rows": rows, "agreement": fits, "notes": notes, "run": kept or None}
        typer.echo(to_json(facts))
        return
    typer.echo(render(list(map(folded, rows)), Format.text))
    shown = [{"phase": name, **found.row()} for name, found in agreed.items() if found.points]
    if shown:
        typer.echo("\n" + render(shown, Format.text))
    for note in notes:
        typer.echo(f"note: {note}")
    _print_kept(kept)


def _print_kept(kept: str) -> None:
    if kept:
        typer.echo(f"kept as {kept[:8]}: `ridgeline runs show {kept[:8]}`")
