"""What the start of a replica takes, how often devices are lost, and how long until a new start.

`technology/startup.csv` has a row a figure, with its kind and source.
"""

from __future__ import annotations

from dataclasses import dataclass

from genz_core.errors import InvalidValue
from hardware_db.tables import table

_RATE = "bytes_per_s"


@dataclass(frozen=True, slots=True)
class StartFigure:
    """A figure with its kind ("datasheet", "derived", "measured", "assumed"), source and note."""

    value: float
    kind: str
    source: str
    note: str


def stores() -> tuple[str, ...]:
    """Where weights may be loaded from."""
    return tuple(row["of"] for row in table("technology", "startup") if row["figure"] == _RATE)


def load_rate(store: str) -> StartFigure:
    """Bytes a second at which weights are loaded from a store.

    Raises:
        InvalidValue: no such store; those that there are are named.
    """
    found = _figure(store, _RATE)
    if found is None:
        raise InvalidValue(f"weights_from = {store[:60]!r}: choose {', '.join(stores())}")
    return found


def of_engine(engine: str, figure: str) -> StartFigure | None:
    """compile_s, compile_kept_s or capture_s of an engine [s]; None where it is not known."""
    return _figure(engine, figure)


def of_loss(figure: str) -> StartFigure:
    """device_mtbf_s, notice_s or evict_s [s]."""
    found = _figure("*", figure)
    assert found is not None
    return found


def _figure(of: str, figure: str) -> StartFigure | None:
    for row in table("technology", "startup"):
        if (row["of"], row["figure"]) == (of, figure):
            return StartFigure(float(row["value"]), row["kind"], row["source"], row["note"])
    return None
