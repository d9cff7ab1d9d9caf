"""Run a file of simulations on this machine's cores or on a Dask cluster, and resume it.

The file of answers is rewritten completely from time to time; a row that it already contains is not
run again.
"""

import csv
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from app.scenario import points_file
from app.simulation.executor import Where, outcomes
from app.simulation.points import COLUMNS, Row, digest, simulate_row
from genz_core.common.progress import Cancel, Progress, never, silent
from genz_core.errors import InvalidValue, file_problem

_WRITE_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Simulations:
    """Answers of a file, one row each, without those not yet run.

    asked: number of rows of the file.  kept: answers that existed before.
    """

    rows: Sequence[Row]
    asked: int
    kept: int

    @property
    def complete(self) -> bool:
        """Whether every row has its answer."""
        return len(self.rows) == self.asked


def run_file(
    source: Path,
    target: Path,
    workers: int = 0,
    cluster: str = "",
    progress: Progress = silent,
    cancelled: Cancel = never,
) -> Simulations:
    """Simulate every row of `source` and write the answers to `target`.

    Args:
        workers: processes, 0 for one per core.
        cluster: address of a Dask scheduler, used instead.
        cancelled: True ends the run; completed answers are written.

    Raises:
        InvalidValue: a file that cannot be read, or a target that is not a file of answers.
        MeasurementError: a worker died, or no cluster answers; completed answers are written.
    """
    asked = points_file.read(source)
    named = [row | {"id": row.get("id") or str(at)} for at, row in enumerate(asked)]
    digests = [digest(row) for row in named]
    known = _known(target)
    answers = {at: known[asked] for at, asked in enumerate(digests) if asked in known}
    kept = len(answers)
    left = [at for at in range(len(named)) if at not in answers]
    if left:
        pieces = {at: (named[at], digests[at]) for at in left}
        done = outcomes(simulate_row, pieces, Where(workers, cluster), cancelled)
        with closing(done):
            try:
                _gather(done, answers, target, len(named), progress)
            finally:
                points_file.write(target, _ordered(answers), COLUMNS)
    return Simulations(_ordered(answers), len(named), kept)


def _ordered(answers: Mapping[int, Row]) -> list[Row]:
    return [answers[at] for at in sorted(answers)]


def _gather(
    done: Iterable[tuple[int, Row]],
    answers: dict[int, Row],
    target: Path,
    of: int,
    progress: Progress,
) -> None:
    """Collect answers as they arrive, and write them from time to time."""
    written = time.monotonic()
    for at, row in done:
        answers[at] = row
        progress(len(answers) / of, f"{len(answers):,} of {of:,} rows")
        if time.monotonic() - written > _WRITE_EVERY_S:
            points_file.write(target, _ordered(answers), COLUMNS)
            written = time.monotonic()


# ------------------------------------------------------------------------------- the answers


def _known(target: Path) -> dict[str, Row]:
    """Answers in a file, by the digest of their question; an empty file holds none."""
    if not target.exists():
        return {}
    try:
        with target.open(newline="", encoding="utf-8") as handle:
            reader = csv.DictReader(handle)
            header, rows = reader.fieldnames, list(reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidValue(f"{target}: {file_problem(error)}") from None
    if header is None:
        return {}
    if tuple(header) != COLUMNS:
        raise InvalidValue(
            f"{target} is not a result file of this command: name another file, or remove it"
        )
    return {row["digest"]: row for row in rows}
