"""Options that say what a benchmark measured, where its file does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.commands import options as opt

if TYPE_CHECKING:
    from app.benchmarks.deployment import Deployment

Model = Annotated[str, typer.Option(help="Default: the model that the file names.")]
System = Annotated[str, typer.Option(help="Default: the device that the file names.")]
Engine = Annotated[str, typer.Option(help="Default: the engine that the file names.")]
Tp = Annotated[int, typer.Option(help="Tensor parallel degree; default: the file's.")]
Pp = Annotated[int, typer.Option(help="Pipeline stages; default: the file's.")]
Dp = Annotated[int, typer.Option(help="Attention data parallel degree; default: the file's.")]
Ep = Annotated[int, typer.Option(help="Expert parallel degree; default: the file's.")]
Isl = Annotated[int, typer.Option(help="Prompt tokens; default: the file's.")]
Osl = Annotated[int, typer.Option(help="Output tokens; default: the file's.")]
Concurrency = Annotated[float, typer.Option(help="Open requests; default: the file's.")]
Rate = Annotated[float, typer.Option(help="Requests per second; default: the file's.")]
Level = Annotated[float, typer.Option(help="Percent of runs that an interval is to hold.")]


@dataclass(frozen=True)
class Stated:
    """What files do not say of a run; `deployments` takes those that were typed."""

    model: Model = ""
    system: System = ""
    engine: Engine = ""
    weights: opt.Weights = ""
    kv: opt.Kv = ""
    tp: Tp = 0
    pp: Pp = 0
    dp: Dp = 0
    ep: Ep = 0
    concurrency: Concurrency = 0.0
    rate: Rate = 0.0
    isl: Isl = 0
    osl: Osl = 0


def are_results(files: Sequence[Path]) -> bool:
    """Whether files are results of benchmarks, by their content.

    Raises:
        InvalidValue: some are and some are not.
    """
    from genz_core.errors import InvalidValue
    from profilers.serving_results import is_result

    found = [is_result(path) for path in files]
    if any(found) and not all(found):
        other = files[found.index(False)]
        raise InvalidValue(
            f"{other.name} is no result of a benchmark, {files[found.index(True)].name} is one: "
            "compare them apart"
        )
    return all(found)


def deployments(ctx: typer.Context, files: list[Path]) -> list[Deployment]:
    """What the runs of result files are priced as, with the options that were typed.

    Raises:
        RidgelineError: a file that cannot be read, or an option that nobody knows.
    """
    from app.benchmarks.deployment import GIVEN, deployments
    from app.scenario.local_files import resolve_local
    from profilers.serving_results import read_many

    typed = {name: ctx.params[name] for name in opt.typed(ctx) if name in GIVEN}
    return deployments(read_many(files), typed, resolve_local)
