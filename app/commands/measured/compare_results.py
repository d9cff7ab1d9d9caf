"""ridgeline compare for serving benchmark results: figures, findings, replayed requests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.answers.table import TableFormat, without_empty
from app.commands import options as opt
from app.commands.measured.import_ import sums
from app.commands.progress_bar import running

if TYPE_CHECKING:
    from app.benchmarks.replay import Replay
    from app.question.query import Query

_REPLAY_ROWS = 20


def run(
    files: Sequence[Path],
    query: Query,
    level: float,
    simulate: bool,
    replay: bool,
    form: TableFormat,
) -> None:
    """Compare results and print what was found.

    Raises:
        RidgelineError: a file that cannot be read, an unknown name, or nothing to predict.
    """
    from app.benchmarks import document, file_comparison, report
    from app.benchmarks.findings import findings
    from app.benchmarks.replay import can_replay
    from app.benchmarks.replay import replay as run_again
    from app.benchmarks.simulation import with_simulations

    deployments = file_comparison.asked_of(files, query)
    compared = file_comparison.compared(deployments, level)
    file_comparison.refuse_unpredicted(compared)
    replayed: list[Replay] = []
    if simulate or replay:
        with running("simulating") as job:
            if simulate:
                compared = with_simulations(compared, job.progress, job.cancelled)
            if replay:
                able = [one for one in deployments if can_replay(one)]
                replayed = [run_again(one) for one in able or deployments[:1]]
    blocks: list[Any] = [compared.rows] if form is TableFormat.csv else []
    blocks += [f"cut: {cut}" for cut in document.cuts(compared)]
    for point in compared.points:
        rows = [document.short_row(row, compared.level) for row in point.rows]
        refused = f": {point.refused}" if point.refused else ""
        blocks += [f"{point.label}{refused}", without_empty(rows), sums(point.checks)]
    found = (f"- {finding.sentence}" for finding in findings(compared))
    blocks.append("\n".join([*document.sentences(compared), *found]))
    for point, made in report.reports(compared):
        of = f"{compared.label(point)}: " if len(compared.points) > 1 else ""
        blocks.append(of + "\n".join(made.lines))
    for one in replayed:
        more = f"... {len(one.table):,} requests; --json has all"
        said = [more] if len(one.table) > _REPLAY_ROWS else []
        said += [*(f"note: {note}" for note in one.notes), *(f"- {s}" for s in one.sentences)]
        blocks += [
            f"replay, arrivals {one.arrivals}",
            one.table.head(_REPLAY_ROWS).to_dict("records"),
        ]
        blocks.append("\n".join(said))
    opt.show(form, document.of_comparison(compared, replayed), *blocks)
