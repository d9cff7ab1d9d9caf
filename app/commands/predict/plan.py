"""ridgeline plan: which deployment serves a load within targets."""

from pathlib import Path
from typing import Annotated, Any

import typer

from app.answers.table import TableFormat
from app.commands import options as opt
from app.commands.progress_bar import running
from app.commands.question_options import Extra, Given, of_verb


@of_verb("plan")
def plan(
    given: Given,
    deployment: Extra,
    report: Annotated[
        Path | None,
        opt.target(
            "Also write the answer to a file: .html or .md with charts, .yaml, .json, or .sh with "
            "the launch commands."
        ),
    ] = None,
    output: Annotated[Path, typer.Option(help="Folder for the files of --deployment.")] = Path(
        "deployment"
    ),
    workers: opt.Workers = 1,
    cluster: opt.Cluster = "",
    folder: Annotated[
        Path | None,
        typer.Option(
            help="Folder for intermediate results; an interrupted plan continues from them."
        ),
    ] = None,
    form: opt.Form = TableFormat.text,
) -> None:
    """Find the best deployments that serve a load within targets."""
    from app.decide.report import check_ending, taken_along
    from app.planning import result
    from app.planning.manifests.bundle import check_kind
    from app.simulation.executor import Where

    if report is not None:
        check_ending(report)
    if deployment:
        check_kind(deployment)
    asked = given.ask("plan")
    with running("planning") as job:
        where = Where(workers, cluster)
        found = result.plan(asked, job.progress, job.cancelled, where, folder)
    named = found.to_dict()
    if report is not None:
        opt.write_text(report, taken_along(report, named, found.answer))
        typer.echo(f"-> {report}", err=True)
    _print(named, form)
    if deployment:  # the answer is printed first; it remains where no plan can be deployed
        _write(deployment, named, output)


def _write(deployment: str, named: dict[str, Any], folder: Path) -> None:
    """Write the files of the best plan; notes on what they leave open go to standard error."""
    from app.planning.manifests.bundle import bundle

    made = bundle(named, deployment)
    opt.write_files(folder, made.files)
    for note in made.notes:
        typer.echo(f"note: {note}", err=True)


def _print(named: dict[str, Any], form: TableFormat) -> None:
    """Print the document of an answer: the plans and the sentences about them."""
    from app.planning.plan_text import sentences
    from app.planning.result import brief

    rows = named["plans"]
    if form is not TableFormat.csv:
        rows = [brief(row) for row in rows]
    opt.show(form, named, rows, "\n".join(sentences(named)))
