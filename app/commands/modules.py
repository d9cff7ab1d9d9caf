"""ridgeline modules: formulas of single module classes, shown and derived."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.commands import options as opt


def register(cli: typer.Typer) -> None:
    group = typer.Typer(help="Formulas of module classes.", no_args_is_help=True)
    group.command("list", help="The classes that have formulas.")(list_)
    group.command("show", help="The formulas of one class.")(show)
    group.command("derive", help="Derive the formulas of a class, or of all a model lacks.")(derive)
    cli.add_typer(group, name="modules")


def list_(json: opt.Json = False) -> None:
    from app.tables import to_json
    from model_registry.modules import known

    names = known()
    typer.echo(to_json(names) if json else "\n".join(names))


def show(
    name: Annotated[str, typer.Argument(help="Full path or bare name of a class.")],
    json: opt.Json = False,
) -> None:
    from model_registry.modules import read

    _print(read(name), json)


def derive(
    name: Annotated[str, typer.Argument(help="Class, as torch.nn.modules.activation.SiLU.")] = "",
    model: Annotated[str, typer.Option(help="Derive what this model's modules lack.")] = "",
    json: opt.Json = False,
) -> None:
    from genz_core.errors import InvalidValue
    from model_registry import modules

    if bool(name) == bool(model):
        raise InvalidValue("name a class, or a model with --model, one of them")
    if name:
        entry = modules.derive(name)
        modules.save(entry)
        _print(entry, json)
        return
    entries = _of_model(model)
    for entry in entries:
        modules.save(entry)
    if json:
        from app.tables import to_json

        typer.echo(to_json([entry.to_json() for entry in entries]))
    else:
        typer.echo("\n".join(entry.module for entry in entries) or "nothing is missing")


def _of_model(model: str) -> list[Any]:
    from model_registry import modules
    from model_registry.sources import checkpoint
    from model_registry.structure import missing_modules

    missing = set(missing_modules(model))
    if not missing:
        return []
    return [
        entry for entry in modules.derive_model(checkpoint(model).config) if entry.module in missing
    ]


def _print(entry: Any, json: bool) -> None:
    from app.tables import to_json

    if json:
        typer.echo(to_json(entry.to_json()))
        return
    typer.echo(f"{entry.module}\n  from {entry.source}\n  in {', '.join(entry.symbols)}")
    for figure, formula in entry.formulas.items():
        typer.echo(f"  {figure:20} {formula.text()}")
    for child in entry.children:
        typer.echo(f"  child {child.name} ({child.module}) x {child.count}")
