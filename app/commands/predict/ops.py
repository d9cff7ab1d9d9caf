"""ridgeline ops: FLOPs and bytes of a model's operators, without hardware."""

from __future__ import annotations

from typing import Annotated

import typer

from app.answers.table import TableFormat
from app.commands import options as opt
from app.commands.piped import PIPE, piped
from app.commands.predict.arch import WITHOUT, parse_names
from app.commands.question_options import Given, add_verb


def register(cli: typer.Typer) -> None:
    add_verb(cli, "ops", ops, "FLOPs and bytes of every operator, no hardware needed.")


def ops(
    model: Annotated[
        str,
        typer.Argument(help="Name, Hugging Face id, config.json; `-`: JSON of `modules populate`."),
    ],
    given: Given,
    cached_tokens: Annotated[
        str, typer.Option(help='Cached tokens of each query: "1048576,1024"; one goes for all.')
    ] = "0",
    input_tokens: Annotated[str, typer.Option(help='New tokens of each query: "1,1".')] = "1",
    batch_size: Annotated[
        int, typer.Option(help="Queries in all, a multiple of the list; 0: one of each.")
    ] = 0,
    trace: Annotated[bool, typer.Option("--trace", help="Trace the model's own code.")] = False,
    without: Annotated[str, typer.Option(help=WITHOUT)] = "",
    json: opt.Json = False,
    format_: opt.Form = TableFormat.text,
) -> None:
    from app.scenario.local_files import model_source
    from genz_core.limits import checked_size
    from model_registry.reports import chain, counted_step, static_table

    question = given.ask("ops").question
    if model == PIPE:
        named = piped("modules", "arch")
    else:
        named = chain.carried(model_source(model), trace=trace, without=parse_names(without))
    batch = checked_size("batch", batch_size, "--batch-size") if batch_size else None
    asked = counted_step.Asked(
        _tokens("cached_tokens", cached_tokens), _tokens("input_tokens", input_tokens), batch,
        question.parallelism, question.precisions,
    )  # fmt: skip
    counted = counted_step.count(named, asked)
    chosen = opt.table_format(format_, json)
    if chosen is TableFormat.json:
        typer.echo(counted_step.as_json(counted))
        return
    renderers = {
        TableFormat.text: static_table.as_text,
        TableFormat.markdown: static_table.as_markdown,
        TableFormat.csv: static_table.as_csv,
    }
    typer.echo(renderers[chosen](counted.table))


def _tokens(name: str, text: str) -> list[int]:
    """The whole numbers of a list as "1048576,1024".

    name: of the limit of each.

    Raises:
        InvalidValue: anything but whole numbers within their limits.
    """
    from genz_core.limits import checked_size

    label = f"--{name.replace('_', '-')}"
    return [checked_size(name, part, label) for part in text.split(",")]
