"""The search: propose, run and learn until no setting may be clearly better or the budget ends."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app.tuning.next_setting import Choice, best_of, choose
from app.tuning.outcome import Outcome
from app.tuning.space import Setting, Space, words
from app.tuning.study import Record, Study
from genz_core.common.progress import Cancel, Cancelled, Progress, never, part, silent
from genz_core.errors import InvalidValue

#: Function that runs a setting; it gets an empty folder for its files, or None if nothing is
#: stored.
Runner = Callable[[Setting, "Path | None", Progress, Cancel], Outcome]


@dataclass(frozen=True)
class Tuned:
    """A search and its progress.

    records: every run.  choice: the next setting, with how much better it may be.
    stop: why the search is over, in a sentence; "" if it is not.
    within: relative gain that is too small for another run.  level: probability of an interval.
    """

    space: Space
    records: tuple[Record, ...]
    choice: Choice
    stop: str
    within: float
    level: float

    @property
    def best(self) -> Record | None:
        """The best run that meets the targets."""
        usable = usable_runs(self.space, self.records)
        number = best_of(self.space, [run for _, run in usable])
        return None if number is None else usable[number][0]


def usable_runs(
    space: Space, records: Sequence[Record]
) -> list[tuple[Record, tuple[int, Outcome]]]:
    """The runs whose setting is still in the space, with its index."""
    found = []
    for record in records:
        try:
            found.append((record, (space.at(record.setting), record.outcome)))
        except InvalidValue:  # the current prediction says that it cannot run
            continue
    return found


def proposed(space: Space, records: Sequence[Record], within: float, level: float) -> Choice:
    """What to run next after some runs, see `choose`."""
    return choose(space, [run for _, run in usable_runs(space, records)], within, level)


def tune(
    space: Space,
    runner: Runner,
    study: Study,
    runs: int,
    within: float = 0.05,
    level: float = 0.8,
    progress: Progress = silent,
    cancelled: Cancel = never,
) -> Tuned:
    """Run settings until the search is over; runs already in the study count.

    runs: largest number in total.  within, level: see `Tuned`.

    Raises:
        RidgelineError: from the runner, if it cannot run anything.
    """
    stop = ""
    while True:
        choice = proposed(space, study.records, within, level)
        done = len(study.records)
        if choice.proposal is None:
            stop = choice.stop
        elif done >= runs:
            stop = f"the budget of {runs:,} runs is spent"
        elif cancelled():
            stop = "cancelled"
        if stop or choice.proposal is None:
            break
        setting = space.settings[choice.proposal.at]
        now = part(progress, done / runs, (done + 1) / runs)
        now(0.0, f"run {done + 1}: {words(setting)}")
        started, clock = datetime.now(UTC).isoformat(timespec="seconds"), time.monotonic()
        try:
            outcome = runner(setting, study.next_folder(), now, cancelled)
        except Cancelled:
            stop = "cancelled"
            break
        seconds = time.monotonic() - clock
        proposal: Mapping[str, Any] = asdict(choice.proposal)
        study.add(Record(done + 1, setting, outcome, proposal, started, seconds))
    progress(1.0, stop)
    return Tuned(space, tuple(study.records), choice, stop, within, level)
