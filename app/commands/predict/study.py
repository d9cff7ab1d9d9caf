"""ridgeline study: chips x formats x techniques of a study file, as a table and a chart."""

from pathlib import Path
from typing import Annotated

import typer

from app.answers.table import TableFormat
from app.commands import options as opt


def study(
    file: Annotated[Path, typer.Argument(help="YAML of the study; app/samples/studies has some.")],
    chart: Annotated[Path | None, opt.target("Where the chart goes: .svg.")] = None,
    json: opt.Json = False,
    format_: opt.Form = TableFormat.text,
) -> None:
    """Compare chips, formats and techniques of a study file."""
    from app.decide import study as decide
    from app.decide import svg
    from app.scenario.local_files import sources
    from hardware_db import yaml_document

    found = decide.study(yaml_document.read(file), sources)
    if chart is not None:
        opt.write_text(chart, svg.study(found))
    rows = list(found.rows)
    opt.show(opt.table_format(format_, json), {"title": found.title, "rows": rows}, rows)
