"""Options that several commands share, spelled once."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from app.answers.table import TableFormat

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Form = Annotated[TableFormat, typer.Option("--format", help="text, markdown, csv or json.")]
ModelName = Annotated[
    str, typer.Argument(help="Registry name, hf:owner/name, or path to a config.json.")
]


def sized(name: str, label: str) -> Callable[[int | None], int | None]:
    """A callback that refuses numbers beyond a limit of `genz_core.limits`.

    label: the option as it is typed.
    """

    def check(value: int | None) -> int | None:
        from genz_core.limits import checked_size

        return value if value is None else checked_size(name, value, label)

    return check


def lasting(label: str) -> Callable[[float], float]:
    """A callback that refuses durations that are none.  label: the option as it is typed."""

    def check(value: float) -> float:
        from genz_core.limits import checked_duration

        return checked_duration(label, value)

    return check


def measured_model(typed: str) -> dict[str, str]:
    """The fields of a run's model: the path of a file of this machine, or a name."""
    from app.scenario.local_files import model_source
    from genz_core.errors import InvalidValue

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
    from genz_core.errors import InvalidValue

    if path is None:
        return None
    if not path.parent.is_dir():
        raise InvalidValue(f"{path}: {path.parent} is no folder; make it, or name another")
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
    from genz_core.errors import InvalidValue

    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidValue(f"{path} cannot be written: {error.strerror}") from None


def table_format(chosen: TableFormat, json: bool) -> TableFormat:
    """The format of --format, or JSON where --json is given."""
    return TableFormat.json if json else chosen
