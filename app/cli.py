"""The command line: every command of `app.commands`, its errors as sentences.

Heavy imports happen inside the commands, so that `--help` is quick, and a command that is named
first is the only one that is read.  An error, of a value or of
the way an option is given, is one sentence on standard error and exit code 2; a file of the user's
that is left out is a warning there.
"""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any, NoReturn, TextIO

import typer

from app.commands import add_command
from app.commands.exit_codes import FAILED, REFUSED
from genz_core.errors import RidgelineError, file_problem

#: Module of `app.commands` of each command, in the order that --help lists them; each has a
#: function of the command's name, or `register(cli)`.
COMMANDS = {
    "app": "library.dashboard",
    "api": "library.api",
    "mcp": "library.mcp",
    "models": "library.shipped_entries",
    "systems": "library.shipped_entries",
    "schema": "library.shipped_entries",
    "ask": "predict.ask",
    "estimate": "predict.estimate",
    "ops": "predict.ops",
    "arch": "predict.arch",
    "modules": "predict.modules",
    "sweep": "predict.sweep",
    "plan": "predict.plan",
    "fleet": "predict.decide",
    "sensitivity": "predict.decide",
    "economics": "predict.decide",
    "scale": "predict.scaling",
    "availability": "predict.scaling",
    "routing": "predict.decide",
    "study": "predict.decide",
    "serve": "predict.serve",
    "simulate": "predict.simulate",
    "predictor": "predict.exports",
    "export": "predict.exports",
    "chakra": "predict.exports",
    "validate": "library.validate",
    "import": "measured.import_",
    "compare": "measured.compare",
    "guard": "measured.guard",
    "runs": "measured.runs",
    "doctor": "library.doctor",
    "measure": "measured.measure",
    "collect": "measured.collect",
    "calibrate": "measured.calibrate",
    "tune": "measured.tune",
    "watch": "measured.watch",
}

#: Missing arguments, unknown options and values of the wrong kind; typer does not export the class.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def _print_version(wanted: bool) -> None:
    if wanted:
        import ridgeline

        typer.echo(f"ridgeline {ridgeline.__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


def command_line(asked: Sequence[str] = ()) -> typer.Typer:
    """The command that the words name, or all commands if they name none.

    asked: what was typed after the program's name.
    """
    cli = typer.Typer(
        name="ridgeline",
        help="Predict, measure and explain LLM inference performance: TTFT, TPOT, throughput, "
        "cost.",
        callback=_root,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    first = asked[0] if asked else ""
    for name in [first] if first in COMMANDS else COMMANDS:
        module = import_module(f"{__package__}.commands.{COMMANDS[name]}")
        if hasattr(module, "register"):
            module.register(cli)
        else:
            add_command(cli, vars(module).get(name) or vars(module)[f"{name}_"])
    return cli


def __getattr__(name: str) -> Any:
    """The attribute `cli`: all commands, registered on first access."""
    if name != "cli":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = cli = command_line()
    return cli


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
        code = command_line(sys.argv[1:])(prog_name="ridgeline", standalone_mode=False)
    except RidgelineError as error:
        _refuse(str(error))
    except _UsageError as error:
        _refuse(_usage_sentence(error))
    except BrokenPipeError:
        sys.stderr.close()
        raise SystemExit(FAILED) from None
    except OSError as error:
        _refuse(f"{error.filename or 'a file'}: {file_problem(error)}")
    raise SystemExit(code)


def _usage_sentence(error: Any) -> str:
    """The sentence of a wrong option or argument; the help where a command was given nothing."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        raise SystemExit(REFUSED)
    command = error.ctx.command_path if error.ctx else "ridgeline"
    if refused := _parameter_left_out(command, getattr(error, "option_name", "")):
        return refused
    sentence = " ".join(error.format_message().split())
    return f"{sentence.rstrip('.')}; see `{command} --help`"


def _parameter_left_out(command: str, option: str) -> str:
    """The sentence on an option that a command lacks because its verb leaves the parameter out;
    otherwise "".
    """
    from app.question.parameters import ALIASES
    from app.question.verbs import LEFT_OUT, refusal

    verb, name = command.rpartition(" ")[2], option.removeprefix("--").replace("-", "_")
    name = ALIASES.get(name, name)
    return refusal(verb, name) if name in LEFT_OUT.get(verb, {}) else ""


def _refuse(sentence: str) -> NoReturn:
    sys.stderr.write(f"ridgeline: {sentence}\n")
    raise SystemExit(REFUSED) from None


if __name__ == "__main__":
    main()
