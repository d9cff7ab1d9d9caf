"""The commands of the command line, a function each; its docstring is the command's help."""

from collections.abc import Callable
from typing import Any

import typer


def add_command(group: typer.Typer, command: Callable[..., None], **settings: Any) -> None:
    """Add a function to a group under its name: `own_server` is own-server, `import_` is import.

    settings: of the command, besides those in its attribute `settings`.
    """
    help_ = " ".join((command.__doc__ or "").split())
    name = command.__name__.strip("_").replace("_", "-")
    own = getattr(command, "settings", {})
    group.command(name, help=help_, **own, **settings)(command)


def group_of(help_: str, *commands: Callable[..., None], **settings: Any) -> typer.Typer:
    """A group of commands, which shows its help if none is named.  settings: of the group."""
    group = typer.Typer(help=help_, no_args_is_help=True, **settings)
    for command in commands:
        add_command(group, command)
    return group
