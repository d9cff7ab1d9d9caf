"""ridgeline sweep: price every combination of batches, lengths and degrees."""

from __future__ import annotations

from typing import Annotated

import typer

from app.commands import options as opt
from app.wording.tables import TableFormat

Values = Annotated[str, typer.Option(help='Values: "1,2,4", "1:256:x2" or "128:1024:128".')]


def register(cli: typer.Typer) -> None:
    cli.command("sweep", help="Price every combination of batches, lengths and degrees.")(sweep)


def sweep(
    model: opt.ModelName,
    system: opt.SystemName = "h100-sxm5-80gb",
    engine: opt.Engine = "generic",
    weights: opt.Weights = "",
    kv: opt.Kv = "",
    batch: Values = "1:256:x2",
    isl: Values = "1024",
    osl: Values = "128",
    tp: Values = "1",
    pp: Values = "1",
    ep: Values = "1",
    frontier: Annotated[
        bool, typer.Option(help="Only points nothing beats in TPOT and tokens/s per device.")
    ] = False,
    json: opt.Json = False,
    format_: opt.Form = TableFormat.text,
) -> None:
    from app.scenario import sweep_rows
    from app.scenario.axis_values import parse_values
    from app.scenario.local_files import resolve_local
    from app.scenario.scenario import Scenario
    from genz_core.search import sweep as price

    scenario = Scenario(model=model, system=system, engine=engine, weights=weights, kv=kv)
    resolved = resolve_local(scenario)
    texts = {"batch": batch, "isl": isl, "osl": osl, "tp": tp, "pp": pp, "ep": ep}
    axes = {name: parse_values(name, text) for name, text in texts.items()}
    result = price(resolved.model, resolved.system, axes, resolved.engine)
    rows = sweep_rows.rows(result, axes)
    if frontier:
        rows = sweep_rows.frontier(rows)
    typer.echo(opt.rendered(rows, opt.table_format(format_, json)))
