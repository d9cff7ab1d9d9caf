"""The command line: every command of `app.commands`, its errors as sentences.

Heavy imports happen inside the commands, so that `--help` is quick.  An error is one sentence on
standard error and exit code 2; a file of the user's that is left out is a warning there.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import TextIO

import typer

from genz_core.errors import RidgelineError

#: Modules of `app.commands`, in the order that --help lists them; each has `register(cli)`.
COMMANDS = (
    "library.dashboard",
    "library.models",
    "library.systems",
    "predict.estimate",
    "predict.ops",
    "predict.arch",
    "predict.modules",
    "predict.sweep",
    "predict.serve",
    "library.validate",
    "measured.import_",
    "measured.compare",
    "measured.runs",
    "library.doctor",
    "measured.measure",
    "measured.collect",
    "measured.calibrate",
)

cli = typer.Typer(
    name="ridgeline",
    help="Predict, measure and explain how fast a language model runs on a piece of hardware.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _command in COMMANDS:
    import_module(f"app.commands.{_command}").register(cli)


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as one sentence on standard error."""
    print(f"ridgeline: warning: {message}", file=sys.stderr)


def main() -> None:
    """Run the command line; every known error ends in a sentence and exit code 2."""
    warnings.showwarning = _warn
    try:
        cli()
    except RidgelineError as error:
        print(f"ridgeline: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
