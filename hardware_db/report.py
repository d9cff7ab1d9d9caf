"""Page of all systems, docs/hardware.md, written from the database.

python -m hardware_db.report > docs/hardware.md
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from genz_core.common.cells import markdown_row
from hardware_db import system_files
from hardware_db.rental import MARKETS
from hardware_db.sourced_facts import ASSUMPTION, Price, unit_of
from hardware_db.system_schema import SystemRecord

_HEAD = """\
# Hardware

{count} systems ship with Ridgeline. Each is one YAML file in `hardware_db/systems`; every number in
it carries its value, its source and its kind:

| kind | means |
| --- | --- |
| datasheet | the vendor states it, in the source or in a table that quotes the vendor |
| derived | computed from stated figures; the note says how |
| measured | read from a running device |
| assumed | nobody states it, or the statement could not be confirmed; the note says which |

Peaks are dense: figures that datasheets print with 2:4 sparsity are halved. Links are per device
and per direction. Memory devices hold binary gigabytes, so a card sold with "80 GB" has 80 GiB
unless its driver reports less. The tensor cores of GeForce cards run at half rate when they
accumulate in fp32, which language models need, so the fp16, bf16 and fp8 peaks given here are at
that rate. A CPU's peak is taken at its base clock. This page is written by
`python -m hardware_db.report`.

A tier of links states how its devices are wired (`topology`), which determines how much of a
device's bandwidth a group of devices can use. With `switch` a group can use all of it. With `rails`
there is a switch for each position in a node, and other positions are reached through the node.
With `mesh` a group uses the links to its own members, with `ring` and `torus` the links inside its
slice: `shape` is the size of the torus, and a dimension of a slice closes to a ring if it is a
multiple of `closes_at`. With `dragonfly`, or a switch with `oversubscription`, the uplinks of each
`pod` of devices limit the group, and with `pcie` the slots of one host. `nics` is the number of
adapters or
ports per device. A tier without a topology is a switch. `reached` is the share of the rate that is
left after protocol overhead.

`second_memory` is a slower memory that the device reads by itself. `memory_gib` and `gb_per_s` are
a device's share, at the lower of the rates of the memory and its link. `holds` says whether
weights, cache or both may be placed there; `reached` is the achieved share of the rate, where it is
known. `--offload levels` places data in both: the first memory gets the data with the most reads
per byte in a decode step, the second the rest (experts that few tokens use, embeddings, the end of
the cache). Each operator reads its shares at the respective bandwidths. More capacity or bandwidth
never makes a prediction slower. Systems with only SRAM (Groq 3) have one memory; no second one was
announced for Rubin CPX.

A new system is one new file: state the known figures and leave out unknown ones. `include:` names a
shipped system to start from; the remaining keys state the differences, and `null` removes a key.
A system that changes only links, host or second memory has the same device as the one that it
includes, and is priced with that device's kernels and measured runs.
Put files of your own in `systems/` in the data folder (`$RIDGELINE_DATA`, else the usual place of
the platform).
"""

_RENTS = """
## Rents

US dollars per hour for one device, with the date of the price list; `hardware_db/rental` holds the
figures and their sources. On demand is a provider's list price, reserved is the lowest price of a
long contract. The marketplace price is the lowest offer of that day, from another kind of host on
another contract; it is often a third of the list price. A plan uses the on-demand rent, else the
reserved one, else the marketplace's; `--price` replaces it by yours.

"""

_INSTANCES = """
## Instance types of clouds

An instance type can also be used as the name of a system. The price is that of the whole instance.

"""

_SECOND = """
## Second memories

"""
_RESTS_ON = """
## Sources of each file

The number of figures of each kind, the number of documents that they cite, and how many of these
have an address.

"""

_UNCONFIRMED = """
## Not confirmed

Figures of kind `assumed` that could not be confirmed in a vendor's document, although others
attribute them to one or tools report them. Confirming or correcting a value changes one line.

"""

_ASSUMED = """
## Assumed

Figures that no vendor states for the device alone: latencies of links, and the fabric and host of a
typical node.

"""


def page() -> str:
    """The page as Markdown."""
    records = [system_files.find(slug) for slug in sorted(system_files.shipped())]
    parts = [_HEAD.format(count=len(records)), *_vendor_tables(records)]
    parts += [_RENTS, *_rents(records), _INSTANCES, *_instances(records)]
    parts += [_SECOND, *_second_memories(records)]
    parts += [_RESTS_ON, *_kinds(records)]
    parts += [_UNCONFIRMED, *_unconfirmed(records), _ASSUMED, *_assumed(records)]
    return "".join(parts)


def _kinds(records: Iterable[SystemRecord]) -> Iterator[str]:
    """Number of figures of each kind for every system, and the documents behind them."""
    kinds = ("datasheet", "derived", "measured", "assumed")
    yield _row("system", *kinds, "documents", "with an address")
    yield _row("---", *["---:"] * (len(kinds) + 2))
    for record in records:
        facts = [fact for _, fact in record.figures()]
        counts = Counter(str(fact.kind) for fact in facts)
        used = {fact.source for fact in facts}
        addressed = sum(1 for name in used if record.sources[name].url)
        shown = (str(counts[kind] or "") for kind in kinds)
        yield _row(f"`{record.id}`", *shown, str(len(used)), str(addressed))


def _vendor_tables(records: Iterable[SystemRecord]) -> Iterator[str]:
    """The headline figures of all systems, in one table per vendor."""
    by_vendor = defaultdict(list)
    for record in records:
        by_vendor[record.vendor].append(record)
    for vendor, systems in sorted(by_vendor.items()):
        yield f"\n## {vendor}\n\n"
        yield _row("system", "name", "16 bit", "8 bit", "memory", "bandwidth", "scale-up", "TDP")
        yield _row(*["---"] * 2, *["---:"] * 4, "---", "---:")
        for record in systems:
            yield _row(f"`{record.id}`", record.name, *_summary(record))


def _summary(record: SystemRecord) -> Iterator[str]:
    """Headline figures of a system: TFLOP/s, GiB, GB/s, links, W; "" where not stated."""
    system = record.system()
    peaks = system.peak_flops_per_s
    for names in (("bf16", "fp16"), ("fp8", "int8")):
        rate = next((peaks[name] for name in names if name in peaks), None)
        yield "" if rate is None else f"{rate / 1e12:.4g} TFLOP/s"
    yield f"{system.memory_bytes / 2**30:.4g} GiB"
    yield f"{system.memory_bytes_per_s / 1e9:.5g} GB/s"
    link = system.links[0] if system.links else None
    yield (
        ""
        if link is None
        else (f"{link.name}, {link.bytes_per_s / 1e9:.4g} GB/s, {link.domain}, {link.topology}")
    )
    yield "" if system.tdp_w is None else f"{system.tdp_w:g} W"


def _second_memories(records: Iterable[SystemRecord]) -> Iterator[str]:
    """Table of the systems with a second memory."""
    yield _row("system", "second memory", "GiB", "GB/s", "holds")
    yield _row("---", "---", "---:", "---:", "---")
    for record in records:
        if (level := record.second_memory) is not None:
            size, rate = f"{level.memory_gib.value:g}", f"{level.gb_per_s.value:g}"
            yield _row(f"`{record.id}`", level.name, size, rate, ", ".join(level.holds))


def _rents(records: Iterable[SystemRecord]) -> Iterator[str]:
    """Table of hourly rents, one market per column."""
    yield _row("system", *(market.replace("_", " ") for market in MARKETS))
    yield _row("---", *["---:"] * len(MARKETS))
    for record in records:
        rents = record.price.rents()
        if rents:
            yield _row(f"`{record.id}`", *(_dated(rents.get(market)) for market in MARKETS))


def _instances(records: Iterable[SystemRecord]) -> Iterator[str]:
    """Table of the instance types of clouds with their devices."""
    yield _row("cloud", "instance", "system", "devices", "US$/h")
    yield _row("---", "---", "---", "---:", "---:")
    for record in records:
        for entry in record.instances:
            price = _dated(entry.usd_per_hour)
            name, devices = f"`{entry.name}`", str(entry.devices)
            yield _row(entry.cloud, name, f"`{record.id}`", devices, price)


def _dated(price: Price | None) -> str:
    """A price with its date; "" for none."""
    return "" if price is None else f"{price.value:g} ({price.date})"


def _unconfirmed(records: Iterable[SystemRecord]) -> Iterator[str]:
    """Table of figures that a document is said to state but that could not be confirmed."""
    yield _row("system", "figures", "said to be in")
    yield _row("---", "---", "---")
    for record in records:
        unconfirmed = [
            (path, fact)
            for path, fact in record.figures()
            if fact.kind == "assumed" and fact.source != ASSUMPTION
        ]
        if unconfirmed:
            figures = ", ".join(
                f"{path.removeprefix('peak_dense_tflops.')} {fact.value:g} {unit_of(path)}".strip()
                for path, fact in unconfirmed
            )
            titles = {record.sources[fact.source].title for _, fact in unconfirmed}
            yield _row(f"`{record.id}`", figures, "; ".join(sorted(titles)))


def _assumed(records: Iterable[SystemRecord]) -> Iterator[str]:
    """Table of assumptions without a document, with the number of systems that share each."""
    users = defaultdict(set)
    for record in records:
        for path, fact in record.figures():
            if fact.source == ASSUMPTION:
                users[path, fact.value, fact.note].add(record.id)
    yield _row("figure", "value", "why", "systems")
    yield _row("---", "---:", "---", "---:")
    for (path, value, note), slugs in sorted(users.items(), key=str):
        yield _row(path, f"{value:g} {unit_of(path)}".strip(), note or "", str(len(slugs)))


def _row(*cells: str) -> str:
    return f"{markdown_row(cells)}\n"


if __name__ == "__main__":
    sys.stdout.write(page())
