"""ridgeline ops: FLOPs and bytes of a model's operators, without hardware."""

from typing import Annotated

import typer

from app.answers.table import TableFormat
from app.commands import options as opt
from app.commands.piped_json import PIPE, piped
from app.commands.predict.arch import WITHOUT, parse_names
from app.commands.question_options import Extra, Given, of_verb


@of_verb("ops")
def ops(
    given: Given,
    cached_tokens: Extra,
    input_tokens: Extra,
    batch_size: Extra,
    trace: Annotated[bool, typer.Option("--trace", help="Trace the model's own code.")] = False,
    without: Annotated[str, typer.Option(help=WITHOUT)] = "",
    form: opt.Form = TableFormat.text,
) -> None:
    """Count FLOPs and bytes of every operator, independent of hardware."""
    from app.model_inside import operator_counts
    from model_registry.reports import static_table

    document = piped("modules", "arch") if given["model"] == PIPE else None
    counted = operator_counts.count(
        given.ask("ops"), cached_tokens, input_tokens, batch_size,
        trace=trace, without=parse_names(without), piped=document,
    )  # fmt: skip
    if form is TableFormat.json:
        opt.show(form, counted.to_dict())
        return
    renderers = {
        TableFormat.text: static_table.as_text,
        TableFormat.markdown: static_table.as_markdown,
        TableFormat.csv: static_table.as_csv,
    }
    typer.echo(renderers[form](counted.table))
