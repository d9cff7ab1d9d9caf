"""A load that pages ask about."""

from __future__ import annotations

from dataclasses import dataclass

from app.wording import quantities


@dataclass(frozen=True, slots=True)
class Load:
    """A load.  name: "concurrency" or "rate", at `value`."""

    name: str
    value: float

    @property
    def words(self) -> str:
        """ "64 users" or "3.2 requests/s"."""
        if self.name == "concurrency":
            return f"{self.value:,.0f} user{'s' if self.value > 1 else ''}"
        return f"{quantities.digits(self.value)} requests/s"
