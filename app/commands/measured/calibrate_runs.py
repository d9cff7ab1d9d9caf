"""ridgeline calibrate runs: an engine fitted to measured runs, of results or of a points file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands import options as opt
from app.commands.progress_bar import running
from app.commands.question_options import Given, of_verb

if TYPE_CHECKING:
    from app.benchmarks.deployment import Deployment
    from app.calibration.from_runs import RecipeCalibration


@of_verb("calibrate")
def runs(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Benchmark results (one scales the step times of a deployment, several fit the "
            "engine's constants), or a points file with measured_ttft_s and measured_tpot_s "
            "(rows with a concurrency) or measured_prefill_s, measured_decode_step_s, "
            "measured_e2e_s (rows with a batch)."
        ),
    ],
    given: Given,
    save: Annotated[
        bool, typer.Option(help="Use the calibration in all later predictions.")
    ] = True,
    forget: Annotated[
        bool,
        typer.Option("--forget", help="Delete the calibrations of the deployments in the files."),
    ] = False,
    json: opt.Json = False,
) -> None:
    """Fit an engine to benchmark results or to one to five measured runs."""
    from app.benchmarks import file_comparison
    from app.calibration import from_runs
    from app.scenario import points_file
    from app.scenario.local_files import sources

    if file_comparison.are_results(files):
        _results(file_comparison.asked_of(files, given.ask("calibrate")), save, forget, json)
        return
    if forget:
        for file in files:
            for key, dropped in from_runs.forget(file, sources).items():
                outcome = "forgotten" if dropped else "nothing was kept"
                typer.echo(f"{from_runs.recipe_words(key)}: {outcome}")
        return
    rows = [row for file in files for row in points_file.read(file)]
    with running("calibrating") as run:
        calibrations = from_runs.calibrate(rows, run.progress, sources)
    paths = [from_runs.keep(calibration) for calibration in calibrations] if save else []
    _print_recipes(calibrations, str(paths[0]) if paths else "", json)  # one file holds all recipes


def _results(deployments: list[Deployment], save: bool, forget: bool, json: bool) -> None:
    """Calibrate with results, or remove their calibrations."""
    from app.benchmarks import calibration
    from app.benchmarks.comparison import measured_figures
    from app.calibration import from_one_run

    if forget:
        for words, dropped in calibration.forget(deployments).items():
            typer.echo(f"{words}: {'forgotten' if dropped else 'nothing was kept'}")
        return
    with running("calibrating") as job:
        learnt = calibration.calibrate(deployments, job.progress, job.cancelled)
    paths = calibration.keep(learnt) if save else []
    path = str(paths[0]) if paths else ""
    for words in learnt.left_out:
        typer.echo(f"left out: {words}", err=True)
    if learnt.steps is None:
        _print_recipes(list(learnt.recipes), path, json)
    else:
        measured = measured_figures(deployments[0].measurement)
        beside = from_one_run.beside(learnt.steps, measured)
        scale = {**asdict(learnt.steps.scale), "figures": beside, "file": path}
        kept = f"kept in {path}" if path else "not kept"
        opt.show(json, [scale], learnt.steps.scale.sentence, beside, kept)


def _print_recipes(calibrations: list[RecipeCalibration], path: str, json: bool) -> None:
    """Print figures, constants and errors of each recipe.  path: file of the stored
    recipes, or "".
    """
    from app.calibration import from_runs

    facts: list[dict[str, Any]] = [
        {
            "recipe": from_runs.recipe_words(calibration.key),
            "model": calibration.measured.model,
            "runs": from_runs.figure_rows(calibration),
            "constants": from_runs.constant_rows(calibration),
            "file": path,
        }
        for calibration in calibrations
    ]
    blocks: list[Any] = []
    for one, calibration in zip(facts, calibrations, strict=True):
        blocks += [f"{one['model']}, {one['recipe']}", one["runs"], one["constants"]]
        blocks.append(from_runs.sentence(calibration))
    opt.show(json, facts, *blocks, f"kept in {path}" if path else "not kept")
