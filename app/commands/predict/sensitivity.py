"""ridgeline sensitivity: what a scenario's figures answer to, its ridges, the hardware it needs."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.commands import options as opt
from app.wording.tables import TableFormat


def register(cli: typer.Typer) -> None:
    cli.command("sensitivity", help="What the figures answer to, and the hardware they need.")(
        sensitivity
    )


def sensitivity(
    model: opt.ModelName,
    system: opt.SystemName = "h100-sxm5-80gb",
    engine: opt.Engine = "generic",
    weights: opt.Weights = "",
    kv: opt.Kv = "",
    tp: opt.Tp = 1,
    pp: opt.Pp = 1,
    dp: opt.Dp = 1,
    ep: opt.Ep = 1,
    batch: opt.Batch = 1,
    isl: opt.Isl = 1024,
    osl: opt.Osl = 128,
    load: Annotated[
        str, typer.Option(help="static: one batch; load: so many users in a closed loop.")
    ] = "static",
    change: Annotated[float, typer.Option(help="Percent more and less of each resource.")] = 10.0,
    target: Annotated[
        str, typer.Option(help='What hardware would meet: "tpot < 20ms, ttft < 500ms".')
    ] = "",
    json: opt.Json = False,
    format_: opt.Form = TableFormat.text,
) -> None:
    from app.decide.sensitivity_rows import document, sentences, table
    from app.planning.targets import parse_targets
    from app.scenario.local_files import resolve_local
    from app.scenario.scenario import Scenario
    from app.wording.tables import render, to_json

    names: dict[str, Any] = {"model": model, "system": system, "engine": engine, "kv": kv}
    sizes: dict[str, Any] = {"tp": tp, "pp": pp, "dp": dp, "ep": ep}
    scenario = Scenario(**names, **sizes, weights=weights, batch=batch, isl=isl, osl=osl)
    resolved = resolve_local(scenario)
    named = document(resolved, change / 100.0, load, parse_targets(target))
    chosen = opt.table_format(format_, json)
    if chosen is TableFormat.json:
        typer.echo(to_json(named))
        return
    typer.echo(render(table(named), chosen))
    if chosen is not TableFormat.csv:
        typer.echo("\n" + "\n".join(sentences(named)))
