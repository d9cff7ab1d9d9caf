"""ridgeline export: a step as files for network simulators."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.commands import options as opt
from app.commands.question_options import Given, add_verb


def register(cli: typer.Typer) -> None:
    help_ = "Write a step as Chakra traces, one a device, with an ASTRA-sim network."
    add_verb(cli, "estimate", export, help_, name="export")


def export(
    given: Given,
    phase: Annotated[str, typer.Option(help="prefill or decode.")] = "decode",
    output: Annotated[Path, typer.Option(help="Folder to write into.")] = Path("chakra"),
) -> None:
    from app.exchange.step_trace import files
    from app.scenario import results
    from genz_core.errors import InvalidValue

    asked = given.ask("estimate")
    answer = results.estimate(asked)
    if not isinstance(answer, results.Estimate) or not answer.scalar:
        raise InvalidValue("a trace holds one step of one static batch: leave out loads and lists")
    question = asked.question
    degrees = {name: getattr(question, name) for name in ("tp", "pp", "dp", "cp")}
    opt.write_files(output, files(answer, phase, degrees))
