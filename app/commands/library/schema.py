"""ridgeline schema: the JSON schemas of the documents that commands exchange."""

from typing import Annotated

import typer

from app.answers.table import to_json


def schema(
    name: Annotated[str, typer.Argument(help="arch, modules, ops or step; empty: all.")] = "",
) -> None:
    """The JSON schema of a document that commands exchange; without a name, a list of them."""
    from model_registry.reports import schemas

    typer.echo(to_json(schemas.schema(name)) if name else "\n".join(schemas.names()))
