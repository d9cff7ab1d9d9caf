"""ridgeline simulate: simulate individual requests of a load, a trace, or a file of loads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.answers.table import TableFormat
from app.commands import options as opt
from app.commands.exit_codes import FAILED, INTERRUPTED
from app.commands.progress_bar import running
from app.commands.question_options import Extra, Given, of_verb
from app.question.question import LOADS
from genz_core.errors import InvalidValue

if TYPE_CHECKING:
    from app.answers.table import Rows
    from app.question.query import Query
    from app.simulation.result import Simulated

_MEASURED = "Calibration from one run"
_MANY = "Many simulations"


@of_verb("simulate", optional=True)
def simulate(
    given: Given,
    worth: Extra,
    measured_tpot: Annotated[
        float,
        typer.Option(
            help="Measured mean TPOT of your own run under this load, in seconds.",
            rich_help_panel=_MEASURED,
        ),
    ] = 0.0,
    measured: Annotated[
        Path | None,
        typer.Option(
            help="Result file of measure serving, vLLM bench serve, SGLang bench_serving or "
            "GenAI-Perf.",
            rich_help_panel=_MEASURED,
        ),
    ] = None,
    save: Annotated[
        bool,
        typer.Option(help="Use the calibration in later simulations.", rich_help_panel=_MEASURED),
    ] = True,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget",
            help="Delete the saved calibration of this deployment.",
            rich_help_panel=_MEASURED,
        ),
    ] = False,
    points: Annotated[
        Path | None, typer.Option(help="CSV with one simulation per row.", rich_help_panel=_MANY)
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            help="CSV for the results; rows already in it are not run again.", rich_help_panel=_MANY
        ),
    ] = None,
    workers: opt.Workers = 0,
    cluster: opt.Cluster = "",
    requests_file: Annotated[
        Path | None, typer.Option(help="Write one row per request to this file: .csv or .parquet.")
    ] = None,
    form: opt.Form = TableFormat.text,
) -> None:
    """Simulate individual requests: percentiles, queues, preemptions of a load or a trace."""
    if points is not None:
        own = {"worth": worth or None, "forget": forget or None, "measured": measured}
        own |= {"measured_tpot": measured_tpot or None, "requests_file": requests_file}
        opt.refuse_beside("--points", "whose rows state their own", {**given, **own})
        _simulate_points(points, output, workers, cluster)
        return
    if "model" not in given:
        raise InvalidValue("name a model, or give a file with --points")
    of_rows = {"output": output, "workers": workers or None, "cluster": cluster}
    opt.refuse_beside("a single simulation", "which prints its figures", of_rows)
    target = opt.table_file(requests_file)
    if forget:
        _forget(given)
    elif measured or measured_tpot:
        _calibrate(given, measured, measured_tpot, save, form, target)
    else:
        run_and_print(given.ask("simulate"), form, target, worth=worth)


def run_and_print(
    query: Query, form: TableFormat, target: Path | None = None, *, worth: bool = False
) -> None:
    """Simulate with a progress bar, print the figures, and write the requests to `target`."""
    from app.simulation.result import simulate

    with running("simulating") as under_way:
        answer = simulate(query, under_way.progress, under_way.cancelled, worth=worth)
    found = answer.worth
    blocks = [found.case_rows, found.worth_rows, found.router_rows] if found else []
    _print(answer, form, {}, *(block for block in blocks if block))
    if target:
        write_requests(answer, target)
    if answer.refused == answer.requests:
        why = next((note for note in answer.run.notes if "refused" in note), "they were refused")
        typer.echo(f"ridgeline: no request can be served: {why}", err=True)
        raise typer.Exit(FAILED)


def _print(
    answer: Simulated, form: TableFormat, more: Mapping[str, Any], *blocks: Rows | str
) -> None:
    """Print a run.  more: additional entries of its document.  blocks: printed below, as for
    `opt.show`.
    """
    from app.simulation import rows

    figures = [
        {"figure": name, "value": value}
        for name, value in rows.figures(answer.run).items()
        if name.split("_")[0] not in rows.LATENCIES
    ]
    notes = (f"note: {note}" for note in answer.run.notes)
    opt.show(form, {**answer.to_dict(), **more}, answer.rows, figures, *notes, *blocks)


# ------------------------------------------------------------------------------- calibration


def _calibrate(
    given: Given,
    measured: Path | None,
    measured_tpot: float,
    save: bool,
    form: TableFormat,
    target: Path | None,
) -> None:
    """Find the step scale for a measured run, save it if requested, and print the run."""
    from app.benchmarks import benchmark_result
    from app.calibration import from_one_run
    from app.scenario.scenario import resolve
    from app.simulation.result import Simulated

    result = benchmark_result.read(measured) if measured else None
    query = given.ask("simulate", **(result.asked(given) if result else {}))
    seconds = measured_tpot or (result.tpot_s if result else 0.0)
    with running("calibrating") as under_way:
        resolved = resolve(query.question, query.objects)
        fit = from_one_run.fit(
            resolved, seconds, query.objects, under_way.progress, under_way.cancelled
        )
    kept = from_one_run.keep(fit) if save else None
    beside = from_one_run.beside(fit, result.figures) if result else []
    answer = Simulated(fit.run)
    words = f"steps x {fit.scale.scale:.3f} give the measured TPOT"
    words += f"; kept in {kept}, dropped by --forget" if kept else " (not kept)"
    _print(answer, form, {"measured": result.figures} if result else {}, beside, words)
    if target:
        write_requests(answer, target)


def _forget(given: Given) -> None:
    from app.calibration import from_one_run
    from app.scenario.scenario import resolve

    query = given.ask("simulate", **{**dict.fromkeys(LOADS), "concurrency": 1})
    dropped = from_one_run.forget(resolve(query.question, query.objects))
    typer.echo("forgotten" if dropped else "no calibration is stored for this deployment")


# ------------------------------------------------------------------------------- many


def _simulate_points(source: Path, target: Path | None, workers: int, cluster: str) -> None:
    """Simulate the rows of a file; a stopped run goes on where it was."""
    from app.scenario import points_file
    from app.scenario.points_row import unknown_columns
    from app.simulation import rows_file
    from app.simulation.points import KNOWN

    target = opt.writable_file(target)
    if target is None:
        raise InvalidValue("name the file for the results with --output")
    rows = points_file.read(source)
    for sentence in unknown_columns(rows[0] if rows else (), KNOWN):
        typer.echo(f"warning: {sentence}", err=True)
    with running("simulating") as under_way:
        done = rows_file.run_file(
            source, target, workers, cluster, under_way.progress, under_way.cancelled
        )
    good = sum(row["status"] == "ok" for row in done.rows)
    kept = f", {done.kept:,} of them from before" if done.kept else ""
    if not done.complete:
        typer.echo(
            f"stopped: {len(done.rows):,} of {done.asked:,} rows are in {target}; the same "
            f"command runs the rest",
            err=True,
        )
        raise typer.Exit(INTERRUPTED)
    typer.echo(f"{done.asked:,} rows simulated{kept}, {good:,} ok -> {target}")


# ------------------------------------------------------------------------------- files


def write_requests(answer: Simulated, path: Path) -> None:
    """Write one row per request; the file is written completely or not at all."""
    opt.write_table(answer.to_dataframe(), path, "requests")
