"""ridgeline routing: the cost of a run's uneven experts, and the gain from copies of busy ones."""

from pathlib import Path
from typing import Annotated

import typer

from app.answers.table import TableFormat
from app.commands import options as opt
from app.commands.question_options import Extra, Given, of_verb


@of_verb("routing")
def routing(
    given: Given,
    statistics: Annotated[
        Path,
        typer.Option(help="Routed rows: CSV of layer_id, expert_id, count, or JSON of lists."),
    ],
    copies: Extra,
    json: opt.Json = False,
    format_: opt.Form = TableFormat.text,
) -> None:
    """The cost of uneven expert routing in a run, and the gain from redundant experts."""
    from app.decide import routing as decide

    rows = decide.routing(given.ask("routing"), decide.read_statistics(statistics), copies)
    opt.show(opt.table_format(format_, json), rows, rows)
