"""ridgeline routing: the cost of a run's uneven experts, and the gain from copies of busy ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from app.answers.table import TableFormat
from app.commands import options as opt
from app.commands.question_options import Given, add_verb
from app.question import typed
from app.question.parameters import PARAMETERS
from genz_core.errors import InvalidValue


def register(cli: typer.Typer) -> None:
    help_ = "Uneven experts of a run's statistics: their cost, and the gain of redundant experts."
    add_verb(cli, "estimate", routing, help_, name="routing")


def routing(
    given: Given,
    statistics: Annotated[
        Path,
        typer.Option(help="Routed rows: CSV of layer_id, expert_id, count, or JSON of lists."),
    ],
    copies: Annotated[
        str, typer.Option(help='Redundant experts to try: "0,8,32"; by default 0 to 4 per rank.')
    ] = "",
    json: opt.Json = False,
    format_: opt.Form = TableFormat.text,
) -> None:
    from app.decide import routing as decide

    try:
        text = statistics.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InvalidValue(f"{statistics} cannot be read as a text: name a CSV or JSON") from None
    tried = typed.values(PARAMETERS["redundant_experts"], copies) if copies else []
    rows = decide.routing(given.ask("estimate"), decide.read_counts(text), tried)
    opt.show(opt.table_format(format_, json), rows, rows)
