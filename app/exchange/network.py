"""The links of a system as the network file of ASTRA-sim's analytical backend, written and read.

A dimension has a form (Ring, FullyConnected, Switch), a number of devices, GB/s per direction and a
latency in ns per hop.  Source: astra-sim/astra-sim, inputs/network/analytical.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from genz_core.errors import InvalidValue
from genz_core.systems import Link, System
from hardware_db import yaml_document

#: Name of each form of wiring in the file; a torus is a ring in each dimension.
_FORMS: Mapping[str, str] = {
    "switch": "Switch", "rails": "Switch", "pcie": "Switch", "dragonfly": "Switch",
    "mesh": "FullyConnected", "ring": "Ring", "torus": "Ring",
}  # fmt: skip
_WIRED: Mapping[str, str] = {"Switch": "switch", "FullyConnected": "mesh", "Ring": "ring"}
_KEYS = ("topology", "npus_count", "bandwidth", "latency")
#: Tiers of a system's links, the nearest first, and the source key that they cite.
_NO_ID = re.compile(r"[^a-z0-9.-]+")  # characters that the id of a system cannot contain
_TIERS, _SOURCE = ("scale_up", "node", "scale_out"), "network-file"


@dataclass(frozen=True, slots=True)
class Dimension:
    """form: Ring, FullyConnected or Switch.  bytes_per_s: of one link and direction.  A device in a
    ring has two such links, in a mesh n - 1, behind a switch one.
    """

    form: str
    devices: int
    bytes_per_s: float
    latency_s: float


def network_of(system: System, devices: int) -> tuple[Dimension, ...]:
    """The network of `devices` devices of a system, the nearest first.

    Raises:
        InvalidValue: more devices than its links connect, or a number that does not fill its
            domains.
    """
    found: list[Dimension] = []
    left = devices
    for link in system.links:
        if left == 1:
            break
        inside = left if not link.domain else min(left, max(link.domain // _product(found), 1))
        if left % inside:
            raise InvalidValue(
                f"{devices} devices are not a multiple of the {link.domain} devices of "
                f"{link.name}: give a multiple of {link.domain}, or at most {link.domain}"
            )
        if inside > 1:
            found += _dimensions(link, inside)
        left //= inside
    if left > 1:
        raise InvalidValue(
            f"{system.name} has no link beyond {devices // left} devices, but {devices} are "
            f"requested"
        )
    return tuple(found or [Dimension("Switch", 1, 1e9, 0.0)])


def as_text(network: Sequence[Dimension]) -> str:
    """The network file."""
    rows = {
        "topology": [part.form for part in network],
        "npus_count": [str(part.devices) for part in network],
        "bandwidth": [f"{part.bytes_per_s / 1e9:.6g}" for part in network],
        "latency": [f"{part.latency_s * 1e9:.6g}" for part in network],
    }
    units = {"bandwidth": "  # GB/s, one link and direction", "latency": "  # ns"}
    return "".join(
        f"{key}: [ {', '.join(row)} ]{units.get(key, '')}\n" for key, row in rows.items()
    )


def read(document: Any) -> tuple[Dimension, ...]:
    """The network of a file's content, as YAML or JSON gives it.

    Raises:
        InvalidValue: a missing key, or impossible forms or numbers.
    """
    if not isinstance(document, Mapping) or any(key not in document for key in _KEYS):
        raise InvalidValue(f"a network file has the keys {', '.join(_KEYS)}")
    columns = [document[key] if isinstance(document[key], list) else [document[key]]
               for key in _KEYS]  # fmt: skip
    if len({len(column) for column in columns}) != 1 or not columns[0]:
        raise InvalidValue(
            f"{', '.join(_KEYS)} of a network file must each have one entry per dimension"
        )
    return tuple(_read_dimension(*entries) for entries in zip(*columns, strict=True))


def with_links(base: str, network: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """A shipped system's document with the links of a network file, or of its content.

    Raises:
        InvalidValue: no such network; else as `system_document` and `yaml_document.read`.
    """
    if isinstance(network, Mapping):
        return system_document(base, read(network), "network.yml")
    file = Path(network)
    return system_document(base, read(yaml_document.read(file)), file.name)


def system_document(base: str, network: Sequence[Dimension], file: str) -> dict[str, Any]:
    """A system's YAML document: a shipped system with the links of a network, nearest first.

    base: slug of the system.  file: name of the network file, which the figures cite.

    Raises:
        InvalidValue: more dimensions than a system has tiers.
    """
    if len(network) > len(_TIERS):
        raise InvalidValue(
            f"{file} has {len(network)} dimensions, but a system has {len(_TIERS)} tiers of links: "
            "join dimensions of one kind"
        )
    slug = f"{base}-{_NO_ID.sub('-', Path(file).stem.lower())}"[:60]
    links: dict[str, Any] = dict.fromkeys(_TIERS)
    reached = 1
    for tier, part in zip(_TIERS, network, strict=False):
        reached *= part.devices
        links[tier] = {
            "name": f"{part.form} of {part.devices}",
            "gb_per_s": _fact(part.bytes_per_s * _links_of(part) / 1e9, "its links of a device"),
            "latency_us": _fact(part.latency_s * 1e6, "of one hop"),
            "domain": _fact(reached, "devices within this and the nearer dimensions"),
            "in_network": False,
            "reached": None,
            "topology": {
                "form": _WIRED[part.form], "shape": [], "pod": 0, "oversubscription": 1.0,
                "nics": 0.0, **_cited("form of the dimension"),
            },
        }  # fmt: skip
    return {
        "include": base, "id": slug, "name": f"{base} on {Path(file).stem}",
        "sources": {_SOURCE: {"title": f"network file {file}", "url": ""}}, "links": links,
    }  # fmt: skip


def _fact(value: float, note: str) -> dict[str, Any]:
    return {"value": value, **_cited(note)}


def _cited(note: str) -> dict[str, str]:
    return {"source": _SOURCE, "kind": "derived", "note": note}


def _read_dimension(form: Any, devices: Any, bandwidth: Any, latency: Any) -> Dimension:
    if form not in _WIRED:
        raise InvalidValue(f"topology = {str(form)[:40]!r}: choose {', '.join(_WIRED)}")
    if not isinstance(devices, int) or isinstance(devices, bool) or not 1 <= devices <= 2**20:
        raise InvalidValue(f"npus_count = {str(devices)[:40]!r}: give a whole number from 1 on")
    rate, wait = _positive("bandwidth", bandwidth), _positive("latency", latency, zero=True)
    return Dimension(form, devices, rate * 1e9, wait * 1e-9)


def _positive(name: str, value: Any, *, zero: bool = False) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if number and math.isfinite(value) and (value > 0 or (zero and value == 0)):
        return float(value)
    raise InvalidValue(f"{name} = {str(value)[:40]!r}: give a number above 0")


def _dimensions(link: Link, devices: int) -> list[Dimension]:
    """The dimensions of a tier; a torus has one per side, with the links divided between them."""
    form = _FORMS[link.topology.form]
    sides = [devices]
    if link.topology.form == "torus" and math.prod(link.topology.shape) == devices:
        sides = [side for side in link.topology.shape if side > 1]
    share = link.bytes_per_s / len(sides)
    # each pair has its own link, however many devices of the domain are used
    if form == "FullyConnected":
        share *= (devices - 1) / (max(link.domain, devices) - 1)
    parts = [Dimension(form, side, share, link.latency_s) for side in sides]
    return [replace(part, bytes_per_s=share / _links_of(part)) for part in parts]


def _links_of(part: Dimension) -> int:
    """Links of a device in a dimension, per direction."""
    if part.form == "Ring":
        return 2 if part.devices > 2 else 1
    return part.devices - 1 if part.form == "FullyConnected" else 1


def _product(parts: Sequence[Dimension]) -> int:
    return math.prod(part.devices for part in parts)
