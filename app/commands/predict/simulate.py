"""ridgeline simulate: requests served one by one, from a load, a trace, or a file of loads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from app.commands import options as opt
from app.commands.grouping import grouped
from app.commands.predict import simulation_options as sim
from app.commands.predict.option_groups import Drafts, Formats, Printed, Split
from app.wording.tables import TableFormat

if TYPE_CHECKING:
    from app.calibration.from_one_run import StepFit
    from app.scenario.scenario import Resolved
    from app.simulation.run import Run, Settings

_HELP = "Serve requests one by one: percentiles, queues and preemptions of a load or a trace."
_OPTIONS = (
    "max_num_seqs", "max_num_batched_tokens", "memory_fraction", "kv_tokens", "prefix_caching",
    "recv_interval", "scheduler",
)  # fmt: skip


def register(cli: typer.Typer) -> None:
    cli.command("simulate", help=_HELP)(grouped(simulate))


def simulate(
    formats: Formats,
    split: Split,
    load: sim.Load,
    lengths: sim.LengthsOfRequests,
    targets: sim.Targets,
    deployment: sim.Deployment,
    drafts: Drafts,
    pool: sim.PrefillPool,
    calibration: sim.Calibration,
    fleet: sim.Fleet,
    printed: Printed,
    model: sim.ModelName = "",
    system: opt.SystemName = "h100-sxm5-80gb",
    engine: opt.Engine = "vllm",
    requests_file: sim.RequestsFile = None,
) -> None:
    from app.scenario.local_files import resolve_local
    from app.scenario.scenario import Scenario
    from genz_core.errors import InvalidValue

    if fleet.points is not None:
        from app.commands.predict.simulate_points import simulate_points

        simulate_points(fleet.points, fleet.output, fleet.workers, fleet.cluster)
        return
    if not model:
        raise InvalidValue("name a model, or give a file with --points")
    target = table_file(requests_file)
    described: dict[str, Any] = {**vars(formats), **vars(split)}
    resolved = resolve_local(Scenario(model=model, system=system, engine=engine, **described))
    groups = (split, load, lengths, targets, deployment, drafts, pool, calibration)
    given = {name: value for group in groups for name, value in vars(group).items()}
    if calibration.forget:
        _forget(resolved)
    elif calibration.measured or calibration.measured_tpot:
        _calibrate(resolved, given, printed.format, target)
    else:
        run_and_print(resolved, _settings(given), printed.format, target)


def _settings(given: Mapping[str, Any], **known: Any) -> Settings:
    """The settings of the options.

    known: fields of the load that a result file names; an option that was given goes first.
    """
    from dataclasses import fields

    from app.simulation.local_settings import pools
    from app.simulation.offered_load import OfferedLoad
    from app.simulation.run import Settings
    from genz_core.serving.simulation import Options

    standard = {entry.name: entry.default for entry in fields(OfferedLoad)}
    empty = {name: given[name] or None for name in ("trace", "lengths")}
    chosen = {**{name: given[name] for name in standard}, **empty}
    load = {name: value for name, value in chosen.items() if value != standard[name]}
    if {"concurrency", "rate", "trace"} & set(load):
        known = {k: v for k, v in known.items() if k not in ("concurrency", "rate", "burstiness")}
    targets = {name: given[name.replace("_s", "_target")] for name in ("ttft_s", "tpot_s", "e2e_s")}
    return Settings(
        OfferedLoad(**{**known, **load}),
        Options(**{name: given[name] for name in _OPTIONS}),
        given["replicas"],
        given["router"],
        targets,
        **pools(given),
    )


def run_and_print(
    resolved: Resolved, settings: Settings, chosen: TableFormat, target: Path | None = None
) -> None:
    """Simulate with a progress bar, print the figures, and write the requests to `target`."""
    from app.commands.progress_bar import running
    from app.simulation.run import run

    with running("simulating") as under_way:
        answer = run(resolved, settings, under_way.progress, under_way.cancelled)
    _print(answer, chosen, {})
    if target:
        write_requests(answer, target)


def _print(answer: Run, chosen: TableFormat, more: Mapping[str, Any]) -> None:
    """Print a run.  more: entries of its document on top."""
    from app.simulation import rows
    from app.wording.tables import render, to_json

    if chosen is TableFormat.json:
        typer.echo(to_json({**rows.document(answer), **more}))
        return
    typer.echo(render(rows.latency_rows(answer), chosen))
    if chosen is TableFormat.csv:
        return
    figures = {
        k: v for k, v in rows.figures(answer).items() if k.split("_")[0] not in rows.LATENCIES
    }
    typer.echo("\n" + render([{"figure": k, "value": v} for k, v in figures.items()], chosen))
    for note in answer.notes:
        typer.echo(f"\nnote: {note}")


# ------------------------------------------------------------------------------- calibration


def _calibrate(
    resolved: Resolved, given: Mapping[str, Any], chosen: TableFormat, target: Path | None
) -> None:
    """Find the scale of the step that a measured run asks for, keep it, and print the run."""
    from app.calibration import benchmark_result, from_one_run
    from app.commands.progress_bar import running

    result = benchmark_result.read(given["measured"]) if given["measured"] else None
    settings = _settings(given, **(result.load if result else {}))
    seconds = given["measured_tpot"] or (result.tpot_s if result else 0.0)
    with running("calibrating") as under_way:
        fit = from_one_run.fit(resolved, settings, seconds, under_way.progress, under_way.cancelled)
    kept = from_one_run.keep(fit) if given["save"] else None
    beside = from_one_run.beside(fit, result.figures) if result else []
    _print(fit.run, chosen, {"measured": result.figures} if result else {})
    if chosen is not TableFormat.json:
        _print_fit(fit, beside, kept, chosen)
    if target:
        write_requests(fit.run, target)


def _print_fit(
    fit: StepFit, beside: list[dict[str, Any]], kept: Path | None, chosen: TableFormat
) -> None:
    from app.wording.tables import render

    if beside:
        typer.echo("\n" + render(beside, chosen))
    typer.echo(
        f"\nsteps x {fit.scale.scale:.3f} give the measured TPOT"
        + (f"; kept in {kept}, dropped by --forget" if kept else " (not kept)")
    )


def _forget(resolved: Resolved) -> None:
    from app.calibration import from_one_run

    dropped = from_one_run.forget(resolved)
    typer.echo("forgotten" if dropped else "nothing was kept for this deployment")


# ------------------------------------------------------------------------------- files


def table_file(path: Path | None) -> Path | None:
    """The file of a table, refused before the simulation where it cannot be written.

    Raises:
        InvalidValue: neither .csv nor .parquet, or see `options.writable_file`.
    """
    from genz_core.errors import InvalidValue

    if path is not None and path.suffix not in (".csv", ".parquet"):
        raise InvalidValue(f"{path}: name a file that ends in .csv or .parquet")
    return opt.writable_file(path)


def write_requests(answer: Run, path: Path) -> None:
    """Write a row a request; the file appears whole or not at all."""
    import pandas as pd

    from app.simulation import rows
    from hardware_db.whole_file import write_whole

    table = pd.DataFrame(rows.request_columns(answer))
    with write_whole(path) as draft:
        if path.suffix == ".parquet":
            table.to_parquet(draft, index=False)
        else:
            table.to_csv(draft, index=False)
    typer.echo(f"{len(table):,} requests -> {path}", err=True)
