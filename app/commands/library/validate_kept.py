"""`ridgeline validate disaggregated` and `decisions`: what is kept as a table for documents."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from app.answers.table import TableFormat, render, to_csv
from app.commands import options as opt
from app.commands.progress_bar import running
from genz_core.errors import InvalidValue

Row = dict[str, Any]
_READ = (TableFormat.text, TableFormat.markdown)  # by people, who read several tables


def disaggregated(by: str, worst: int, rows: Path | None, keep: bool, form: TableFormat) -> None:
    """Print errors of simulations of measured runs with prompts read apart, and what is refused.

    by: columns of `app.accuracy.disaggregated_runs.BY`; without, errors by split and by each.

    Raises:
        InvalidValue: another column.
    """
    from app.accuracy import disaggregated_runs as runs
    from app.accuracy import kind_intervals

    columns = list(filter(None, by.split(",")))
    if unknown := [name for name in columns if name not in runs.BY]:
        raise InvalidValue(f"no column {unknown[0]!r}; there are {', '.join(runs.BY)}")
    with running("simulating") as under_way:

        def records(start: float, *, learned: bool) -> list[Row]:
            return runs.records(
                os.cpu_count() or 1,
                lambda done, of: under_way.progress(start + share * done / of, f"{done} of {of}"),
                under_way.cancelled,
                learned=learned,
            )

        share = 1.0 if columns else 0.5
        shipped = records(0.0, learned=True)
        physics = [] if columns else records(0.5, learned=False)
    if rows is not None:
        opt.write_text(rows, to_csv(shipped) + "\n")
    if columns:
        typer.echo(render(runs.group_table(shipped, columns), form))
    else:
        _print([runs.split_table(shipped, physics)], form)
        if form in _READ:
            _print([runs.group_table(shipped, (name,)) for name in runs.BY], form, again=True)
    spans = kind_intervals.table(kind_intervals.measured()) if physics else []
    if form in _READ:
        _print([spans, runs.refusals(shipped), runs.worst(shipped, worst)], form, again=True)
    if keep and physics:
        _keep(runs.kept_path(), runs.kept_rows(shipped, physics))
        _keep(kind_intervals.kept_path(), spans)


def decisions(by: str, rows: Path | None, keep: bool, form: TableFormat) -> None:
    """Print what choices by prediction give away on measured frontiers.

    by: "model", "system" or "target" for the regret by split and this.

    Raises:
        InvalidValue: another column.
    """
    from app.accuracy.decisions import kept, loads, scores

    groups = ("model", "system", "target")
    if by and by not in groups:
        raise InvalidValue(f"no column {by!r}; there are {', '.join(groups)}")
    found = loads.loads_by_split()
    if rows is not None:
        opt.write_text(rows, to_csv(scores.choice_rows(found)) + "\n")
    table = scores.group_table(found, by) if by else scores.split_table(found)
    typer.echo(render(table, form))
    corrections = scores.choice_corrections(found)
    if form in _READ and not by:
        _print([corrections], form, again=True)
    if keep:
        _keep(kept.kept_path(), kept.kept_rows(found))
        _keep(kept.choices_path(), corrections)


def _print(tables: Sequence[Sequence[Row]], form: TableFormat, *, again: bool = False) -> None:
    for table in filter(None, tables):
        typer.echo(("\n" if again else "") + render(table, form))


def _keep(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write a table that documents and plans read."""
    opt.write_text(path, to_csv(rows) + "\n")
    typer.echo(f"wrote {path}", err=True)
