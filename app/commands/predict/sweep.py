"""ridgeline sweep: price every combination of the values of some parameters, or a file of axes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from app.answers.table import TableFormat, render
from app.commands import options as opt
from app.commands.exit_codes import INTERRUPTED
from app.commands.progress_bar import running
from app.commands.question_options import Extra, Given, of_verb
from genz_core.errors import InvalidValue

_MOST_PRINTED = 10_000


@of_verb("sweep")
def sweep(
    given: Given,
    bounds_only: Extra,
    frontier: Annotated[
        bool,
        typer.Option(
            "--frontier",
            help="Only the Pareto frontier of TPOT and tokens/s per device.",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        opt.target("File for the table: .parquet or .csv; an interrupted sweep continues in it."),
    ] = None,
    workers: opt.Workers = 1,
    cluster: opt.Cluster = "",
    form: opt.Form = TableFormat.text,
) -> None:
    """Predict every combination of parameter values, given as options or in a file."""
    from app.planning import sweep_axes, sweep_file
    from app.scenario.local_files import sources
    from app.simulation.executor import HERE, Where
    from hardware_db import yaml_document

    named: Mapping[str, Any] = given
    if str(given["model"]).endswith((".yaml", ".yml")):  # axes, and options that override them
        named = {**yaml_document.read(Path(given.pop("model"))), **given}
    axes = sweep_axes.sweep_axes(named, sources)
    where = Where(workers, cluster)
    if output is not None:
        _write(axes, output, bounds_only, where)
        return
    if where != HERE:
        raise InvalidValue("--workers and --cluster need a file for the table: --output")
    if len(axes) > _MOST_PRINTED:
        raise InvalidValue(
            f"{len(axes):,} rows: give a file, as in --output out.parquet, for more than "
            f"{_MOST_PRINTED:,}"
        )
    table = sweep_file.table(axes, bounds_only=bounds_only)
    if frontier:
        table = sweep_file.frontier(table)
    typer.echo(render(sweep_file.stated(table).rows(), form, once=True))


def _write(axes: Any, output: Path, bounds_only: bool, where: Any) -> None:
    """Sweep into a file; a stopped run is resumed."""
    from app.planning import sweep_file

    with running("sweeping") as job:
        swept = sweep_file.sweep(
            axes, output, job.progress, job.cancelled, bounds_only=bounds_only, where=where
        )
    if swept is None:
        typer.echo("stopped; run the same command to continue", err=True)
        raise typer.Exit(INTERRUPTED)
    kept = f", {swept.kept:,} of them priced before" if swept.kept else ""
    typer.echo(f"{swept.rows:,} rows, {swept.good:,} can run{kept} -> {swept.path}")
