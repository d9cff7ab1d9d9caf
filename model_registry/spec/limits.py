"""Sizes of a block that degrees of parallelism must divide; each block type lists its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Degree = Literal["tp", "ep", "moe_tp"]


@dataclass(frozen=True, slots=True)
class SplitLimit:
    """A size that one degree of parallelism divides.

    what: a plural noun for messages ("KV heads").  copied: a degree may exceed the size if it is a
    multiple of it; each part is then replicated on several devices.
    """

    degree: Degree
    size: int
    what: str
    copied: bool = False

    def allows(self, degree: int) -> bool:
        """Whether `degree` devices can share this size."""
        return self.size % degree == 0 or (self.copied and degree % self.size == 0)

    def __str__(self) -> str:
        return f"the {self.size} {self.what}"
