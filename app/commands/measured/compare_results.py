"""ridgeline compare, of results of serving benchmarks: figures, findings, requests replayed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from app.answers.table import TableFormat

if TYPE_CHECKING:
    from app.benchmarks.comparison import Comparison
    from app.benchmarks.replay import Replay
    from app.question.asking import Asked

_REPLAY_ROWS = 20


def run(
    files: Sequence[Path],
    asked: Asked,
    level: float,
    simulate: bool,
    replay: bool,
    chosen: TableFormat,
) -> None:
    """Compare results and print what was found.

    Raises:
        RidgelineError: a file that cannot be read, a name nobody knows, or nothing to predict.
    """
    from app.benchmarks import of_files
    from app.benchmarks.replay import can_replay
    from app.benchmarks.replay import replay as run_again
    from app.benchmarks.simulated import with_simulations
    from app.commands.progress_bar import running

    deployments = of_files.asked_of(files, asked)
    compared = of_files.compared(deployments, level)
    of_files.refuse_unpredicted(compared)
    replayed: list[Replay] = []
    if simulate or replay:
        with running("simulating") as job:
            if simulate:
                compared = with_simulations(compared, job.progress, job.cancelled)
            if replay:
                able = [one for one in deployments if can_replay(one)]
                replayed = [run_again(one) for one in able or deployments[:1]]
    _print(compared, replayed, chosen)


def _print(compared: Comparison, replayed: Sequence[Replay], chosen: TableFormat) -> None:
    from app.answers.table import render, to_json
    from app.benchmarks import document
    from app.benchmarks.findings import findings

    if chosen is TableFormat.json:
        typer.echo(to_json(document.of_comparison(compared, replayed)))
        return
    if chosen is TableFormat.csv:
        typer.echo(render(compared.rows, chosen))
        return
    for point in compared.points:
        typer.echo(f"{point.label}{f': {point.refused}' if point.refused else ''}\n")
        rows = [document.short_row(row, compared.level) for row in point.rows]
        typer.echo(render(_without_empty(rows), chosen) + "\n")
    for words in document.sentences(compared):
        typer.echo(words)
    for finding in findings(compared):
        typer.echo(f"- {finding.sentence}")
    for one in replayed:
        _print_replay(one, chosen)


def _print_replay(one: Replay, chosen: TableFormat) -> None:
    from app.answers.table import render

    shown = one.table.head(_REPLAY_ROWS).to_dict("records")
    typer.echo(f"\nreplay, arrivals {one.arrivals}\n{render(shown, chosen)}")
    if len(one.table) > _REPLAY_ROWS:
        typer.echo(f"... {len(one.table):,} requests; --json has all")
    for words in one.notes:
        typer.echo(f"note: {words}")
    for words in one.sentences:
        typer.echo(f"- {words}")


def _without_empty(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows without the columns that no row has a value in."""
    return [{name: row.get(name) for name in _filled(rows)} for row in rows]


def _filled(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for name in rows[0] if rows else ():
        if any(row[name] == row[name] and row[name] not in (None, "") for row in rows):
            yield name
