"""ridgeline validate: predictions beside measured points, the closed form beside the simulation."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.answers.table import TableFormat, render, to_csv
from app.commands import options as opt
from app.commands.progress_bar import running
from genz_core.errors import InvalidValue

_KEPT = ("disaggregated", "decisions")
_WHAT = ("serving", "published", "operators", "throughput", *_KEPT, "simulation", "plan")


def register(cli: typer.Typer) -> None:
    cli.command("validate", help="Compare predictions with the measured points that ship.")(
        validate
    )


def validate(
    what: Annotated[
        str,
        typer.Argument(
            help="serving, published, operators, throughput, disaggregated, decisions, "
            "simulation or plan."
        ),
    ] = "published",
    by: Annotated[str, typer.Option(help="Group by columns: engine,system,model ...")] = "",
    worst: Annotated[int, opt.sized("worst", "Show this many of the worst points.")] = 0,
    rows: Annotated[Path | None, opt.target("Write every row to this CSV.")] = None,
    write_docs: Annotated[
        Path | None, typer.Option(help="Write the document of all tables here, and exit.")
    ] = None,
    count: Annotated[
        int, typer.Option(min=1, max=10_000, help="Deployments drawn for `simulation`.")
    ] = 300,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep", help="Keep the table of `disaggregated` or `decisions` for the documents."
        ),
    ] = False,
    json: opt.Json = False,
    format_: opt.Form = TableFormat.text,
) -> None:
    if what not in _WHAT:
        raise InvalidValue(f"cannot validate {what!r}; choose {', '.join(_WHAT)}")
    if what in _KEPT and write_docs is None:
        _kept(what, by, worst, rows, keep, opt.table_format(format_, json))
        return
    if what == "plan":
        _plan(write_docs, opt.table_format(format_, json))
    elif what == "simulation":
        _simulation(worst, rows, write_docs, count, opt.table_format(format_, json))
    elif write_docs is not None:
        from app.accuracy import document, measured_points

        points = measured_points.published(), measured_points.serving()
        for path in document.write_documents(write_docs, *points):
            typer.echo(f"wrote {path}")
    elif what == "operators":
        _operators(by, worst, rows, opt.table_format(format_, json))
    elif what == "throughput":
        _throughput(by, worst, rows, opt.table_format(format_, json))
    else:
        _measured(what, by, worst, rows, opt.table_format(format_, json))


def _kept(what: str, by: str, worst: int, rows: Path | None, keep: bool, form: TableFormat) -> None:
    """Print what takes minutes: runs with prompts read apart, or choices on measured frontiers."""
    from app.commands.library import validate_kept

    if what == "decisions":
        validate_kept.decisions(by, rows, keep, form)
    else:
        validate_kept.disaggregated(by, worst, rows, keep, form)


def _plan(write_docs: Path | None, form: TableFormat) -> None:
    """Print how often targets were met by what probability of the planner."""
    from app.planning import reliability

    records = reliability.measured()
    if write_docs is not None:
        opt.write_text(write_docs, reliability.document(records))
        typer.echo(f"wrote {write_docs}")
        return
    pairs = reliability.chances(records)
    table = reliability.table(pairs)
    opt.show(form, table, table, reliability.scores(pairs))
    if form in (TableFormat.text, TableFormat.markdown):
        typer.echo("\n" + render(reliability.of_choices(), form))


def _simulation(
    worst: int, rows: Path | None, write_docs: Path | None, count: int, form: TableFormat
) -> None:
    """Print how far the closed form of serving lies from the simulation of the same load."""
    import os

    from app.accuracy import simulation_document, simulation_grid

    with running("simulating") as under_way:
        compared = simulation_grid.compared(
            simulation_grid.with_pools(count),
            os.cpu_count() or 1,
            lambda done, of: under_way.progress(done / of, f"{done} of {of} deployments"),
            under_way.cancelled,
        )
    opt.write_rows(rows, compared)
    if write_docs is not None:
        opt.write_text(write_docs, simulation_document.document(compared))
        typer.echo(f"wrote {write_docs}")
        return
    typer.echo(render(simulation_grid.summary(compared), form))
    if exceptions := simulation_grid.exceptions(compared):
        typer.echo("\n" + render(exceptions, form))
    if worst:
        typer.echo("\n" + render(simulation_grid.furthest(compared, worst), form))


def _operators(by: str, worst: int, rows: Path | None, form: TableFormat) -> None:
    """Print errors of the latency models; a row an operator and split, or the columns of --by."""
    from app.accuracy import likely_causes, shipped_errors

    series = shipped_errors.operator_series()
    columns = list(filter(None, by.split(","))) or ["operator"]
    _check(columns, list(series[0]) if series else columns)
    opt.write_rows(rows, series)
    typer.echo(render(shipped_errors.operator_summary(series, [*columns, "split"]), form))
    if worst:
        held_out = [row for row in series if row["split"] == "held-out shapes"]
        worst_series = sorted(held_out, key=lambda row: -row["mape %"])[:worst]
        typer.echo("\n" + render(likely_causes.suspected_series(worst_series), form))


def _throughput(by: str, worst: int, rows: Path | None, form: TableFormat) -> None:
    """Print errors of the tokens a second of runs that send all requests at once."""
    from app.accuracy import saturated_runs

    found = saturated_runs.records()
    columns = list(filter(None, by.split(",")))
    _check(columns, list(found[0]))
    if rows is not None:
        opt.write_text(rows, to_csv(found) + "\n")
    groups = [columns] if columns else [(), *((name,) for name in saturated_runs.BY)]
    tables = [saturated_runs.error_table(found, group) for group in groups]
    if form not in (TableFormat.text, TableFormat.markdown):
        tables = tables[:1]
    if worst:
        tables.append(saturated_runs.worst(found, worst))
    typer.echo("\n\n".join(render(table, form) for table in tables))


def _measured(what: str, by: str, worst: int, rows: Path | None, form: TableFormat) -> None:
    """Print errors on measured rows as the constants ship, then on held-out rows."""
    from app.accuracy import likely_causes, measured_points, shipped_errors

    columns = ["metric", *filter(None, by.split(","))]
    _check(columns, measured_points.columns(what))
    records = (measured_points.serving if what == "serving" else measured_points.published)()
    opt.write_rows(rows, records)
    table = measured_points.error_table(records, columns)
    if not by and what == "published":
        table = [{"metric": "all", **measured_points.error_table(records)[0]}, *table]
    typer.echo(render(table, form))
    metrics = measured_points.SERVING_METRICS if what == "serving" else shipped_errors.BATCH_METRICS
    fit_errors = shipped_errors.fit_errors(metrics)
    if fit_errors and form in (TableFormat.text, TableFormat.markdown):
        typer.echo("\nBy what the points were to the fit:\n\n" + render(fit_errors, form))
    if worst:
        worst_records = likely_causes.suspected_records(
            records, measured_points.worst(records, worst)
        )
        typer.echo("\n" + render(likely_causes.brief(worst_records), form))


def _check(columns: list[str], there_are: list[str]) -> None:
    """Raises InvalidValue: one of `columns` is not among those that there are."""
    unknown = [name for name in columns if name not in there_are]
    if unknown:
        raise InvalidValue(f"no column {unknown[0]!r}; there are {', '.join(there_are)}")
