"""The command line: every command of `app.commands`, its errors as sentences.

Heavy imports happen inside the commands, so that `--help` is quick.  An error, of a value or of
the way an option is given, is one sentence on standard error and exit code 2; a file of the user's
that is left out is a warning there.
"""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from typing import Annotated, Any, NoReturn, TextIO

import typer

from genz_core.errors import RidgelineError

#: Modules of `app.commands`, in the order that --help lists them; each has `register(cli)`.
COMMANDS = (
    "library.dashboard",
    "library.api",
    "library.mcp",
    "library.models",
    "library.systems",
    "library.schema",
    "predict.ask",
    "predict.estimate",
    "predict.ops",
    "predict.arch",
    "predict.modules",
    "predict.sweep",
    "predict.plan",
    "predict.sensitivity",
    "predict.economics",
    "predict.routing",
    "predict.study",
    "predict.serve",
    "predict.simulate",
    "predict.predictor",
    "predict.export",
    "library.validate",
    "measured.import_",
    "measured.compare",
    "measured.guard",
    "measured.runs",
    "library.doctor",
    "measured.measure",
    "measured.collect",
    "measured.calibrate",
    "measured.tune",
    "measured.watch",
)

cli = typer.Typer(
    name="ridgeline",
    help="Predict, measure and explain how fast a language model runs on a piece of hardware.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _command in COMMANDS:
    import_module(f"{__package__}.commands.{_command}").register(cli)
#: Missing arguments, unknown options and values of the wrong kind; typer does not export the class.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def _print_version(wanted: bool) -> None:
    if wanted:
        import ridgeline

        typer.echo(f"ridgeline {ridgeline.__version__}")
        raise typer.Exit


@cli.callback()
def root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


def _warn(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Write a warning as one sentence on standard error."""
    sys.stderr.write(f"ridgeline: warning: {message}\n")


def main() -> None:
    """Run the command line; every known error ends in a sentence and exit code 2."""
    warnings.showwarning = _warn
    try:
        code = cli(prog_name="ridgeline", standalone_mode=False)
    except RidgelineError as error:
        _refuse(str(error))
    except _UsageError as error:
        _refuse(_usage_sentence(error))
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(1) from None
    except OSError as error:
        _refuse(f"{error.filename or 'a file'}: {error.strerror or error}")
    raise SystemExit(code)


def _usage_sentence(error: Any) -> str:
    """The sentence of a wrong option or argument; the help where a command was given nothing."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        raise SystemExit(2)
    command = error.ctx.command_path if error.ctx else "ridgeline"
    sentence = " ".join(error.format_message().split())
    return f"{sentence.rstrip('.')}; `{command} --help` lists what can be given"


def _refuse(sentence: str) -> NoReturn:
    sys.stderr.write(f"ridgeline: {sentence}\n")
    raise SystemExit(2) from None


if __name__ == "__main__":
    main()
