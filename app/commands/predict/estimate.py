"""ridgeline estimate: price one scenario, or a file of them."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands import options as opt
from app.commands.grouping import grouped
from app.commands.piped import PIPE, piped
from app.commands.predict.option_groups import Formats, Inputs, Printed, Split
from app.wording.tables import TableFormat

if TYPE_CHECKING:
    from app.scenario.scenario import Scenario


@dataclass(frozen=True)
class _Batch:
    """A static batch, by the keywords of `Scenario`."""

    offload: Annotated[
        str,
        typer.Option(
            help="Move what does not fit to the host: weights, kv or experts; levels: weights "
            "and cache to the system's second memory."
        ),
    ] = ""
    batch: opt.Batch = 1
    isl: opt.Isl = 1024
    osl: opt.Osl = 128
    diffusion_steps: opt.Steps = 0
    block_length: opt.Block = 0


@dataclass(frozen=True)
class _Points:
    """A file of scenarios, and where its answers go."""

    points: Annotated[Path | None, typer.Option(help="A points file (CSV) to price.")] = None
    output: Annotated[
        Path | None,
        typer.Option(help="Where the priced points go.", callback=opt.writable_file),
    ] = None


@dataclass(frozen=True)
class _Mixed:
    """A step of prompts and decodes together."""

    prefill: Annotated[
        str, typer.Option(help='A mixed step: prompts x tokens, "1x512", "2x256@1024" cached.')
    ] = ""
    decode: Annotated[
        str, typer.Option(help='A mixed step: sequences x context that decode, "64x2048".')
    ] = ""


def register(cli: typer.Typer) -> None:
    cli.command("estimate", help="Price one scenario, or a CSV of them with --points.")(
        grouped(estimate)
    )


def estimate(
    formats: Formats,
    split: Split,
    static: _Batch,
    inputs: Inputs,
    many: _Points,
    mixed: _Mixed,
    printed: Printed,
    model: Annotated[
        str, typer.Argument(help="Name, Hugging Face id or config.json; `-`: JSON of `ops`.")
    ] = "",
    system: opt.SystemName = "h100-sxm5-80gb",
    engine: opt.Engine = "generic",
    cp: opt.Cp = 1,
    parallel: opt.Parallel = "",
) -> None:
    from app.scenario.scenario import Scenario
    from genz_core.degrees import other_count, parse_degrees, placed
    from genz_core.errors import InvalidValue

    if many.points is not None:
        _price_points(many.points, many.output)
        return
    if model == PIPE:
        _print_stated(system, engine, printed.format)
        return
    if not model:
        raise InvalidValue("name a model, or give a file with --points")
    asked = parse_degrees(parallel)
    if differs := other_count(asked):
        typer.echo(f"note: {differs}", err=True)
    degrees: dict[str, Any] = {**vars(split), "cp": cp, **asked}
    scenario = Scenario(
        model=model,
        system=system,
        engine=engine,
        placement=" ".join(asked) if placed(tuple(asked)) else "",
        **vars(formats),
        **vars(static),
        **vars(inputs),
        **degrees,
    )
    if mixed.prefill or mixed.decode:
        _print_mixed(scenario, mixed.prefill, mixed.decode, printed.format)
        return
    _print(scenario, printed.format)


def _print_stated(system: str, engine: str, chosen: TableFormat) -> None:
    """Print the seconds of the step that the JSON of `ridgeline ops` states."""
    from app.scenario.local_files import system_source
    from app.scenario.stated_step import stated_step

    _print_step(stated_step(piped("ops"), system_source(system), engine), chosen)


def _print_mixed(scenario: Scenario, prefill: str, decode: str, chosen: TableFormat) -> None:
    """Print the figures and operators of one step of prompts and decodes together."""
    from app.scenario import mixed_step
    from app.scenario.local_files import resolve_local

    groups = mixed_step.parse_groups(prefill, decode)
    resolved = resolve_local(scenario)
    _print_step(mixed_step.document(resolved, groups, mixed_step.price(resolved, groups)), chosen)


def _print_step(named: dict[str, Any], chosen: TableFormat) -> None:
    """Print the figures of a step, then its operators."""
    from app.wording.tables import render, to_json

    if chosen is TableFormat.json:
        typer.echo(to_json(named))
        return
    operators = named.pop("operators")
    if chosen is not TableFormat.csv:
        typer.echo(render([{"figure": k, "value": v} for k, v in named.items()], chosen) + "\n")
        operators = [_brief(row) for row in operators]
    typer.echo(render(operators, chosen))


def _price_points(points: Path, output: Path | None) -> None:
    """Price a points file; prints the rows, or writes them to `output`."""
    from app.scenario import points_file
    from app.scenario.local_files import resolve_local
    from app.scenario.points_row import unknown_columns
    from app.wording.tables import render

    asked = points_file.read(points)
    for sentence in unknown_columns(asked[0] if asked else ()):
        typer.echo(f"warning: {sentence}", err=True)
    if output is None:
        typer.echo(render(points_file.price(asked, look_up=resolve_local), TableFormat.csv))
        return
    with typer.progressbar(length=100, label="pricing", file=sys.stderr) as bar:

        def progress(done: int, total: int) -> None:
            bar.update(100 * done // total - bar.pos)

        rows = points_file.price_file(points, output, progress, resolve_local)
    good = sum(row["status"] == "ok" for row in rows)
    typer.echo(f"{len(rows)} rows priced, {good} ok -> {output}")


def _print(scenario: Scenario, chosen: TableFormat) -> None:
    """Print the figures and operators of a scenario."""
    from app.scenario import intervals
    from app.scenario.local_files import resolve_local
    from app.scenario.reading import phases_of
    from app.scenario.scenario import estimate_resolved
    from app.scenario.summary import facts, operator_rows
    from app.wording.tables import render, to_json

    resolved = resolve_local(scenario)
    result = estimate_resolved(resolved)
    summary = facts(resolved, result)
    phases = phases_of(result.model)
    operators = {phase: operator_rows(getattr(result, phase)) for phase in phases}
    if chosen is TableFormat.json:
        typer.echo(to_json({**summary, "operators": operators}))
        return
    if chosen is TableFormat.csv:
        rows = [{"phase": phase, **row} for phase, table in operators.items() for row in table]
        typer.echo(render(rows, chosen))
        return
    lines = [{"figure": k, "value": v} for k, v in intervals.folded(summary).items()]
    typer.echo(render(lines, chosen))
    for phase, rows in operators.items():
        typer.echo(f"\n{phase}\n" + render([_brief(row) for row in rows], chosen))


def _brief(row: dict[str, Any]) -> dict[str, Any]:
    """The columns of an operator's row that fit a terminal, its interval in one cell."""
    from app.wording import quantities

    keys = ("name", "runs", "flops_per_byte", "bound_s", "predicted_s")
    trusted = {"80 %": quantities.span(row["low_s"], row["high_s"])}
    return {key: row[key] for key in keys} | trusted | {k: row[k] for k in ("share", "bound")}
