"""ridgeline economics: what a deployment's tokens cost, over a day, against an API; its energy."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.commands import options as opt

_Usd = Annotated[float, typer.Option(help="US dollars; 0: not stated.")]


def register(cli: typer.Typer) -> None:
    cli.command(
        "economics", help="Cost, energy and carbon of tokens: rented, owned, against an API."
    )(economics)


def economics(
    model: opt.ModelName,
    system: opt.SystemName = "h100-sxm5-80gb",
    engine: opt.Engine = "vllm",
    weights: opt.Weights = "",
    kv: opt.Kv = "",
    tp: opt.Tp = 1,
    pp: opt.Pp = 1,
    dp: opt.Dp = 1,
    ep: opt.Ep = 1,
    concurrency: Annotated[int, typer.Option(help="Users of a replica.")] = 64,
    isl: opt.Isl = 1024,
    osl: opt.Osl = 256,
    rent: Annotated[float, typer.Option(help="Of a device-hour [$]; 0: as stated.")] = 0.0,
    capex: Annotated[float, typer.Option(help="Price of a device and its share [$].")] = 0.0,
    lifetime: Annotated[float, typer.Option(help="Years that a device lasts.")] = 4.0,
    interest: Annotated[float, typer.Option(help="Cost of capital, percent a year.")] = 0.0,
    opex: Annotated[float, typer.Option(help="Operation, percent of the price a year.")] = 0.0,
    pue: Annotated[
        float | None,
        typer.Option(help="Power of the site over what it runs; else the average."),
    ] = None,
    host_power: Annotated[
        float | None, typer.Option(help="Of host and server a device [W]; as known of the system.")
    ] = None,
    network_power: Annotated[
        float | None,
        typer.Option(help="Of switches and optics a device [W]; else an estimate."),
    ] = None,
    electricity: Annotated[float, typer.Option(help="US dollars a kWh.")] = 0.10,
    api_in: _Usd = 0.0,
    api_out: _Usd = 0.0,
    peak_rate: Annotated[float, typer.Option(help="Requests/s in the busiest hour.")] = 0.0,
    carbon: Annotated[float, typer.Option(help="Grams of CO2 a kWh of your grid.")] = 0.0,
    power: Annotated[float, typer.Option(help="Measured power of a device [W].")] = 0.0,
    kept_runs: Annotated[
        bool, typer.Option(help="Take the power that a kept run near this load measured.")
    ] = True,
    json: opt.Json = False,
) -> None:
    from app.decide.economics import Terms, document
    from app.decide.economics_words import sentences
    from app.decide.measured_power import with_measured
    from app.measuring import run_store
    from app.scenario.local_files import resolve_local
    from app.scenario.scenario import Scenario
    from app.wording.tables import to_json

    names: dict[str, Any] = {"model": model, "system": system, "engine": engine, "kv": kv}
    sizes: dict[str, Any] = {"tp": tp, "pp": pp, "dp": dp, "ep": ep}
    scenario = Scenario(**names, **sizes, weights=weights, batch=concurrency, isl=isl, osl=osl)
    terms = Terms(
        rent_usd_per_hour=rent, capex_usd=capex, lifetime_years=lifetime,
        interest=interest / 100.0, opex=opex / 100.0, pue=pue,
        electricity_usd_per_kwh=electricity, api_in=api_in, api_out=api_out,
        peak_rate=peak_rate, carbon_g_per_kwh=carbon, power_w=power,
        host_w=host_power, network_w=network_power,
    )  # fmt: skip
    resolved = resolve_local(scenario)
    if kept_runs:
        terms = with_measured(terms, resolved, run_store.stores())
    named = document(resolved, terms)
    typer.echo(to_json(named) if json else "\n".join(sentences(named)))
