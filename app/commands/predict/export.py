"""ridgeline export: a step as files for network simulators."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.commands import options as opt
from app.commands.question_options import Extra, Given, add_verb


def register(cli: typer.Typer) -> None:
    help_ = "Write a step as Chakra traces, one per device, with an ASTRA-sim network."
    add_verb(cli, "export", export, help_)


def export(
    given: Given,
    phase: Extra,
    output: Annotated[Path, typer.Option(help="Folder to write into.")] = Path("chakra"),
) -> None:
    from app.exchange import step_trace

    opt.write_files(output, step_trace.export(given.ask("export"), phase))
