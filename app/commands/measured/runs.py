"""ridgeline runs: list and manage the kept runs, and start one from a run file."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from app.answers.table import TableFormat, render
from app.commands import group_of
from app.commands import options as opt
from app.commands.progress_bar import running
from genz_core.errors import InvalidValue, MeasurementError

Identity = Annotated[str, typer.Argument(help="Id of a run, or its first characters.")]


def register(cli: typer.Typer) -> None:
    commands = (start, show, tag, delete, export, import_, compare, list_)
    cli.add_typer(group_of("Start, list and keep runs.", *commands), name="runs")


def start(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="model=NAME, or path=CONFIG, profile=quick run.batch=4 ..."),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="A run file to start from.")] = None,
    tag: opt.Tag = None,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print the resolved run file and stop.")
    ] = False,
) -> None:
    """Start a measurement from presets or a run file, and store it."""
    from app.measuring import run_store
    from app.measuring.run_form import check_run
    from profilers.runs import run_config

    config = run_config.compose(list(map(_local, overrides or [])), file)
    if print_config:
        typer.echo(run_config.dump(config), nl=False)
        return
    check_run(config)
    with running("measuring") as job:
        identity = run_store.execute(config, job.progress, job.cancelled)
    run_store.store().tag(identity, *(tag or ()))
    folder = run_store.store().path(identity)
    typer.echo((folder / "report.md").read_text(encoding="utf-8"))
    typer.echo(f"kept as {identity[:8]} in {folder}")


def _local(override: str) -> str:
    """An override "model=FILE" as the field of the file's path; any other unchanged."""
    from profilers.runs.run_config import presets

    key, _, typed = override.partition("=")
    if key != "model" or typed in presets("model"):
        return override
    path = opt.measured_model(typed)["path"]
    return f"model.path={path}" if path else override


def list_(
    tag: Annotated[str, typer.Option(help="Only runs with this tag.")] = "",
    form: opt.Form = TableFormat.text,
) -> None:
    """List kept runs, latest first."""
    from app.measuring.run_store import store

    for sentence in store().left_out():
        typer.echo(f"ridgeline: warning: {sentence}", err=True)
    rows = [
        {
            "id": run.id if form is TableFormat.json else run.id[:8],
            "created": datetime.fromtimestamp(run.created, UTC).isoformat(timespec="seconds"),
            "label": run.label,
            "system": run.system,
            "tags": list(run.tags),
            **{f"{name}_s": value for name, value in run.phases.items()},
        }
        for run in store().runs(tag)
    ]
    keys = list(dict.fromkeys(key for row in rows for key in row))
    rows = [{key: row.get(key) for key in keys} for row in rows]
    typer.echo(render(rows, form))


def show(identity: Identity) -> None:
    """Print the report of a run."""
    from app.measuring.run_store import store

    file = store().path(identity) / "report.md"
    if not file.is_file():
        raise MeasurementError(f"run {identity} has no report.md")
    typer.echo(file.read_text(encoding="utf-8"))


def tag(identity: Identity, tags: Annotated[list[str], typer.Argument()]) -> None:
    """Tag a run."""
    from app.measuring.run_store import store

    store().tag(identity, *tags)


def delete(identity: Identity) -> None:
    """Delete a run and its files."""
    from app.measuring.run_store import store

    store().delete(identity)


def export(identity: Identity, target: Path) -> None:
    """Export a run as one file."""
    from app.measuring.run_store import store

    typer.echo(str(store().export(identity, target)))


def import_(source: Path) -> None:
    """Import a run that another machine exported."""
    from app.measuring.run_store import store

    if not source.is_file():
        raise InvalidValue(f"{source} is not a file; give one that `ridgeline runs export` wrote")
    typer.echo(f"kept as {store().take(source)[:8]}")


def compare(
    identities: Annotated[list[str], typer.Argument(help="Ids of runs.")],
    form: opt.Form = TableFormat.text,
) -> None:
    """Compare runs side by side."""
    from app.measuring.run_store import store

    table = store().compare(*identities)
    typer.echo(render(table.to_dict("records"), form))
