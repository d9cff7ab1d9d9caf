"""ridgeline sensitivity: figures by resource, the ridges, and the hardware that targets need."""

from typing import Annotated

import typer

from app.answers.table import TableFormat
from app.commands import options as opt
from app.commands.question_options import Given, of_verb


@of_verb("sensitivity")
def sensitivity(
    given: Given,
    load: Annotated[
        str,
        typer.Option(
            help="Superseded by --concurrency: static, or load for --batch users.", hidden=True
        ),
    ] = "static",
    json: opt.Json = False,
    format_: opt.Form = TableFormat.text,
) -> None:
    """Show how figures depend on each resource, and the hardware that targets need."""
    from app.decide.sensitivity_rows import document, sentences, table

    if load == "load" and "concurrency" not in given and "rate" not in given:
        given["concurrency"] = given.pop("batch", "1")
    named = document(given.ask("sensitivity"))
    opt.show(opt.table_format(format_, json), named, table(named), "\n".join(sentences(named)))
