"""ridgeline ask: a question typed as a line, how it was understood, and its answer."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.answers.table import Rows, TableFormat, folded
from app.commands import options as opt

if TYPE_CHECKING:
    from app.line.line_answer import Answered


def ask(
    line: Annotated[
        list[str],
        typer.Argument(
            help="Names, numbers with units and options in any order; a target, several systems or "
            '"up to 8 h100" start a plan.',
            show_default=False,
        ),
    ],
    form: opt.Form = TableFormat.text,
) -> None:
    """Answer a typed line: "llama 70b fp8 on 8 h100 vllm 20/s 2k/500"."""
    from app.line.line_answer import answer, command
    from app.scenario.local_files import sources
    from app.scenario.results import refuse_alone

    found = answer(" ".join(line), sources, on_error="status")
    if found.verb in ("estimate", "serve"):
        refuse_alone(found.answer)
    told = [f"{found.understood}.", *(f"{note}." for note in found.line.notes)]
    told.append(f"As a command: {shlex.join(command(found.line))}")
    opt.show(form, found.to_dict(), "\n".join(told), *_blocks(found))


def _blocks(found: Answered) -> list[Rows | str]:
    """Tables and sentences of an answer, as printed by the command of its verb."""
    from app.decide import economics_words, sensitivity_rows
    from app.planning.plan_text import sentences
    from app.planning.result import brief

    named: Any = found.to_dict()["answer"]
    if found.verb == "plan":
        return [[brief(row) for row in named["plans"]], "\n".join(sentences(named))]
    if found.verb == "sensitivity":
        said = "\n".join(sensitivity_rows.sentences(named))
        return [sensitivity_rows.table(named), said]
    if found.verb == "economics":
        return ["\n".join(economics_words.sentences(named))]
    if found.verb == "serve" and len(named["rows"]) > 1:
        return [named["rows"]]
    figures = named if found.verb == "simulate" else named["rows"][0]
    return [[{"figure": name, "value": value} for name, value in folded(figures).items()]]
