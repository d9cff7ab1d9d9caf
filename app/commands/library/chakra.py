"""ridgeline chakra: the content of a Chakra execution trace."""

from pathlib import Path
from typing import Annotated

import typer

from app.answers.table import TableFormat
from app.commands import options as opt


def chakra(
    file: Annotated[Path, typer.Argument(help="A trace: step.0.et.")],
    json: opt.Json = False,
    format_: opt.Form = TableFormat.text,
) -> None:
    """Operators of a Chakra trace: runs, seconds, FLOPs, bytes."""
    from app.exchange.step_trace import read_file

    document = read_file(file)
    rows = document["rows"]
    head = " · ".join(f"{name} {value}" for name, value in document.items() if name != "rows")
    opt.show(opt.table_format(format_, json), document, head, rows)
