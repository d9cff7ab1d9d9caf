"""Results of benchmarks, told from profiler reports, and what they are priced as."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from app.benchmarks.deployment import Deployment
    from app.question.asking import Asked

Level = Annotated[float, typer.Option(help="Percent of runs that an interval is to hold.")]


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


def deployments(files: Sequence[Path], asked: Asked) -> list[Deployment]:
    """What the runs of result files are priced as: what the user typed goes before the file.

    Raises:
        RidgelineError: a file that cannot be read.
    """
    from app.benchmarks.deployment import deployments
    from profilers.serving_results import read_many

    return deployments(read_many(files), asked)
