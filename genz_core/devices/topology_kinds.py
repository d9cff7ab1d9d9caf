"""How the devices of a tier of interconnect are wired."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Topology:
    """How the devices of a tier are connected.

    form: "switch", any device reaches any other at full rate; "rails", one switch per position in
    the inner tier, and messages to other positions cross the inner tier first; "mesh", one link per
    pair; "ring" and "torus", links to neighbours in each dimension; "dragonfly", groups of devices
    with links between groups; "pcie", slots of one host.
    shape: devices of the whole domain along each dimension of a torus.  closes_at: a dimension of a
    slice closes to a ring where it is a multiple of this; 0: only the whole dimension does.
    pod: devices that reach one another at full rate (those of a dragonfly's group, or below one
    switch);
    0: all.  oversubscription: bandwidth of a pod's devices over that of its uplinks.
    nics: network adapters or ports per device, 0 where that is not stated.
    """

    form: Literal["switch", "rails", "mesh", "ring", "torus", "dragonfly", "pcie"] = "switch"
    shape: tuple[int, ...] = ()
    closes_at: int = 0
    pod: int = 0
    oversubscription: float = 1.0
    nics: float = 0.0

    def __str__(self) -> str:
        words = ["×".join(map(str, self.shape))] if self.shape else []
        words.append(self.form)
        if self.oversubscription > 1.0:
            words.append(f"{self.oversubscription:g}:1")
        return " ".join(words)


SWITCH = Topology()
