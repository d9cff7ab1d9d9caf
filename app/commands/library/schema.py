"""ridgeline schema: the JSON schemas of the documents that commands exchange."""

from __future__ import annotations

from typing import Annotated

import typer

from app.answers.table import to_json


def register(cli: typer.Typer) -> None:
    help_ = "The JSON schema of a document that commands exchange; without a name, a list of them."
    cli.command("schema", help=help_)(schema)


def schema(
    name: Annotated[str, typer.Argument(help="arch, modules, ops or step; empty: all.")] = "",
) -> None:
    from model_registry.reports import schemas

    typer.echo(to_json(schemas.schema(name)) if name else "\n".join(schemas.names()))
