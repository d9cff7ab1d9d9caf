"""ridgeline import: the figures of profiler reports and of serving benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.answers.table import TableFormat, render, to_json
from app.commands import options as opt
from genz_core.errors import InvalidValue

if TYPE_CHECKING:
    from profilers import PhasePattern, Report
    from profilers.comparison.account import Check
    from profilers.serving_results import ServingMeasurement

_FACTS = (
    "format", "tool_version", "devices", "kernel_count", "kernel_time_ns", "busy_time_ns",
    "idle_time_ns", "launch_delay_ns", "unattributed_share", "unclassified_share",
)  # fmt: skip


def import_(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Profiler reports, a folder with one report per rank, or benchmark results."
        ),
    ],
    phase: Annotated[
        list[str] | None,
        typer.Option(
            help="Regex that maps range names to a phase: decode=REGEX; tried before the defaults."
        ),
    ] = None,
    kernels: Annotated[int, opt.sized("kernels", "Number of longest kernels to print.")] = 10,
    by_shape: Annotated[
        bool, typer.Option("--by-shape", help="Show operators grouped by input shapes instead.")
    ] = False,
    form: opt.Form = TableFormat.text,
) -> None:
    """Read profiler reports, a folder with one report per rank, or benchmark results."""
    import profilers
    from app.measuring.summary_document import file_documents, report_document
    from profilers.serving_results import is_result, read_results, server_log

    patterns = phase_patterns(phase or ())
    if len(files) == 1 and files[0].is_dir():
        _import_folder(files[0], patterns, kernels, form)
        return
    if form is TableFormat.json:
        every = (file_documents(path, phases=patterns, by_shape=by_shape) for path in files)
        typer.echo(to_json([one for found in every for one in found]))
        return
    for path in files:
        if is_result(path):
            print_results(read_results(path), form)
        elif server_log.is_log(path):
            log = server_log.read(path)
            typer.echo("\n".join([f"{log.file}: a log of {log.engine}", *log.sentences]))
        else:
            report = profilers.read_report(path, phases=patterns)
            document = report_document(report, by_shape=by_shape)
            if by_shape:
                typer.echo(render(document["by_shape"], form))
            else:
                _print({"file": path.name, **document}, report, kernels, form)


def print_results(results: Sequence[ServingMeasurement], form: TableFormat) -> None:
    """Print the measurements of a file: all columns as CSV, else those that fit a terminal."""
    from app.measuring import result_table
    from profilers.comparison import account

    if form is TableFormat.csv:
        typer.echo(render(result_table.full_rows(results), form))
        return
    for cut in dict.fromkeys(one.truncated for one in results if one.truncated):
        typer.echo(f"cut: {cut}")
    typer.echo(f"{result_table.heading(results)}\n")
    typer.echo(render(result_table.short_rows(results), form))
    for one in results:
        of = f"{one.subject.label}: " if one.subject.label and len(results) > 1 else ""
        print_checks(account.of_result(one), of)
    for note in result_table.notes(results):
        typer.echo(f"note: {note}")
    typer.echo("")


def print_checks(checks: Sequence[Check], of: str = "") -> None:
    """Print checks, if there are any.  of: prefix of each line, the file that they belong to."""
    if checks:
        typer.echo("\n".join(f"{of}{line}" for line in sums(checks).splitlines()))


def sums(checks: Sequence[Check]) -> str:
    """Checks as lines: failed ones with both sides, then the number of passed ones."""
    failing = [f"check failed: {one.sentence}" for one in checks if one.outcome == "failed"]
    counts = [sum(one.outcome == name for one in checks) for name in ("passed", "not made")]
    held = f"checks: {counts[0]} pass, {counts[1]} cannot be made" if checks else ""
    return "\n".join([*failing, held]).strip()


def _import_folder(
    folder: Path, patterns: tuple[PhasePattern, ...], kernels: int, form: TableFormat
) -> None:
    """Print the reports of a folder, with a comparison of those of one run's ranks."""
    from app.measuring.summary_document import report_document
    from profilers.readers.folders import read_folder
    from profilers.timeline.ranks import compare_ranks

    found = read_folder(folder, phases=patterns)
    summaries = [
        {"file": str(path.relative_to(folder)), **report_document(report)}
        for path, report in zip(found.paths, found.reports, strict=True)
    ]
    compared = compare_ranks(found.reports, [path.name for path in found.paths])
    rows = compared.rows.to_dict("records") if compared else []
    if form is TableFormat.json:
        sentences = list(compared.sentences) if compared else []
        shown = {"ranks": rows, "sentences": sentences, "left_out": found.left_out}
        typer.echo(to_json({"reports": summaries, **shown}))
        return
    if compared is None:
        for summary, report in zip(summaries, found.reports, strict=True):
            _print(summary, report, kernels, form)
        typer.echo("note: these reports do not name ranks of one run")
    else:
        lines = "\n".join(compared.sentences)
        typer.echo(f"{folder.name}: {len(rows)} ranks\n{render(rows, form)}\n\n{lines}")
    for reason in found.left_out.values():
        typer.echo(f"note: left out {reason}")


def phase_patterns(options: list[str] | tuple[()]) -> tuple[PhasePattern, ...]:
    """The patterns of options such as "decode=REGEX", then the default ones.

    Raises:
        InvalidValue: an option without "=", or without a pattern that can be searched.
    """
    from profilers import DEFAULT_PHASES, PhasePattern

    patterns = []
    for text in options:
        name, separator, pattern = text.partition("=")
        if not (separator and name and pattern):
            raise InvalidValue(f"--phase is {text!r}; write decode=REGEX or prefill=REGEX")
        patterns.append(PhasePattern(name, pattern))
        patterns[-1].compiled()
    return (*patterns, *DEFAULT_PHASES)


def _print(summary: dict[str, Any], report: Report, count: int, form: TableFormat) -> None:
    """Print the figures of a report, its `count` longest kernels, and its notes."""
    from app.measuring.device_by_size import devices_words
    from app.measuring.summary_document import checks_of, identity_of
    from profilers.operators.summary import top_kernels

    shown = {**summary, "devices": devices_words(summary["devices"])}
    facts = [{"figure": key, "value": shown[key]} for key in _FACTS]
    phases = [
        {"figure": f"{name}: {key}", "value": value}
        for name, entry in summary["phases"].items()
        for key, value in entry.items()
    ]
    if report.truncated:
        typer.echo(f"cut: {summary['file']}: {report.truncated}", err=form is TableFormat.csv)
    typer.echo(f"{summary['file']}\n{render(facts + phases, form)}")
    top = top_kernels(report.kernels, count).astype({"name": str, "operator_class": str})
    top["name"] = top["name"].str.slice(0, 80)
    if len(top):
        typer.echo("\n" + render(top.to_dict("records"), form))
    for note in summary["notes"]:
        if note != report.truncated:
            typer.echo(f"note: {note}")
    if form is not TableFormat.csv:
        typer.echo("\n".join(f"ran: {one}" for one in identity_of(report)))
        print_checks(checks_of(report))
    typer.echo("")
