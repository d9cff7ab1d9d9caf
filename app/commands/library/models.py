"""ridgeline models: list and show the models that ship."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.commands.options import Form, Json, form
from app.wording.tables import TableFormat


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

    chosen = form(format_, json)
    if name:
        facts = describe(name)
        typer.echo(to_json(facts) if chosen is TableFormat.json else _lines(facts))
        return
    wanted = [entry for entry in model_registry.names() if find.casefold() in entry.casefold()]
    rows = [summary(entry) for entry in wanted]
    typer.echo(render(rows, chosen))


def summary(name: str) -> dict[str, Any]:
    """The columns of the list: name, model_type, parameters, active_parameters, source."""
    facts = describe(name)
    keys = ("name", "model_type", "parameters", "active_parameters", "source")
    return {key: facts[key] for key in keys}


def describe(name: str) -> dict[str, Any]:
    import model_registry

    return dict(model_registry.describe(name))


def _lines(facts: dict[str, Any]) -> str:
    width = max(len(key) for key in facts)
    return "\n".join(f"{key.ljust(width)}  {value}" for key, value in facts.items())
