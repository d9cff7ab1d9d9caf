"""ridgeline sweep: price every combination of batches, lengths and degrees."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.commands import options as opt
from app.wording.tables import Format

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
    format_: opt.Form = Format.text,
) -> None:
    from app.scenario.axis_values import parse_values
    from app.scenario.scenario import Scenario, resolve
    from genz_core.search import sweep as price

    resolved = resolve(Scenario(model=model, system=system, engine=engine, weights=weights, kv=kv))
    texts = {"batch": batch, "isl": isl, "osl": osl, "tp": tp, "pp": pp, "ep": ep}
    axes = {name: parse_values(name, text) for name, text in texts.items()}
    result = price(resolved.model, resolved.system, axes, resolved.engine)
    rows = table(result, axes)
    if frontier:
        rows = best(rows)
    typer.echo(opt.rendered(rows, opt.form(format_, json)))


def table(result: Any, axes: dict[str, list[float]]) -> list[dict[str, Any]]:
    """One row a configuration: the axes that vary, then the figures."""
    import numpy as np

    from app.scenario import intervals
    from genz_core.search import grid

    columns = grid(axes)
    size = len(next(iter(columns.values())))
    latencies = {name: getattr(result, name) for name in ("ttft_s", "tpot_s")}
    bounds = intervals.bounds_of(result)
    trusted = intervals.beside(latencies, intervals.of_batch(result), bounds)
    missing = trusted.pop("not_validated")
    devices = np.broadcast_to(np.asarray(result.devices, float), (len(result.status),))
    rate = result.output_tokens_per_s
    return [
        {
            **{name: int(column[at]) for name, column in columns.items()},
            "status": str(result.status[at]),
            **{name: float(values[at]) for name, values in trusted.items()},
            "not_validated": missing,
            "output_tokens_per_s": float(rate[at]),
            "output_tokens_per_s_per_device": float(rate[at] / devices[at]),
            "memory_bytes_per_device": float(result.memory.total_bytes[at]),
        }
        for at in range(size)
    ]


def best(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows on the frontier of TPOT against tokens per second and device, fitting ones only."""
    import numpy as np

    from genz_core.search import pareto

    fitting = [row for row in rows if row["status"] == "ok"]
    costs = np.array([row["tpot_s"] for row in fitting])
    gains = np.array([row["output_tokens_per_s_per_device"] for row in fitting])
    return [row for row, keep in zip(fitting, pareto(costs, gains), strict=True) if keep]
