"""ridgeline predictor, export, chakra: a step and its prices as files of other programs."""

from pathlib import Path
from typing import Annotated

import typer

from app.answers.table import TableFormat
from app.commands import options as opt
from app.commands.question_options import Extra, Given, of_verb


@of_verb("predictor")
def predictor(
    given: Given,
    for_: Annotated[str, typer.Option("--for", help="dynamo or sglang.")],
    context: Annotated[int, typer.Option(help="Longest sequence in tokens.")] = 8192,
    output: Annotated[Path, typer.Option(help="Folder to write into.")] = Path("predictor"),
) -> None:
    """Write step prices for Dynamo's planner or SGLang's simulator."""
    from app.scenario.scenario import resolve
    from app.simulation.predictor.files import check_reader, files_for

    check_reader(for_)
    asked = given.ask("predictor")
    made = files_for(for_, resolve(asked.question, asked.objects), context)
    opt.write_files(output, made)


@of_verb("export")
def export(
    given: Given,
    phase: Extra,
    output: Annotated[Path, typer.Option(help="Folder to write into.")] = Path("chakra"),
) -> None:
    """Write a step as Chakra traces, one per device, with an ASTRA-sim network."""
    from app.exchange import step_trace

    opt.write_files(output, step_trace.export(given.ask("export"), phase))


def chakra(
    file: Annotated[Path, typer.Argument(help="Trace file, such as step.0.et.")],
    form: opt.Form = TableFormat.text,
) -> None:
    """Show the operators of a Chakra trace: runs, seconds, FLOPs, bytes."""
    from app.exchange.step_trace import read_file

    document = read_file(file)
    rows = document["rows"]
    head = " · ".join(f"{name} {value}" for name, value in document.items() if name != "rows")
    opt.show(form, document, head, rows)
