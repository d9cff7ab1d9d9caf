"""ridgeline models, systems, schema: what ships, with the source of every figure."""

from pathlib import Path
from typing import Annotated, Any

import typer

from app.answers.table import TableFormat, render, to_json
from app.commands import options as opt
from genz_core.errors import InvalidValue


def models(
    name: Annotated[str, typer.Argument(help="Model to show; all if omitted; or `add`.")] = "",
    source: Annotated[
        str, typer.Argument(help="With `add`: hf:OWNER/NAME, a config.json or its folder.")
    ] = "",
    find: Annotated[str, typer.Option(help="Only names that contain this text.")] = "",
    to: Annotated[Path, typer.Option(help="With `add`: folder of the new file.")] = Path(
        "model_registry/configs"
    ),
    form: opt.Form = TableFormat.text,
) -> None:
    """List the shipped models, show one, or write the file of a new one (add)."""
    import model_registry

    if name == "add":
        _add(source, to)
        return
    if name:
        facts = dict(model_registry.describe(name))
        width = max(map(len, facts))
        lines = "\n".join(f"{key.ljust(width)}  {value}" for key, value in facts.items())
        opt.show(form is TableFormat.json, facts, lines)
        return
    typer.echo(render(model_registry.listed(find), form))


def _add(source: str, folder: Path) -> None:
    """Write the draft of a model's library file, and print the facts that it still lacks."""
    from app.scenario.local_files import model_source
    from model_registry.finding.contribution import contribution

    if not source:
        raise InvalidValue("name what to add: hf:OWNER/NAME, or the path of a config.json")
    if not folder.is_dir():
        raise InvalidValue(f"{folder} is not a folder; name one with --to")
    new = contribution(model_source(source))
    path = folder / new.file
    if path.exists():
        raise InvalidValue(f"{path} exists; remove it first, or name another folder with --to")
    path.write_text(new.text, encoding="utf-8")
    typer.echo(f"{path}: {new.parameters:,.0f} parameters, {new.active_parameters:,.0f} active")
    for remark in new.remarks:
        typer.echo(f"- {remark}")


def systems(
    name: Annotated[
        str, typer.Argument(help="System to show; all if omitted; or `check`, `network`.")
    ] = "",
    file: Annotated[str, typer.Argument(help="The YAML file to check, or the network file.")] = "",
    base: Annotated[
        str, typer.Option(help="With `network`: the system that gets the network's links.")
    ] = "",
    vendor: Annotated[str, typer.Option(help="Only systems of this vendor.")] = "",
    kind: Annotated[str, typer.Option(help="Only gpu, cpu, tpu, npu or igpu.")] = "",
    find: Annotated[str, typer.Option(help="Only names that contain this text.")] = "",
    form: opt.Form = TableFormat.text,
) -> None:
    """List the shipped systems, show one with its sources, check a YAML file (check), or replace
    the links of a system by those of an ASTRA-sim network file (network).
    """
    import hardware_db
    from app.scenario.system_facts import (
        latency_words,
        listed,
        note_words,
        peak_words,
        sourced_facts,
    )

    if name == "check":
        _check_file(file, form)
        return
    if name == "network":
        typer.echo(_with_network(base, file), nl=False)
        return
    if name:
        record = sourced_facts(name)
        figures = record.pop("figures")
        head, system = f"{record['name']} ({record['slug']})", hardware_db.load(record["slug"])
        said = (note_words(system), peak_words(system), latency_words(system))
        words = "\n".join(filter(None, said))
        shown = [{name: cell for name, cell in row.items() if name != "link"} for row in figures]
        opt.show(form, {**record, "figures": figures}, head, shown, words)
        return
    wanted = listed(vendor, kind, find)
    typer.echo(
        render(wanted if form is TableFormat.json else [_short(row) for row in wanted], form)
    )


def _check_file(path: str, form: TableFormat) -> None:
    """Print a system's YAML figure by figure, with what is missing or assumed in it."""
    from app.scenario.local_files import system_source
    from hardware_db import contribution

    source = system_source(path)
    if isinstance(source, str):
        raise InvalidValue(f"{path[:120]!r} is not a YAML file; give the path of one")
    report = contribution.check(source)
    remarks = "\n".join(f"- {remark}" for remark in report.remarks)
    facts = {"figures": report.figures, "remarks": report.remarks}
    opt.show(form, facts, report.figures, remarks)


def _with_network(base: str, path: str) -> str:
    """YAML of a system with the links of a network file."""
    import yaml

    import hardware_db
    from app.exchange import network

    if not path or not base:
        lacks = "--base, the system that takes its links" if path else "a network file"
        raise InvalidValue(f"give {lacks}: ridgeline systems network ring.yml --base h100")
    document = network.with_links(hardware_db.load(base).slug, path)
    return yaml.safe_dump(document, sort_keys=False, width=100)


def _short(row: dict[str, Any]) -> dict[str, Any]:
    """The facts that fit on one line of a terminal, in display units.  row: from `si_facts`."""
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


def schema(
    name: Annotated[str, typer.Argument(help="arch, modules, ops or step; all if omitted.")] = "",
) -> None:
    """Print the JSON schema of a document that commands exchange, or list all schemas."""
    from model_registry.reports import schemas

    typer.echo(to_json(schemas.schema(name)) if name else "\n".join(schemas.names()))
