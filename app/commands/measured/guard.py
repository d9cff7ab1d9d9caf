"""ridgeline guard: a gate for continuous integration on the result of a benchmark."""

from pathlib import Path
from typing import Annotated

import typer

from app.commands import options as opt
from app.commands.exit_codes import FAILED
from app.commands.question_options import Extra, Given, of_verb

#: First word of the line of a figure that fails, by its outcome.
_PREFIX = {"fail": "worse", "missing": "missing"}


@of_verb("guard")
def guard(
    files: Annotated[list[Path], typer.Argument(help="Results of a serving benchmark.")],
    given: Given,
    level: Extra,
    tolerance: Extra,
    baseline: Annotated[
        list[Path] | None,
        typer.Option(help="Earlier result of the same loads; several show the run-to-run noise."),
    ] = None,
    json: opt.Json = False,
) -> None:
    """Check a benchmark result: exit with 1 if it is worse than predicted or than a baseline, or
    lacks a figure of the baseline.
    """
    from app.benchmarks import document
    from app.benchmarks.file_comparison import judged

    guarded, compared = judged(files, given.ask("guard"), level, tolerance, baseline or ())
    words = [
        *(f"{_PREFIX[verdict.outcome]}: {verdict.sentence}" for verdict in guarded.failed),
        *(f"better: {verdict.sentence}" for verdict in guarded.better),
        *(f"note: {note}" for note in (*guarded.unjudged, *document.noted(compared))),
        *(f"taken: {assumed}" for assumed in document.assumptions(compared)),
        f"{guarded.sentence} ({guarded.level * 100:g} % intervals)",
    ]
    opt.show(json, document.of_guard(guarded, compared), "\n".join(words))
    if not guarded.passed:
        raise typer.Exit(FAILED)
