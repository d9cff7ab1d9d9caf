"""ridgeline import: the figures of profiler reports."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands import options as opt
from app.wording.tables import TableFormat

if TYPE_CHECKING:
    from profilers import PhasePattern, Report

_FACTS = (
    "format", "tool_version", "devices", "kernel_count", "kernel_time_ns", "busy_time_ns",
    "idle_time_ns", "launch_delay_ns", "unattributed_share", "unclassified_share",
)  # fmt: skip


def register(cli: typer.Typer) -> None:
    cli.command("import", help="Read profiler reports: nsys, ncu and PyTorch.")(import_)


def import_(
    files: Annotated[list[Path], typer.Argument(help="Reports of one run or of several.")],
    phase: Annotated[
        list[str] | None,
        typer.Option(help="How range names tell a phase: decode=REGEX; tried before the usual."),
    ] = None,
    kernels: Annotated[
        int,
        typer.Option(help="Longest kernels to print.", callback=opt.sized("kernels", "--kernels")),
    ] = 10,
    json: opt.Json = False,
    format_: opt.Form = TableFormat.text,
) -> None:
    import profilers
    from app.measuring.summary_document import summary_document
    from app.wording.tables import to_json

    patterns = phase_patterns(phase or ())
    reports = profilers.read_reports(files, phases=patterns)
    summaries = [
        {"file": path.name, **summary_document(profilers.summarise(report))}
        for path, report in zip(files, reports, strict=True)
    ]
    chosen = opt.table_format(format_, json)
    if chosen is TableFormat.json:
        typer.echo(to_json(summaries))
        return
    for summary, report in zip(summaries, reports, strict=True):
        _print(summary, report, kernels, chosen)


def phase_patterns(options: list[str] | tuple[()]) -> tuple[PhasePattern, ...]:
    """The patterns of options such as "decode=REGEX", then the default ones.

    Raises:
        InvalidValue: an option without "=", or without a pattern that can be searched.
    """
    from genz_core.errors import InvalidValue
    from profilers import DEFAULT_PHASES, PhasePattern

    patterns = []
    for text in options:
        name, separator, pattern = text.partition("=")
        if not (separator and name and pattern):
            raise InvalidValue(f"--phase is {text!r}; write decode=REGEX or prefill=REGEX")
        patterns.append(PhasePattern(name, pattern))
        patterns[-1].compiled()
    return (*patterns, *DEFAULT_PHASES)


def _print(summary: dict[str, Any], report: Report, count: int, chosen: TableFormat) -> None:
    """Print the figures of a report, its `count` longest kernels, and its notes."""
    from app.wording.tables import render
    from profilers.summary import top_kernels

    facts = [{"figure": key, "value": summary[key]} for key in _FACTS]
    phases = [
        {"figure": f"{name}: {key}", "value": value}
        for name, entry in summary["phases"].items()
        for key, value in entry.items()
    ]
    typer.echo(f"{summary['file']}\n{render(facts + phases, chosen)}")
    top = top_kernels(report.kernels, count).astype({"name": str, "operator_class": str})
    top["name"] = top["name"].str.slice(0, 80)
    if len(top):
        typer.echo("\n" + render(top.to_dict("records"), chosen))
    for note in summary["notes"]:
        typer.echo(f"note: {note}")
    typer.echo("")
