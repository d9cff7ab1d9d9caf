"""Sessions that ship: turns, lengths and pauses as they were recorded, or as a benchmark has them.

`recorded/NAME.csv` has a row a turn, the turns of a session one after the other; sources and
licences are in `recorded/PROVENANCE.md`.
"""

from __future__ import annotations

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

    first: rows that begin a session.  input_tokens: new ones of the prompt, without those that
    all sessions share.  output_tokens: of the answer.  pause_s: before a turn that is no first one.
    shared_tokens: that all prompts start with.
    """

    first: NDArray[np.intp]
    input_tokens: Array
    output_tokens: Array
    pause_s: Array
    shared_tokens: int

    @property
    def means(self) -> tuple[float, float]:
        """Turns of a session, and the pause between two of them [s]."""
        turns, later = len(self.input_tokens), len(self.input_tokens) - len(self.first)
        return turns / len(self.first), float(self.pause_s.sum() / max(later, 1))

    def drawn(
        self, count: int, generator: np.random.Generator
    ) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
        """So many turns of sessions drawn with replacement: their rows, and which turn each is."""
        sizes = np.diff(np.append(self.first, len(self.input_tokens)))
        chosen = generator.integers(0, len(sizes), count)  # at least one turn each
        begin = np.cumsum(sizes[chosen]) - sizes[chosen]
        chosen = chosen[begin < count]
        turn = np.concatenate([np.arange(size) for size in sizes[chosen]])[:count]
        rows = np.repeat(self.first[chosen], sizes[chosen])[:count] + turn
        return rows, turn


@cache
def read(name: str) -> Sessions:
    """The sessions of a name of `app.question.load.SESSIONS`."""
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
