"""The facts of systems, in SI units and with the source of every figure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import hardware_db
from genz_core.errors import InvalidValue
from hardware_db import SystemRecord


def listed(vendor: str = "", kind: str = "", find: str = "") -> list[dict[str, Any]]:
    """`si_facts` of all systems whose vendor, kind and names contain these texts.

    Raises:
        InvalidValue: a vendor or a kind that no system has; the sentence names those there are.
    """
    rows = [si_facts(slug) for slug in hardware_db.names()]
    _check("kind", kind, rows)
    _check("vendor", vendor, rows)
    return [
        row
        for row in rows
        if vendor.casefold() in row["vendor"].casefold()
        and kind.casefold() in row["kind"].casefold()
        and find.casefold() in f"{row['slug']} {row['name']}".casefold()
    ]


def _check(column: str, wanted: str, rows: list[dict[str, Any]]) -> None:
    """Refuse a filter that no system passes.

    Raises:
        InvalidValue: none has it; the sentence names those that there are.
    """
    there = sorted({str(row[column]) for row in rows}, key=str.casefold)
    if not any(wanted.casefold() in name.casefold() for name in there):
        raise InvalidValue(
            f"--{column} {wanted[:60]!r}: no system is; there are {', '.join(there)}"
        )


def si_facts(slug: str) -> dict[str, Any]:
    """The facts of a system in SI units, as `--json` prints them."""
    system = hardware_db.load(slug)
    rents = hardware_db.facts(slug).price.rents()
    return {
        "slug": system.slug,
        "name": system.name,
        "vendor": system.vendor,
        "kind": system.kind,
        "family": system.family,
        "memory_bytes": system.memory_bytes,
        "memory_bytes_per_s": system.memory_bytes_per_s,
        "second_memory": None if system.second_memory is None else asdict(system.second_memory),
        "peak_flops_per_s": dict(system.peak_flops_per_s),
        "l2_bytes": system.l2_bytes,
        "units": system.compute_units,
        "clock_hz": system.clock_hz,
        "tdp_w": system.tdp_w,
        "price_usd_per_hour": system.price_usd_per_hour,
        "prices": {
            market: {"usd_per_hour": price.value, "date": price.date.isoformat()}
            for market, price in rents.items()
        },
        "links": [
            {
                "name": link.name,
                "bytes_per_s": link.bytes_per_s,
                "latency_s": link.latency_s,
                "domain": link.domain,
                "in_network": link.in_network,
                "reached": link.reached,
                "topology": {**asdict(link.topology), "shape": list(link.topology.shape)},
            }
            for link in system.links
        ],
    }


def sourced_facts(name: str) -> dict[str, Any]:
    """`si_facts` with aliases, and "figures" in their datasheets' units with their sources."""
    record = hardware_db.facts(name)
    figures = [
        {
            "figure": path,
            "value": fact.value,
            "kind": fact.kind,
            "source": record.sources[fact.source].title,
            "note": fact.note or "",
        }
        for path, fact in record.figures()
    ]
    named = {"aliases": list(record.aliases), "instances": _instances(record)}
    facts = si_facts(record.id)
    for link, (_, tier) in zip(facts["links"], record.tiers(), strict=True):
        form = tier.topology
        known = {} if form is None else {"kind": form.kind, "note": form.note or ""}
        source = "" if form is None else record.sources[form.source].title
        link["topology"] |= {"source": source, **known}
    return {**facts, **named, "figures": figures}


def _instances(record: SystemRecord) -> list[dict[str, Any]]:
    """The instance types of clouds that carry a system, with devices and price of the whole."""
    return [
        {
            "name": entry.name,
            "cloud": entry.cloud,
            "devices": entry.devices,
            "usd_per_hour": entry.usd_per_hour.value if entry.usd_per_hour else None,
        }
        for entry in record.instances
    ]
