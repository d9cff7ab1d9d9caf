"""ridgeline fleet: which model of a fleet runs on which of its machines."""

from pathlib import Path
from typing import Annotated

import typer

from app.answers.table import TableFormat
from app.commands import options as opt
from app.commands.progress_bar import running


def fleet(
    file: Annotated[Path, typer.Argument(help="YAML of the fleet; app/samples/fleets has one.")],
    chart: Annotated[Path | None, opt.target("File for a picture of the machines: .svg.")] = None,
    json: opt.Json = False,
    format_: opt.Form = TableFormat.text,
) -> None:
    """Assign several models to a set of different machines, by priority."""
    from app.decide import svg
    from app.fleets import report, result
    from app.scenario.local_files import sources
    from hardware_db import yaml_document

    given = yaml_document.read(file)
    with running("fleet") as job:
        found = result.fleet(given, sources, job.progress, job.cancelled)
    named = found.to_dict()
    if chart is not None:
        opt.write_text(chart, svg.fleet(named))
    form = opt.table_format(format_, json)
    first = report.rows(named) if form is TableFormat.csv else report.shown_rows(named)
    opt.show(
        form, named, report.headline(named), first, report.model_rows(named),
        report.machine_rows(named), "\n".join(report.sentences(named)),
    )  # fmt: skip
