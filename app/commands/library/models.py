"""ridgeline models: list and show the models that ship."""

from pathlib import Path
from typing import Annotated

import typer

from app.answers.table import TableFormat, render
from app.commands import options as opt
from genz_core.errors import InvalidValue


def models(
    name: Annotated[str, typer.Argument(help="A model to show; empty: all; or: add.")] = "",
    source: Annotated[
        str, typer.Argument(help="To add: hf:OWNER/NAME, a config.json or its folder.")
    ] = "",
    find: Annotated[str, typer.Option(help="Only names that contain this text.")] = "",
    to: Annotated[Path, typer.Option(help="To add: the folder of the new file.")] = Path(
        "model_registry/configs"
    ),
    json: opt.Json = False,
    format_: opt.Form = TableFormat.text,
) -> None:
    """List the models that ship, show one, or write the file of a new one (add)."""
    import model_registry

    if name == "add":
        _add(source, to)
        return
    chosen = opt.table_format(format_, json)
    if name:
        facts = dict(model_registry.describe(name))
        width = max(map(len, facts))
        lines = "\n".join(f"{key.ljust(width)}  {value}" for key, value in facts.items())
        opt.show(chosen is TableFormat.json, facts, lines)
        return
    typer.echo(render(model_registry.listed(find), chosen))


def _add(source: str, folder: Path) -> None:
    """Write the draft of a model's library file, and print the facts that it still lacks."""
    from app.scenario.local_files import model_source
    from model_registry.finding.contribution import contribution

    if not source:
        raise InvalidValue("name what to add: hf:OWNER/NAME, or the path of a config.json")
    if not folder.is_dir():
        raise InvalidValue(f"{folder} is not a folder; name one with --to")
    new = contribution(model_source(source))
    path = folder / new.file
    if path.exists():
        raise InvalidValue(f"{path} exists; remove it first, or name another folder with --to")
    path.write_text(new.text, encoding="utf-8")
    typer.echo(f"{path}: {new.parameters:,.0f} parameters, {new.active_parameters:,.0f} active")
    for remark in new.remarks:
        typer.echo(f"- {remark}")
