"""ridgeline sweep: price every combination of batches, lengths and degrees, or a file of axes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from app.commands import options as opt
from app.wording.tables import TableFormat

Values = Annotated[str, typer.Option(help='Values: "1,2,4", "1:256:x2" or "128:1024:128".')]


def register(cli: typer.Typer) -> None:
    cli.command("sweep", help="Price every combination of some axes, of options or a file.")(sweep)


def sweep(
    model: Annotated[
        str, typer.Argument(help="Name, hf:owner/name, config.json, or a YAML of axes.")
    ],
    system: opt.SystemName = "h100-sxm5-80gb",
    engine: opt.Engine = "generic",
    weights: opt.Weights = "",
    kv: opt.Kv = "",
    batch: Values = "1:256:x2",
    isl: Values = "1024",
    osl: Values = "128",
    tp: Values = "1",
    pp: Values = "1",
    ep: Values = "1",
    frontier: Annotated[
        bool, typer.Option(help="Only points nothing beats in TPOT and tokens/s per device.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Where the table of a YAML of axes goes: .parquet or .csv; taken up again where "
            "it stopped.",
            callback=opt.writable_file,
        ),
    ] = None,
    bounds_only: Annotated[
        bool, typer.Option("--bounds-only", help="Of a YAML of axes, the least times alone.")
    ] = False,
    workers: Annotated[
        int, typer.Option(help="Of a YAML of axes: processes, 0 for one a core.", min=0, max=1024)
    ] = 1,
    cluster: Annotated[
        str, typer.Option(help="Of a YAML of axes: a Dask scheduler: tcp://host:8786.")
    ] = "",
    json: opt.Json = False,
    format_: opt.Form = TableFormat.text,
) -> None:
    if model.endswith((".yaml", ".yml")):
        asked = _Asked(Path(model), output, bounds_only, workers, cluster)
        _sweep_file(asked, opt.table_format(format_, json))
        return
    from app.scenario import sweep_rows
    from app.scenario.axis_values import parse_values
    from app.scenario.local_files import resolve_local
    from app.scenario.scenario import Scenario
    from genz_core.errors import InvalidValue
    from genz_core.search import sweep as price

    if output is not None or bounds_only or cluster or workers != 1:
        raise InvalidValue("--output, --bounds-only, --workers and --cluster are of a YAML of axes")
    scenario = Scenario(model=model, system=system, engine=engine, weights=weights, kv=kv)
    resolved = resolve_local(scenario)
    texts = {"batch": batch, "isl": isl, "osl": osl, "tp": tp, "pp": pp, "ep": ep}
    axes = {name: parse_values(name, text) for name, text in texts.items()}
    result = price(resolved.model, resolved.system, axes, resolved.engine)
    rows = sweep_rows.rows(result, axes)
    if frontier:
        rows = sweep_rows.frontier(rows)
    typer.echo(opt.rendered(rows, opt.table_format(format_, json)))


@dataclass(frozen=True, slots=True)
class _Asked:
    """A sweep of a file: its options."""

    source: Path
    output: Path | None
    bounds_only: bool
    workers: int
    cluster: str


def _sweep_file(asked: _Asked, chosen: TableFormat) -> None:
    """Sweep a YAML of axes into a file, or print its rows."""
    from app.commands.progress_bar import INTERRUPTED, running
    from app.planning import sweep_axes, sweep_file
    from app.planning.sweep_workers import Where
    from app.scenario.local_files import sources
    from genz_core.errors import InvalidValue

    axes = sweep_axes.read(asked.source, sources)
    where = Where(asked.workers, asked.cluster)
    if asked.output is None:
        if where != Where():
            raise InvalidValue("--workers and --cluster need the file of the table: --output")
        typer.echo(opt.rendered(_rows(axes, asked.bounds_only), chosen))
        return
    with running("sweeping") as job:
        swept = sweep_file.sweep(
            axes, asked.output, job.progress, job.cancelled,
            bounds_only=asked.bounds_only, where=where,
        )  # fmt: skip
    if swept is None:
        typer.echo("stopped; the same command goes on from here", err=True)
        raise typer.Exit(INTERRUPTED)
    kept = f", {swept.kept:,} of them priced before" if swept.kept else ""
    typer.echo(f"{swept.rows:,} rows, {swept.good:,} can run{kept} -> {swept.path}")


def _rows(axes: Any, bounds_only: bool) -> list[dict[str, Any]]:
    """The rows of a sweep that is small enough to print, without columns that say nothing."""
    from app.planning import sweep_file
    from genz_core.errors import InvalidValue

    if len(axes) > _MOST_PRINTED:
        raise InvalidValue(
            f"{len(axes):,} rows: give a file, as in --output out.parquet, for more than "
            f"{_MOST_PRINTED:,}"
        )
    return sweep_file.rows(sweep_file.table(axes, bounds_only=bounds_only))


_MOST_PRINTED = 10_000
