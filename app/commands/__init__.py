"""The commands of the command line, a function each; its docstring is the command's help."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, get_type_hints

import typer

_KEYWORD = inspect.Parameter.KEYWORD_ONLY


def add_command(group: typer.Typer, command: Callable[..., None], **settings: Any) -> None:
    """Add a function to a group under its name: `own_server` is own-server, `import_` is import.

    settings: of the command, besides those in its attribute `settings`.
    """
    help_ = " ".join((command.__doc__ or "").split())
    name = command.__name__.strip("_").replace("_", "-")
    own = getattr(command, "settings", {})
    group.command(name, help=help_, **own, **settings)(_with_json(command))


def _with_json(command: Callable[..., None]) -> Callable[..., None]:
    """A command with --json, which stands for --format json, if it has a parameter `form`."""
    signature = inspect.signature(command)
    if "form" not in signature.parameters:
        return command
    from app.answers.table import TableFormat
    from app.commands.options import Json

    @wraps(command)
    def run(*, json: bool, form: TableFormat, **typed: Any) -> None:
        command(form=TableFormat.json if json else form, **typed)

    hints = get_type_hints(command, include_extras=True)
    own = [one.replace(annotation=hints[at]) for at, one in signature.parameters.items()]
    option = inspect.Parameter("json", _KEYWORD, default=False, annotation=Json)
    vars(run)["__signature__"] = signature.replace(parameters=[*own, option])
    return run


def group_of(help_: str, *commands: Callable[..., None], **settings: Any) -> typer.Typer:
    """A group of commands, which shows its help if none is named.  settings: of the group."""
    group = typer.Typer(help=help_, no_args_is_help=True, **settings)
    for command in commands:
        add_command(group, command)
    return group
