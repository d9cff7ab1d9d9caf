"""ridgeline guard: a gate for continuous integration on the result of a benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.commands import options as opt
from app.commands.grouping import grouped
from app.commands.measured import result_options as result

if TYPE_CHECKING:
    from app.benchmarks.comparison import Comparison
    from app.benchmarks.guard import Guarded


@dataclass(frozen=True)
class _Bar:
    """What a result is held against."""

    baseline: Annotated[
        list[Path] | None,
        typer.Option(help="Earlier result of the same loads; repeats tell how much runs differ."),
    ] = None
    level: result.Level = 95.0
    tolerance: Annotated[
        float, typer.Option(help="Percent by which runs differ from the baseline for no reason.")
    ] = 5.0


def register(cli: typer.Typer) -> None:
    cli.command("guard", help="Exit with 1 where a benchmark's result is worse than it should be.")(
        grouped(guard)
    )


def guard(
    ctx: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="Results of a serving benchmark.")],
    bar: _Bar,
    stated: result.Stated,
    json: opt.Json = False,
) -> None:
    from app.benchmarks import guard as gate
    from app.benchmarks.comparison import compare
    from app.benchmarks.levels import checked_level
    from profilers.serving_results import read_many

    share = checked_level(bar.level)
    compared = compare(result.deployments(ctx, files), share)
    guarded = gate.guard(compared, read_many(bar.baseline or []), bar.tolerance / 100.0)
    _print(guarded, compared, json)
    if not guarded.passed:
        raise typer.Exit(1)


def _print(guarded: Guarded, compared: Comparison, json: bool) -> None:
    """Print what fails first, then what is better, what was assumed, and the outcome."""
    from app.benchmarks import document
    from app.wording.tables import to_json

    if json:
        typer.echo(to_json(document.of_guard(guarded, compared)))
        return
    for heading, verdicts in (("worse", guarded.failed), ("better", guarded.better)):
        for verdict in verdicts:
            typer.echo(f"{heading}: {verdict.sentence}")
    for words in guarded.unjudged:
        typer.echo(f"note: {words}")
    for words in document.assumptions(compared):
        typer.echo(f"taken: {words}")
    typer.echo(f"{guarded.sentence} ({guarded.level * 100:g} % intervals)")
