"""Power that a site draws beside its devices: host and network of each device, and overhead on all.

`technology/site_power.csv` has one row per figure, with its kind and source; rows of "*" are
estimates for devices whose server's maximum power is not known.
"""

from __future__ import annotations

from dataclasses import dataclass

from genz_core.systems import System
from hardware_db.tables import SourcedFigure, sourced_figures


@dataclass(frozen=True, slots=True)
class SitePower:
    """host_w, network_w: per device [W].  pue: power of the site over that of its equipment."""

    host_w: SourcedFigure
    network_w: SourcedFigure
    pue: SourcedFigure


def site_power(system: System) -> SitePower:
    """The figures of a system: of its own server where that is known, otherwise the estimate.

    A processor, or a chip with its host inside, has no separate host; a device that states no link
    beyond its node has no share of a network.
    """
    own = sourced_figures("site_power", system.slug)
    general = sourced_figures("site_power", "*")
    host = own.get("host_w")
    if host is None:
        share, watts = general["host_share"], system.tdp_w or 0.0
        if system.kind in ("cpu", "igpu"):
            share = SourcedFigure(0.0, "derived", "its own processor", "it is its own host")
        words = f"{share.value:g} x {watts:g} W; {share.note}" if share.value else share.note
        host = SourcedFigure(share.value * watts, share.kind, share.source, words)
    network = own.get("network_w", general["network_w"])
    if not any(link.domain == 0 for link in system.links):
        network = SourcedFigure(0.0, "derived", "its links", "no link beyond the node is stated")
    return SitePower(host, network, own.get("pue", general["pue"]))
