"""ridgeline export: a step as files for network simulators."""

from pathlib import Path
from typing import Annotated

import typer

from app.commands import options as opt
from app.commands.question_options import Extra, Given, of_verb


@of_verb("export")
def export(
    given: Given,
    phase: Extra,
    output: Annotated[Path, typer.Option(help="Folder to write into.")] = Path("chakra"),
) -> None:
    """Write a step as Chakra traces, one per device, with an ASTRA-sim network."""
    from app.exchange import step_trace

    opt.write_files(output, step_trace.export(given.ask("export"), phase))
