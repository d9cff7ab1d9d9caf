"""ridgeline chakra: the content of a Chakra execution trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.answers.table import TableFormat
from app.commands import options as opt

_LONGEST = 512 * 2**20


def register(cli: typer.Typer) -> None:
    cli.command("chakra", help="Operators of a Chakra trace: runs, seconds, FLOPs, bytes.")(chakra)


def chakra(
    file: Annotated[Path, typer.Argument(help="A trace: step.0.et.")],
    json: opt.Json = False,
    format_: opt.Form = TableFormat.text,
) -> None:
    from app.exchange.step_trace import read_rows
    from genz_core.errors import InvalidValue

    try:
        if file.stat().st_size > _LONGEST:
            raise InvalidValue(f"{file} is larger than {_LONGEST // 2**20} MiB")
        content = file.read_bytes()
    except OSError as error:
        raise InvalidValue(f"{file} cannot be read: {error.strerror}") from None
    about, rows = read_rows(content)
    head = " · ".join(f"{name} {value}" for name, value in about.items())
    opt.show(opt.table_format(format_, json), {**about, "rows": rows}, head, rows)
