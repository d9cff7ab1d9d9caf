"""Rental prices of systems, and instance types of clouds that carry them.

`prices.csv` has one row per system and one column per market, each price with its list;
`instances.csv` one row per instance type with its device, number of devices and price;
`sources.yaml` the lists, each with its date.  `document` returns the data of a system in the form
of its YAML.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from hardware_db import yaml_document

MARKETS = ("on_demand", "reserved", "marketplace")
_FOLDER = Path(__file__).parent


def document(slug: str) -> dict[str, Any]:
    """Keys `price`, `instances` and `sources` of a system in the form of its YAML.

    Absent for a system without a listed rent.
    """
    prices, instances = _prices().get(slug, {}), _instances().get(slug, [])
    used = {price["source"] for price in prices.values()} | {row["source"] for row in instances}
    if not used:
        return {}
    sources = {name: source for name, source in _sources().items() if name in used}
    return {"price": prices, "instances": instances, "sources": sources}


@cache
def instance_names() -> dict[str, tuple[str, ...]]:
    """{slug: names of the instance types that carry the system}."""
    return {slug: tuple(row["name"] for row in rows) for slug, rows in _instances().items()}


@cache
def _sources() -> Mapping[str, Any]:
    text = (_FOLDER / "sources.yaml").read_text(encoding="utf-8")
    return yaml_document.parse(text, "rental/sources.yaml", ships=True)


@cache
def _prices() -> dict[str, dict[str, Any]]:
    """{slug: {key of the price: sourced price}} of `prices.csv`."""
    found: dict[str, dict[str, Any]] = {}
    for row in _rows("prices.csv"):
        markets = {market: (row[market], row[f"{market}_source"]) for market in MARKETS}
        found[row["system"]] = {
            f"{market}_usd_per_hour": _price(*stated)
            for market, stated in markets.items()
            if stated[0]
        }
    return found


@cache
def _instances() -> dict[str, list[dict[str, Any]]]:
    """{slug: its instance types} of `instances.csv`."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in _rows("instances.csv"):
        entry: dict[str, Any] = {
            "name": row["instance"],
            "cloud": row["cloud"],
            "devices": int(row["devices"]),
            "source": row["source"],
        }
        if row["usd_per_hour"]:
            entry["usd_per_hour"] = _price(row["usd_per_hour"], row["source"])
        found.setdefault(row["system"], []).append(entry)
    return found


def _price(value: str, source: str) -> dict[str, Any]:
    date = _sources()[source]["retrieved"]
    return {"value": float(value), "source": source, "kind": "datasheet", "date": date}


def _rows(name: str) -> list[dict[str, str]]:
    with (_FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))
