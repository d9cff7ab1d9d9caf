"""Options that several commands share."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.answers.table import Rows, TableFormat, render, to_csv, to_json
from genz_core.errors import InvalidValue
from genz_core.limits import checked_duration, checked_size

if TYPE_CHECKING:
    import pandas as pd

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
#: Format of the output; `add_command` adds --json, which stands for --format json.
Form = Annotated[TableFormat, typer.Option("--format", help="text, markdown, csv or json.")]
ModelName = Annotated[
    str, typer.Argument(help="Registry name, hf:owner/name, folder, or path to a config.json.")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Workers = Annotated[int, typer.Option(help="Worker processes; 0: one per core.", min=0, max=1024)]
Cluster = Annotated[
    str, typer.Option(help="Dask scheduler, used instead of processes: tcp://host:8786.")
]
Tag = Annotated[list[str] | None, typer.Option(help="Tag of the kept run.")]


def sized(limit: str, help: str) -> Any:
    """An option that refuses numbers outside a limit of `genz_core.limits`."""

    def check(option: typer.CallbackParam, value: int | None) -> int | None:
        return value if value is None else checked_size(limit, value, option.opts[0])

    return typer.Option(help=help, callback=check)


def lasting(help: str) -> Any:
    """An option that refuses invalid durations [s]."""

    def check(option: typer.CallbackParam, value: float) -> float:
        return checked_duration(option.opts[0], value)

    return typer.Option(help=help, callback=check)


def target(help: str) -> Any:
    """An option for an output file, which is checked before the work whose result goes there."""
    return typer.Option(help=help, callback=writable_file)


def refuse_beside(option: str, why: str, typed: Mapping[str, Any]) -> None:
    """Refuse what was typed beside an option that leaves it no meaning.

    Raises:
        InvalidValue: the first such value.
    """
    for name in (name for name, value in typed.items() if value not in (None, "")):
        what = f"the model {typed[name]}" if name == "model" else f"--{name.replace('_', '-')}"
        raise InvalidValue(f"{what} has no effect with {option}, {why}: leave it out")


def measured_model(typed: str) -> dict[str, str]:
    """The fields of a run's model: the path of a file of this machine, or a name."""
    from app.scenario.local_files import model_source

    source = model_source(typed)
    if isinstance(source, Mapping):
        raise InvalidValue("give a name or the path of a config.json, not its text")
    if isinstance(source, Path):
        return {"name": "", "path": str(source.absolute())}
    return {"name": typed, "path": ""}


def writable_file(path: Path | None) -> Path | None:
    """The path of an option, checked before the minutes of work whose result goes there.

    Raises:
        InvalidValue: its folder is not there or cannot be written, or it is a folder.
    """
    if path is None:
        return None
    if not path.parent.is_dir():
        raise InvalidValue(f"{path}: {path.parent} is not a folder; create it, or name another")
    if path.is_dir():
        raise InvalidValue(f"{path} is a folder; name a file in it")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InvalidValue(f"{path} cannot be written: permission denied")
    return path


def write_text(path: Path, text: str) -> None:
    """Write the output of a command to a file.

    Raises:
        InvalidValue: the file cannot be written.
    """
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidValue(f"{path} cannot be written: {error.strerror}") from None


def write_files(folder: Path, files: Mapping[str, bytes | str]) -> None:
    """Write files, by their names, into a folder that may be new.  Raises as `write_text`."""
    for name, content in files.items():
        path = folder / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        except OSError as error:
            raise InvalidValue(f"{path} cannot be written: {error.strerror}") from None
        typer.echo(f"-> {path}", err=True)


def table_file(path: Path | None) -> Path | None:
    """The file for a table, checked before the simulation.

    Raises:
        InvalidValue: neither .csv nor .parquet, or see `writable_file`.
    """
    if path is not None and path.suffix not in (".csv", ".parquet"):
        raise InvalidValue(f"{path}: name a file that ends in .csv or .parquet")
    return writable_file(path)


def write_table(table: pd.DataFrame, path: Path, rows: str) -> None:
    """Write a data frame as the file from `table_file`, completely or not at all.

    rows: plural noun for its rows.
    """
    from hardware_db.whole_file import write_whole

    with write_whole(path) as draft:
        if path.suffix == ".parquet":
            table.to_parquet(draft, index=False)
        else:
            table.to_csv(draft, index=False)
    typer.echo(f"{len(table):,} {rows} -> {path}", err=True)


def write_rows(path: Path | None, rows: Rows) -> None:
    """Write rows as CSV if a file is given.  Raises `InvalidValue` as `write_text`."""
    if path is not None:
        write_text(path, to_csv(rows) + "\n")


def show(form: TableFormat | bool, document: Any, *blocks: Rows | str) -> None:
    """Print a document as JSON, otherwise tables and texts separated by empty lines; as CSV only
    the first.

    form: format of the tables; True or False where only --json is offered.
    """
    if form is True or form is TableFormat.json:
        typer.echo(to_json(document))
        return
    form = form or TableFormat.text
    if form is TableFormat.csv:
        blocks = (next(one for one in blocks if not isinstance(one, str)),)
    shown = (
        one if isinstance(one, str) else render(one, form or TableFormat.text)
        for one in blocks
        if one
    )
    typer.echo("\n\n".join(shown))
