"""Power that a site draws beside its devices: host and network of each device, and overhead on all.

`technology/site_power.csv` has one row per figure, with its kind and source; rows of "*" are
estimates for devices whose server's maximum power is not known.
"""

from __future__ import annotations

from dataclasses import dataclass

from genz_core.types import System
from hardware_db.tables import table


@dataclass(frozen=True, slots=True)
class PowerFigure:
    """A figure with its kind ("datasheet", "derived", "measured", "assumed"), source and note."""

    value: float
    kind: str
    source: str
    note: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.note} ({self.source})"


@dataclass(frozen=True, slots=True)
class SitePower:
    """host_w, network_w: per device [W].  pue: power of the site over that of its equipment."""

    host_w: PowerFigure
    network_w: PowerFigure
    pue: PowerFigure


def site_power(system: System) -> SitePower:
    """The figures of a system: of its own server where that is known, otherwise the estimate.

    A processor, or a chip with its host inside, has no separate host; a device that states no link
    beyond its node has no share of a network.
    """
    own = _rows(system.slug)
    general = _rows("*")
    host = own.get("host_w")
    if host is None:
        share, watts = general["host_share"], system.tdp_w or 0.0
        if system.kind in ("cpu", "igpu"):
            share = PowerFigure(0.0, "derived", "its own processor", "it is its own host")
        words = f"{share.value:g} x {watts:g} W; {share.note}" if share.value else share.note
        host = PowerFigure(share.value * watts, share.kind, share.source, words)
    network = own.get("network_w", general["network_w"])
    if not any(link.domain == 0 for link in system.links):
        network = PowerFigure(0.0, "derived", "its links", "no link beyond the node is stated")
    return SitePower(host, network, own.get("pue", general["pue"]))


def _rows(of: str) -> dict[str, PowerFigure]:
    """{figure: its row} of a system, or of "*"."""
    return {
        row["figure"]: PowerFigure(float(row["value"]), row["kind"], row["source"], row["note"])
        for row in table("technology", "site_power")
        if row["of"] == of
    }
