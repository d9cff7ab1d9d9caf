"""ridgeline predictor: step prices in the files of others' simulators and planners."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.commands import options as opt


def register(cli: typer.Typer) -> None:
    cli.command("predictor", help="Write step prices for Dynamo's planner or SGLang's simulator.")(
        predictor
    )


def predictor(
    model: opt.ModelName,
    for_: Annotated[str, typer.Option("--for", help="dynamo or sglang.")],
    system: opt.SystemName = "h100-sxm5-80gb",
    engine: opt.Engine = "vllm",
    weights: opt.Weights = "",
    kv: opt.Kv = "",
    tp: opt.Tp = 1,
    dp: opt.Dp = 1,
    ep: opt.Ep = 1,
    context: Annotated[int, typer.Option(help="Tokens of the longest sequence.")] = 8192,
    output: Annotated[Path, typer.Option(help="Folder to write into.")] = Path("predictor"),
) -> None:
    from app.scenario.local_files import resolve_local
    from app.scenario.scenario import Scenario
    from app.simulation.predictor.files import check_reader, files_for
    from genz_core.errors import InvalidValue

    check_reader(for_)
    scenario = Scenario(model, system, engine, weights=weights, kv=kv, tp=tp, dp=dp, ep=ep)
    made = files_for(for_, resolve_local(scenario), context)
    for name, content in made.items():
        path = output / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        except OSError as error:
            raise InvalidValue(f"{path} cannot be written: {error.strerror}") from None
        typer.echo(f"-> {path}", err=True)
