"""Requests of a simulation, as columns: arrival times, prompt and output tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from genz_core.errors import InvalidValue
from genz_core.types import Array

#: Ids of blocks; those of a long conversation may be a range.
Prefix = Sequence[int]


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests in the order in which a client sends them, [requests].

    arrival_s: time of arrival, non-decreasing; for a later turn of a session, think time after the
    answer to the previous turn.
    input_tokens, output_tokens: of each, at least one.
    after: row of the previous turn, -1 if there is none; empty without sessions.
    prefix: ids of the blocks of `block_tokens` tokens at the start of a request; requests with
    equal leading ids share these blocks.  Empty if nothing is shared.  Blocks beyond the prompt
    belong to the answer, which a later turn may share.
    """

    arrival_s: Array
    input_tokens: Array
    output_tokens: Array
    after: Array = field(default_factory=lambda: np.zeros(0, dtype=int))
    prefix: Sequence[Prefix] = ()
    block_tokens: int = 16

    def __post_init__(self) -> None:
        columns = ("arrival_s", "input_tokens", "output_tokens")
        for name in columns:
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=float))
        object.__setattr__(self, "after", np.asarray(self.after, dtype=int))
        self._check(columns)

    def __len__(self) -> int:
        return len(self.arrival_s)

    def first(self, count: int) -> Requests:
        """The first requests."""
        return replace(
            self,
            arrival_s=self.arrival_s[:count],
            input_tokens=self.input_tokens[:count],
            output_tokens=self.output_tokens[:count],
            after=self.after[:count],
            prefix=self.prefix[:count],
        )

    def _check(self, columns: Sequence[str]) -> None:
        """Refuse invalid requests.

        Raises:
            InvalidValue: names the row and its value.
        """
        sizes = {name: len(getattr(self, name)) for name in columns}
        if len(set(sizes.values())) > 1:
            raise InvalidValue(f"requests need columns of one length, not {sizes}")
        if not len(self):
            raise InvalidValue("there are no requests: give at least one")
        for name in columns:
            values = getattr(self, name)
            least = 0.0 if name == "arrival_s" else 1.0
            wrong = np.flatnonzero(~(np.isfinite(values) & (values >= least)))
            if wrong.size:
                row = int(wrong[0])
                raise InvalidValue(
                    f"request {row}: {name} = {values[row]:g}, but it must be a number of at "
                    f"least {least:g}"
                )
        rows = np.arange(len(self))
        alone = np.ones(len(self), bool) if not len(self.after) else self.after < 0
        later = np.flatnonzero(np.diff(self.arrival_s[alone]) < 0)
        if later.size:
            row = int(rows[alone][later[0] + 1])
            raise InvalidValue(
                f"request {row} arrives at {self.arrival_s[row]:g} s, before the one above it: "
                "sort the requests by arrival"
            )
        if len(self.after) and np.any(self.after >= rows):
            row = int(np.flatnonzero(self.after >= rows)[0])
            raise InvalidValue(f"request {row} follows request {self.after[row]}, which is later")
