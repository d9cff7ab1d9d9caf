"""The facts of systems, in SI units and with the source of every figure."""

from dataclasses import asdict
from typing import Any

import hardware_db
from genz_core.errors import InvalidValue, RidgelineError
from genz_core.systems import System
from hardware_db import SystemRecord
from hardware_db.sourced_facts import unit_of


def listed(vendor: str = "", kind: str = "", find: str = "") -> list[dict[str, Any]]:
    """`si_facts` of all systems whose vendor, kind and names contain these texts.

    Raises:
        InvalidValue: a vendor or a kind that no system has; the message lists the existing ones.
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
    """Refuse a filter that matches no system."""
    there = sorted({str(row[column]) for row in rows}, key=str.casefold)
    if not any(wanted.casefold() in name.casefold() for name in there):
        raise InvalidValue(
            f"--{column} {wanted[:60]!r}: no system matches; there are {', '.join(there)}"
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
        "boost_factor": system.boost_factor,
        "tdp_w": system.tdp_w,
        "latency_constants": system.latency.note if system.latency else "",
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


def peak_words(system: System) -> str:
    """A phrase on the clock that bounds use: the rated one, or a higher known one."""
    if _peaks_measured(system.slug):
        return "Peaks were measured on this device."
    if system.boost_factor == 1.0:
        return "Peaks are rated values; no source states a higher clock for the bound."
    return (
        f"Bounds use {system.boost_factor:.4g} times the rated peaks, from the highest known "
        "clock; predictions use the rated peaks."
    )


def _peaks_measured(slug: str) -> bool:
    record = _record(slug)
    peaks = record.peak_dense_tflops.values() if record else ()
    return any(fact.kind == "measured" for fact in peaks)


def note_words(system: System) -> str:
    """The notes of a system's file in one text, "" without any."""
    record = _record(system.slug)
    return " ".join(record.notes) if record else ""


def _record(slug: str) -> SystemRecord | None:
    """The file of a system, None for a definition without one."""
    try:
        return hardware_db.facts(slug)
    except RidgelineError:
        return None


def latency_words(system: System) -> str:
    """A phrase on the origin of the constants that price a system's kernels."""
    if system.latency is None:
        return "Kernel times use the engine's constants."
    note = system.latency.note
    return f"Kernels: {note}."


def sourced_facts(name: str) -> dict[str, Any]:
    """`si_facts` with aliases, and "figures", see `figure_rows`."""
    record = hardware_db.facts(name)
    named = {
        "aliases": list(record.aliases),
        "instances": _instances(record),
        "notes": list(record.notes),
    }
    facts = si_facts(record.id)
    for link, (_, tier) in zip(facts["links"], record.tiers(), strict=True):
        form = tier.topology
        known = {} if form is None else {"kind": form.kind, "note": form.note or ""}
        source = "" if form is None else record.sources[form.source].title
        link["topology"] |= {"source": source, **known}
    return {**facts, **named, "figures": figure_rows(record)}


def figure_rows(record: SystemRecord) -> list[dict[str, Any]]:
    """Every figure of a system in the datasheet's unit, and how its links are wired, with the kind
    and the source of each.
    """

    def row(path: str, fact: Any, note: str | None, value: float | None, unit: str) -> dict:
        source = record.sources[fact.source]
        told = {"kind": fact.kind, "source": source.title, "link": source.url, "note": note or ""}
        return {"figure": path, "value": value, "unit": unit, **told}

    figures = [
        row(path, fact, fact.note, fact.value, unit_of(path)) for path, fact in record.figures()
    ]
    wiring = [
        row(f"links.{key}.topology", wired, f"{wired.topology()}: {wired.note}", None, "")
        for key, tier in record.tiers()
        if (wired := tier.topology) is not None
    ]
    return [*figures, *wiring]


def _instances(record: SystemRecord) -> list[dict[str, Any]]:
    """The cloud instance types with a system: number of devices and price of the instance."""
    return [
        {
            "name": entry.name,
            "cloud": entry.cloud,
            "devices": entry.devices,
            "usd_per_hour": entry.usd_per_hour.value if entry.usd_per_hour else None,
        }
        for entry in record.instances
    ]
