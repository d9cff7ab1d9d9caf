"""ridgeline serve: TTFT, TPOT and throughput under load."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from app.commands import options as opt
from app.wording.tables import Format


def register(cli: typer.Typer) -> None:
    cli.command("serve", help="Estimate TTFT, TPOT and throughput under load.")(serve)


def serve(
    model: opt.ModelName,
    system: opt.SystemName = "h100-sxm5-80gb",
    engine: opt.Engine = "vllm",
    concurrency: Annotated[str, typer.Option(help='Open requests: "64" or "1:256:x2".')] = "",
    rate: Annotated[str, typer.Option(help='Arrivals per second: "10" or "1,2,4".')] = "",
    weights: opt.Weights = "",
    moe_weights: opt.MoeWeights = "",
    kv: opt.Kv = "",
    tp: opt.Tp = 1,
    pp: opt.Pp = 1,
    dp: opt.Dp = 1,
    ep: opt.Ep = 1,
    moe_tp: opt.MoeTp = None,
    expert_imbalance: opt.Imbalance = 1.0,
    isl: opt.Isl = 1024,
    osl: opt.Osl = 1024,
    length_ratio: Annotated[
        float, typer.Option(help="Real lengths are uniform in [ratio, 1] of nominal.")
    ] = 1.0,
    json: opt.Json = False,
    format_: opt.Form = Format.text,
) -> None:
    from app.scenario.scenario import Scenario

    degrees: dict[str, Any] = {"tp": tp, "pp": pp, "dp": dp, "ep": ep, "moe_tp": moe_tp}
    scenario = Scenario(
        model=model,
        system=system,
        engine=engine,
        weights=weights,
        moe_weights=moe_weights,
        kv=kv,
        expert_imbalance=expert_imbalance,
        isl=isl,
        osl=osl,
        **degrees,
    )
    rows = table(scenario, concurrency, rate, length_ratio)
    typer.echo(opt.rendered(rows, opt.form(format_, json)))


def table(
    scenario: Any, concurrency: str = "", rate: str = "", length_ratio: float = 1.0
) -> list[dict[str, Any]]:
    """One row a load.

    Raises:
        InvalidValue: neither or both of concurrency and rate, or values that cannot be read.
    """
    import numpy as np

    from app.scenario.axis_values import parse_values
    from app.scenario.scenario import resolve
    from genz_core.errors import InvalidValue
    from genz_core.serving import Traffic
    from genz_core.serving import serve as price

    if bool(concurrency) == bool(rate):
        raise InvalidValue("give --concurrency or --rate, one of them")
    if not 0.0 < length_ratio <= 1.0:
        raise InvalidValue(f"--length-ratio {length_ratio:g} is not between 0 and 1")
    name, text = ("concurrency", concurrency) if concurrency else ("rate", rate)
    loads = np.array(parse_values(name, text) if concurrency else _rates(text))
    load: dict[str, Any] = {"concurrency": loads} if concurrency else {"rate_per_s": loads}
    traffic = Traffic(isl=scenario.isl, osl=scenario.osl, length_ratio=length_ratio, **load)
    resolved = resolve(scenario)
    result = price(
        resolved.model,
        resolved.system,
        traffic,
        scenario.parallelism,
        resolved.engine,
        on_error="status",
    )
    return [_row(result, at, name, loads[at], resolved) for at in range(len(loads))]


def _rates(text: str) -> list[float]:
    from genz_core.errors import InvalidValue

    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidValue(
            f'--rate {text!r}: give requests per second, as "10" or "1,2.5,4"'
        ) from None


def _row(result: Any, at: int, name: str, load: float, resolved: Any) -> dict[str, Any]:
    from app.scenario import intervals
    from app.scenario.scenario import basis
    from app.scenario.summary import SERVING_FIGURES

    notes = [*resolved.notes, basis(resolved)]
    figures = {key: float(getattr(result, key)[at]) for key in SERVING_FIGURES}
    known = intervals.of_load(resolved.system, resolved.engine)
    latencies = {key: figures.pop(key) for key in list(figures) if key in known}
    bounds = {key: float(bound[at]) for key, bound in intervals.bounds_of_load(result).items()}
    figures = intervals.beside(latencies, known, bounds) | figures
    message = "; ".join(filter(None, [result.messages.get(at, ""), *notes]))
    return {name: float(load), "status": str(result.status[at]), **figures, "message": message}
