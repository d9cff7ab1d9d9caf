"""ridgeline compare: profiler reports or benchmark results, compared with their prediction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.answers.table import TableFormat, render, to_json
from app.commands import options as opt
from app.commands.measured import compare_results
from app.commands.measured.import_ import phase_patterns, print_checks
from app.commands.question_options import Extra, Given, of_verb
from app.wording import quantities
from genz_core.errors import InvalidValue
from genz_core.limits import checked_size

if TYPE_CHECKING:
    from app.measuring.comparison import Compared

_TIMES = (
    "bound_s", "predicted_s", "low_s", "high_s", "measured_s", "inside", "ratio", "gap_share",
)  # fmt: skip
#: Columns of individual tables in addition to the times.
_OWN = {
    "phases": ("wall_s", "busy_s", "idle_s", "joined_share"),
    "operators": ("matched_by", "launches"),
}


@of_verb("compare")
def compare(
    files: Annotated[
        list[Path],
        typer.Argument(help="Reports of one run (stages, ranks), or results of benchmarks."),
    ],
    given: Given,
    fill: Extra,
    level: Extra,
    as_: Annotated[
        str, typer.Option("--as", help="Phase of reports that name none: prefill or decode.")
    ] = "",
    steps: Annotated[
        list[str] | None, typer.Option(help="Number of steps in a summary: decode=64.")
    ] = None,
    phase: Annotated[list[str] | None, typer.Option(help="decode=REGEX for range names.")] = None,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="For benchmark results: also simulated percentiles.")
    ] = False,
    replay: Annotated[
        bool, typer.Option("--replay", help="For benchmark results: simulate each listed request.")
    ] = False,
    form: opt.Form = TableFormat.text,
) -> None:
    """Compare profiler reports, or benchmark results, with their prediction."""
    from app.benchmarks.file_comparison import are_results

    asked = given.ask("compare")
    if are_results(files):
        compare_results.run(files, asked, level, simulate, replay, form)
        return
    import profilers
    from app.measuring.comparison import compare_asked

    patterns = phase_patterns(phase or [])
    reports = profilers.read_reports(files, phases=patterns)
    compared = compare_asked(
        reports, asked, fill=fill, phase=as_, steps=_steps(steps or []), patterns=patterns
    )
    _print(compared, form)


def _steps(options: list[str]) -> dict[str, int]:
    """Steps by phase, from options such as "decode=64"."""
    steps = {}
    for text in options:
        name, _, number = text.partition("=")
        if name not in ("prefill", "decode"):
            raise InvalidValue(f"--steps is {text[:80]!r}; write decode=64")
        steps[name] = checked_size("steps", number, f"--steps {name}")
    return steps


def _print(compared: Compared, form: TableFormat) -> None:
    """Print filled fields, phases, classes, operators and findings."""
    from app.measuring.comparison import folded, with_subjects
    from app.measuring.comparison_document import document
    from app.measuring.time_report import of_profile

    comparison, filled = compared.comparison, compared.filled
    tables = {name: getattr(comparison, name) for name in ("phases", "classes", "operators")}
    if form is TableFormat.json:
        typer.echo(to_json(document(compared)))
        return
    for cut in comparison.truncated:
        typer.echo(f"cut: {cut}\n", err=form is TableFormat.csv)
    for name, table in tables.items():
        named = [c for c in ("phase", "class", "name") if c in table.columns]
        rows = with_subjects(table)[[*named, *_TIMES, *_OWN.get(name, ())]].to_dict("records")
        if form is not TableFormat.csv:
            rows = list(map(folded, rows))
        typer.echo(f"{name}\n{render(rows, form)}\n")
    for one in filled.fillings if form is TableFormat.text else ():
        typer.echo(f"filled: {one}")
    for known in compared.identity if form is TableFormat.text else ():
        if known.certainty != "certain":
            typer.echo(f"ran: {known}")
    if filled.banner:
        typer.echo(filled.banner)
    if form is TableFormat.text:
        print_checks(comparison.checks)
    for note in comparison.notes if form is TableFormat.text else ():
        if note not in comparison.truncated:
            typer.echo(f"note: {note}")
    for finding in comparison.findings:
        gain = f"{quantities.seconds(finding.seconds)}: " if finding.seconds else ""
        typer.echo(f"- {gain}{finding.sentence}")
    for report in of_profile(compared) if form is TableFormat.text else ():
        typer.echo("\n".join(report.lines))
