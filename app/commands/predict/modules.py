"""ridgeline modules: list, show and derive the formulas of module classes."""

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any

import typer

from app.answers.table import to_json
from app.commands import group_of
from app.commands import options as opt
from app.commands.piped_json import PIPE, piped
from genz_core.errors import InvalidValue


def register(cli: typer.Typer) -> None:
    group = group_of("Formulas of module classes.", list_, show, populate, derive, validate)
    cli.add_typer(group, name="modules")


Model = Annotated[str, typer.Option(help="Classes of this model, at its sizes.")]


def list_(json: opt.Json = False) -> None:
    """List the classes that have formulas."""
    from model_registry.modules import entry_names

    names = entry_names()
    opt.show(json, names, "\n".join(names))


def show(
    name: Annotated[str, typer.Argument(help="Full path or bare name of a class.")],
    model: Model = "",
    json: opt.Json = False,
) -> None:
    """Show the formulas of one class."""
    from model_registry.modules import model_key, read_entry

    _print(read_entry(name, model_key(_config(model)) if model else ""), json)


def populate(
    model: Annotated[str, typer.Argument(help="`-`: the JSON of `arch --json`; or a model.")],
) -> None:
    """Show a model's operators as formulas, from the JSON of arch."""
    from app.scenario.local_files import model_source
    from model_registry.reports import step_documents

    named = piped("arch") if model == PIPE else step_documents.arch_document(model_source(model))
    typer.echo(to_json(step_documents.modules_document(named)))


def validate(
    name: Annotated[str, typer.Argument(help="Full path or bare name of a class.")],
    by: Annotated[str, typer.Option(help="Name of the reviewer.")],
    model: Model = "",
    json: opt.Json = False,
) -> None:
    """Record who compared the formulas with the source."""
    from model_registry import modules

    key = modules.model_key(_config(model)) if model else ""
    modules.validate_entry(name, by, date.today(), key)
    _print(modules.read_entry(name, key), json)


def derive(
    name: Annotated[
        str,
        typer.Argument(
            help='Class, such as torch.nn.SiLU or "torch.nn.Linear(d, 4*d, bias=False)".'
        ),
    ] = "",
    model: Model = "",
    inputs: Annotated[
        str, typer.Option(help='Shapes of its inputs: "batch, new_tokens, d; 1, d".')
    ] = "",
    again: Annotated[
        bool,
        typer.Option("--again", help="Derive the formulas again even if the database has them."),
    ] = False,
    json: opt.Json = False,
) -> None:
    """Derive the formulas of a class, or of all classes of a model."""
    from model_registry import modules

    if bool(name) == bool(model):
        raise InvalidValue("name either a class, or a model with --model")
    if name:
        _print(modules.class_entry(name, inputs=inputs, again=again), json)
        return
    entries = modules.model_entries(_config(model), again=again)
    found = [entry.to_json() for entry in entries]
    opt.show(json, found, "\n".join(entry.module for entry in entries))


def _config(model: str) -> Mapping[str, Any]:
    """The config.json of a typed model."""
    from app.scenario.local_files import model_source
    from model_registry.finding.sources import find_checkpoint

    return find_checkpoint(model_source(model)).config


def _print(entry: Any, json: bool) -> None:
    by = " by {by} on {on}".format(**entry.validated) if entry.validated else ": not yet"
    said = [entry.module, f"  from {entry.source}", f"  validated{by}"]
    sizes = {**entry.sizes, "parameters": f"{entry.parameters:,.0f}" if entry.parameters else ""}
    lines = {"symbols": ", ".join(entry.symbols), **sizes}
    lines |= {figure: formula.text() for figure, formula in entry.formulas.items()}
    lines |= {f"{figure}, one token": one.text() for figure, one in entry.single.items()}
    lines["operators"] = ", ".join(f"{n} {name}" for name, n in entry.operators.items())
    said += [f"  {label:20} {words}" for label, words in lines.items() if words]
    said += [f"  child {one.name} ({one.module}) x {one.count}" for one in entry.children]
    opt.show(json, entry.to_json(), "\n".join(said))
