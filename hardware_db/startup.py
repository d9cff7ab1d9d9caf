"""Start-up times of replicas, and how often devices are lost and how much notice is given.

`technology/startup.csv` has one row per figure, with its kind and source.
"""

from __future__ import annotations

from genz_core.errors import InvalidValue
from hardware_db.tables import SourcedFigure, sourced_figures, table

_TABLE, _RATE = "startup", "bytes_per_s"


def stores() -> tuple[str, ...]:
    """Names of the stores that weights can be loaded from."""
    return tuple(row["of"] for row in table("technology", _TABLE) if row["figure"] == _RATE)


def load_rate(store: str) -> SourcedFigure:
    """Rate at which weights are loaded from a store [bytes/s].

    Raises:
        InvalidValue: no such store; the message lists the known ones.
    """
    if store not in stores():
        raise InvalidValue(f"weights_from = {store[:60]!r}: choose {', '.join(stores())}")
    return sourced_figures(_TABLE, store)[_RATE]


def of_engine(engine: str, figure: str) -> SourcedFigure | None:
    """One of compile_s, compile_kept_s and capture_s of an engine [s]; None if it is unknown."""
    return sourced_figures(_TABLE, engine).get(figure)


def of_loss(figure: str) -> SourcedFigure:
    """One of device_mtbf_s, notice_s and evict_s [s]."""
    return sourced_figures(_TABLE, "*")[figure]
