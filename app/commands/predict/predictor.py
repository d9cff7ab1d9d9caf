"""ridgeline predictor: step prices as files for other simulators and planners."""

from pathlib import Path
from typing import Annotated

import typer

from app.commands import options as opt
from app.commands.question_options import Given, of_verb


@of_verb("predictor")
def predictor(
    given: Given,
    for_: Annotated[str, typer.Option("--for", help="dynamo or sglang.")],
    context: Annotated[int, typer.Option(help="Tokens of the longest sequence.")] = 8192,
    output: Annotated[Path, typer.Option(help="Folder to write into.")] = Path("predictor"),
) -> None:
    """Write step prices for Dynamo's planner or SGLang's simulator."""
    from app.scenario.scenario import resolve
    from app.simulation.predictor.files import check_reader, files_for

    check_reader(for_)
    asked = given.ask("predictor")
    made = files_for(for_, resolve(asked.question, asked.objects), context)
    opt.write_files(output, made)
