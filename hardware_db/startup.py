"""What the start of a replica takes, how often devices are lost, and how long until a new start.

`technology/startup.csv` has a row a figure, with its kind and source.
"""

from __future__ import annotations

from genz_core.errors import InvalidValue
from hardware_db.tables import SourcedFigure, sourced_figures, table

_TABLE, _RATE = "startup", "bytes_per_s"


def stores() -> tuple[str, ...]:
    """Where weights may be loaded from."""
    return tuple(row["of"] for row in table("technology", _TABLE) if row["figure"] == _RATE)


def load_rate(store: str) -> SourcedFigure:
    """Bytes a second at which weights are loaded from a store.

    Raises:
        InvalidValue: no such store; those that there are are named.
    """
    if store not in stores():
        raise InvalidValue(f"weights_from = {store[:60]!r}: choose {', '.join(stores())}")
    return sourced_figures(_TABLE, store)[_RATE]


def of_engine(engine: str, figure: str) -> SourcedFigure | None:
    """compile_s, compile_kept_s or capture_s of an engine [s]; None where it is not known."""
    return sourced_figures(_TABLE, engine).get(figure)


def of_loss(figure: str) -> SourcedFigure:
    """device_mtbf_s, notice_s or evict_s [s]."""
    return sourced_figures(_TABLE, "*")[figure]
