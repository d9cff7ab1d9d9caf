"""Shipped sessions: turns, lengths and pauses as recorded, or as defined by a benchmark.

`recorded/NAME.csv` has one row per turn, ordered by session; sources and licences are in
`recorded/PROVENANCE.md`.
"""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from genz_core.types import Array

_FOLDER = Path(__file__).parent / "recorded"


@dataclass(frozen=True, slots=True, eq=False)
class Sessions:
    """Turns of recorded sessions, [turns].

    first: rows that begin a session.  input_tokens: new prompt tokens, without those shared by all
    sessions.  output_tokens: of the answer.  pause_s: before a turn that is not the first.
    shared_tokens: common beginning of all prompts.
    """

    first: NDArray[np.intp]
    input_tokens: Array
    output_tokens: Array
    pause_s: Array
    shared_tokens: int

    @property
    def means(self) -> tuple[float, float]:
        """Mean turns per session, and mean pause between two turns [s]."""
        turns, later = len(self.input_tokens), len(self.input_tokens) - len(self.first)
        return turns / len(self.first), float(self.pause_s.sum() / max(later, 1))

    def drawn(
        self, count: int, generator: np.random.Generator
    ) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
        """`count` turns of sessions drawn with replacement: their rows and numbers of turns."""
        sizes = np.diff(np.append(self.first, len(self.input_tokens)))
        chosen = generator.integers(0, len(sizes), count)  # each session has at least one turn
        begin = np.cumsum(sizes[chosen]) - sizes[chosen]
        chosen = chosen[begin < count]
        turn = np.concatenate([np.arange(size) for size in sizes[chosen]])[:count]
        rows = np.repeat(self.first[chosen], sizes[chosen])[:count] + turn
        return rows, turn


@cache
def read(name: str) -> Sessions:
    """The sessions called `name`, one of `app.question.load.SESSIONS`."""
    with (_FOLDER / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = {key: np.array([float(row[key]) for row in rows]) for key in rows[0]}
    return Sessions(
        np.flatnonzero(columns["turn"] == 1),
        columns["input_tokens"],
        columns["output_tokens"],
        columns["pause_s"],
        int(columns["shared_tokens"][0]),
    )
