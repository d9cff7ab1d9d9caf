"""ridgeline systems: list and show the hardware that ships, with the source of every figure."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands.options import Form, Json, table_format
from app.wording.tables import TableFormat

if TYPE_CHECKING:
    from hardware_db import SystemRecord


def register(cli: typer.Typer) -> None:
    help_ = "List the hardware that ships, show one with its sources, or check a file (check)."
    cli.command("systems", help=help_)(systems)


def systems(
    name: Annotated[str, typer.Argument(help="A system to show; empty: all; or: check.")] = "",
    file: Annotated[str, typer.Argument(help="To check: a YAML file.")] = "",
    vendor: Annotated[str, typer.Option(help="Only this vendor.")] = "",
    kind: Annotated[str, typer.Option(help="Only gpu, cpu, tpu, npu or igpu.")] = "",
    find: Annotated[str, typer.Option(help="Only names that contain this text.")] = "",
    json: Json = False,
    format_: Form = TableFormat.text,
) -> None:
    import hardware_db
    from app.wording.tables import render, to_json

    chosen = table_format(format_, json)
    if name == "check":
        _check_file(file, chosen)
        return
    if name:
        record = sourced_facts(name)
        figures = record.pop("figures")
        if chosen is TableFormat.json:
            typer.echo(to_json({**record, "figures": figures}))
        else:
            typer.echo(f"{record['name']} ({record['slug']})\n")
            typer.echo(render(figures, chosen))
        return
    rows = [si_facts(slug) for slug in hardware_db.names()]
    _check("kind", kind, rows)
    _check("vendor", vendor, rows)
    wanted = [
        row
        for row in rows
        if vendor.casefold() in row["vendor"].casefold()
        and kind.casefold() in row["kind"].casefold()
        and find.casefold() in f"{row['slug']} {row['name']}".casefold()
    ]
    typer.echo(
        render(wanted if chosen is TableFormat.json else [_short(row) for row in wanted], chosen)
    )


def _check_file(path: str, chosen: TableFormat) -> None:
    """What a system's YAML says, figure by figure, and what is missing or assumed in it.

    Raises:
        RidgelineError: no such file, or one that does not fit the schema, in a sentence.
    """
    from app.scenario.local_files import system_source
    from app.wording.tables import render, to_json
    from genz_core.errors import InvalidValue
    from hardware_db import contribution

    source = system_source(path)
    if isinstance(source, str):
        raise InvalidValue(f"{path[:120]!r} is no YAML file; give the path of one")
    report = contribution.check(source)
    if chosen is TableFormat.json:
        typer.echo(to_json({"figures": report.figures, "remarks": report.remarks}))
        return
    typer.echo(render(report.figures, chosen))
    typer.echo("\n".join(["", *(f"- {remark}" for remark in report.remarks)]))


def _check(column: str, wanted: str, rows: list[dict[str, Any]]) -> None:
    """Refuse a filter that no system passes.

    Raises:
        InvalidValue: none has it; the sentence names those that there are.
    """
    from genz_core.errors import InvalidValue

    there = sorted({str(row[column]) for row in rows}, key=str.casefold)
    if not any(wanted.casefold() in name.casefold() for name in there):
        raise InvalidValue(
            f"--{column} {wanted[:60]!r}: no system is; there are {', '.join(there)}"
        )


def si_facts(slug: str) -> dict[str, Any]:
    """The facts of a system in SI units, as `--json` prints them."""
    import hardware_db

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
    import hardware_db

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


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """The facts that fit on a line of a terminal, in display units.  row: of `si_facts`."""
    peaks = row["peak_flops_per_s"]
    best = peaks.get("bf16") or peaks.get("fp16") or peaks.get("fp32")
    return {
        "slug": row["slug"],
        "name": row["name"],
        "kind": row["kind"],
        "16-bit TFLOP/s": best / 1e12 if best else None,
        "memory GB": row["memory_bytes"] / 1e9,
        "GB/s": row["memory_bytes_per_s"] / 1e9,
    }
