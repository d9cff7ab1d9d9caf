"""ridgeline models: list and show the models that ship."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.commands.options import Form, Json, table_format
from app.wording.tables import TableFormat

_COLUMNS = ("name", "model_type", "parameters", "active_parameters", "source")


def register(cli: typer.Typer) -> None:
    cli.command("models", help="List the models that ship, or show one.")(models)


def models(
    name: Annotated[str, typer.Argument(help="A model to show; empty: all.")] = "",
    find: Annotated[str, typer.Option(help="Only names that contain this text.")] = "",
    json: Json = False,
    format_: Form = TableFormat.text,
) -> None:
    import model_registry
    from app.wording.tables import render, to_json

    chosen = table_format(format_, json)
    if name:
        facts = dict(model_registry.describe(name))
        typer.echo(to_json(facts) if chosen is TableFormat.json else _lines(facts))
        return
    names = [entry for entry in model_registry.names() if find.casefold() in entry.casefold()]
    described = [model_registry.describe(entry) for entry in names]
    typer.echo(render([{key: facts[key] for key in _COLUMNS} for facts in described], chosen))


def _lines(facts: dict[str, Any]) -> str:
    width = max(len(key) for key in facts)
    return "\n".join(f"{key.ljust(width)}  {value}" for key, value in facts.items())
