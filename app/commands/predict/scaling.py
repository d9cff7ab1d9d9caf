"""ridgeline scale, availability: replicas that follow the load, and how many last losses."""

from pathlib import Path
from typing import Annotated

import typer

from app.answers.table import TableFormat
from app.commands import options as opt
from app.commands.progress_bar import running
from app.commands.question_options import Extras, Given, of_verb


@of_verb("scale")
def scale(
    given: Given,
    extras: Extras,
    windows_file: Annotated[
        Path | None, typer.Option(help="Write one row per hour to this file: .csv or .parquet.")
    ] = None,
    form: opt.Form = TableFormat.text,
) -> None:
    """Autoscale replicas over a day or a trace, with cold starts and losses: cost and percentiles,
    compared with a fixed number (--replicas).
    """
    from app.scaling import scale as following

    target = opt.table_file(windows_file)
    with running("simulating") as job:
        found = following.scale(given.ask("scale"), job.progress, job.cancelled, **extras)
    document = found.to_dict() if form is TableFormat.json else {}
    figures, windows = following.shown_figures(found), following.shown_windows(found)
    opt.show(form, document, figures, windows, repr(found))
    if target:
        opt.write_table(found.to_dataframe(), target, "windows")


@of_verb("availability")
def availability(
    given: Given,
    extras: Extras,
    form: opt.Form = TableFormat.text,
) -> None:
    """Find how many replicas keep a share of requests within the targets while some fail: N, N+k,
    and on average over losses.
    """
    from app.scaling import availability as enough

    with running("simulating") as job:
        found = enough.availability(
            given.ask("availability"), job.progress, job.cancelled, **extras
        )
    opt.show(form, found.to_dict(), found.rows, repr(found))
