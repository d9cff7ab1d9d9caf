"""ridgeline estimate: price one question, several at once, or a file of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.answers.table import TableFormat, folded, render, to_json
from app.commands import options as opt
from app.commands.piped_json import PIPE, piped
from app.commands.question_options import Given, of_verb
from app.question.load import Load
from app.question.parameters import names_of
from app.wording import quantities
from genz_core.errors import InvalidValue
from genz_core.models.degrees import other_count, parse_degrees, placed

if TYPE_CHECKING:
    from app.scenario.results import Estimate


@of_verb("estimate", optional=True)
def estimate(
    given: Given,
    parallel: Annotated[
        str,
        typer.Option(help='All parallelism degrees in one text, innermost first: "TP{4}_PP{2}".'),
    ] = "",
    points: Annotated[Path | None, typer.Option(help="Points file (CSV) to predict.")] = None,
    output: Annotated[Path | None, opt.target("CSV for the predicted rows.")] = None,
    prefill: Annotated[
        str,
        typer.Option(
            help='Prefill part of a mixed step, prompts x tokens: "1x512"; with cached tokens: '
            '"2x256@1024".'
        ),
    ] = "",
    decode: Annotated[
        str, typer.Option(help='Decode part of a mixed step, sequences x context: "64x2048".')
    ] = "",
    form: opt.Form = TableFormat.text,
) -> None:
    """Predict one configuration, or every row of a CSV (--points)."""
    from app.scenario import mixed_step, results
    from app.scenario.scenario import resolve

    if points is not None:
        typed = {**given, "parallel": parallel, "prefill": prefill, "decode": decode}
        opt.refuse_beside("--points", "whose rows state their own", typed)
        _price_points(points, output, form)
        return
    if prefill or decode or given.get("model") == PIPE:
        typed = {name: given.get(name) for name in names_of(Load)} | {"output": output}
        opt.refuse_beside("a mixed step", "which states its own sequences", typed)
    if given.get("model") == PIPE:
        asked = given.ask("estimate", model="stated")
        _print_step(mixed_step.stated(piped("ops"), asked), form)
        return
    if "model" not in given:
        raise InvalidValue("name a model, or give a file with --points")
    degrees = _degrees(parallel)
    opt.refuse_beside("--parallel", "which states the degrees", {k: given.get(k) for k in degrees})
    asked = given.ask("estimate", **degrees)
    if prefill or decode:
        groups = mixed_step.parse_groups(prefill, decode)
        resolved = resolve(asked.question, asked.objects)
        step = mixed_step.price(resolved, groups)
        _print_step(mixed_step.document(resolved, groups, step), form)
        return
    found = results.estimate(asked, on_error="status")
    results.refuse_alone(found)
    opt.write_rows(output, found.rows)
    if isinstance(found, results.Estimate) and found.scalar:
        _print(found, form)
    else:
        typer.echo(render(found.rows, form))


def _degrees(parallel: str) -> dict[str, Any]:
    """The degrees of --parallel and their order, by parameter."""
    degrees = parse_degrees(parallel)
    if differs := other_count(degrees):
        typer.echo(f"note: {differs}", err=True)
    if placed(tuple(degrees)):
        return {**degrees, "placement": " ".join(degrees)}
    return dict(degrees)


def _print_step(named: dict[str, Any], form: TableFormat) -> None:
    """Print the figures of a step, then its operators."""
    if form is TableFormat.json:
        typer.echo(to_json(named))
        return
    operators = named.pop("operators")
    if form is not TableFormat.csv:
        typer.echo(render([{"figure": k, "value": v} for k, v in named.items()], form) + "\n")
        operators = [_brief(row) for row in operators]
    typer.echo(render(operators, form))


def _price_points(points: Path, output: Path | None, form: TableFormat) -> None:
    """Price a points file; prints the rows, or writes them to `output`."""
    from app.scenario import points_file
    from app.scenario.local_files import sources
    from app.scenario.points_row import unknown_columns

    rows = points_file.read(points)
    for sentence in unknown_columns(rows[0] if rows else ()):
        typer.echo(f"warning: {sentence}", err=True)
    if output is None:
        table = TableFormat.csv if form is TableFormat.text else form
        typer.echo(render(points_file.price(rows, sources=sources), table))
        return
    with typer.progressbar(length=100, label="pricing", file=sys.stderr) as bar:
        progress: Callable[[int, int], None] = lambda done, of: bar.update(  # noqa: E731
            100 * done // of - bar.pos
        )
        priced = points_file.price_file(points, output, progress, sources)
    good = sum(row["status"] == "ok" for row in priced)
    typer.echo(f"{len(priced)} rows priced, {good} ok -> {output}")


def _print(found: Estimate, form: TableFormat) -> None:
    """Print the figures and operators of one configuration."""
    from app.scenario.levers import phases_of
    from app.scenario.summary import operator_rows, step_sum

    result, summary = found.engine_estimate, found.to_dict()
    operators = {phase: operator_rows(getattr(result, phase)) for phase in phases_of(result)}
    if form is TableFormat.json:
        typer.echo(to_json({**summary, "operators": operators}))
        return
    if form is TableFormat.csv:
        rows = [{"phase": phase, **row} for phase, table in operators.items() for row in table]
        typer.echo(render(rows, form))
        return
    lines = [{"figure": k, "value": v} for k, v in folded(summary).items()]
    typer.echo(render(lines, form))
    for phase, rows in operators.items():
        words = step_sum(result, phase)
        typer.echo(f"\n{phase}: {words}\n" + render([_brief(row) for row in rows], form))


def _brief(row: dict[str, Any]) -> dict[str, Any]:
    """The columns of an operator's row that fit in a terminal, with its interval in one cell."""
    keys = ("name", "runs", "flops_per_byte", "bound_s", "predicted_s")
    trusted = {"80 %": quantities.span(row["low_s"], row["high_s"])}
    return {key: row[key] for key in keys} | trusted | {k: row[k] for k in ("share", "bound")}
