"""ridgeline serve: TTFT, TPOT and throughput under load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands import options as opt
from app.commands.predict import simulation_options as sim
from app.wording.tables import TableFormat

if TYPE_CHECKING:
    from app.scenario.drafting import Drafting
    from app.scenario.scenario import Scenario


def register(cli: typer.Typer) -> None:
    cli.command("serve", help="Estimate TTFT, TPOT and throughput under load.")(serve)


def serve(
    model: opt.ModelName,
    system: opt.SystemName = "h100-sxm5-80gb",
    engine: opt.Engine = "vllm",
    concurrency: Annotated[str, typer.Option(help='Open requests: "64" or "1:256:x2".')] = "",
    rate: Annotated[str, typer.Option(help='Arrivals per second: "10" or "1,2,4".')] = "",
    trace: Annotated[
        str, typer.Option(help="Simulate a trace instead: CSV or JSON lines, also packed.")
    ] = "",
    weights: opt.Weights = "",
    moe_weights: opt.MoeWeights = "",
    kv: opt.Kv = "",
    activations: opt.Activations = "",
    compute: opt.Compute = "",
    tp: opt.Tp = 1,
    pp: opt.Pp = 1,
    dp: opt.Dp = 1,
    ep: opt.Ep = 1,
    moe_tp: opt.MoeTp = None,
    expert_imbalance: opt.Imbalance = 1.0,
    redundant_experts: opt.Redundant = 0,
    overlap: opt.Overlap = "none",
    isl: opt.Isl = 1024,
    osl: opt.Osl = 1024,
    images: opt.Images = 0,
    image_size: opt.ImageSize = "",
    audio_seconds: opt.Audio = 0.0,
    length_ratio: Annotated[
        float, typer.Option(help="Real lengths are uniform from this share of nominal to 1.")
    ] = 1.0,
    burst_start: Annotated[
        bool, typer.Option(help="All users start at once, as in a benchmark of ten requests each.")
    ] = False,
    stream_interval: Annotated[
        int, typer.Option(help="Tokens that the engine gathers before it sends them.")
    ] = 1,
    recv_interval: Annotated[
        int, typer.Option(help="Decode steps between two looks at new requests.")
    ] = 1,
    speculation: sim.Speculation = "",
    draft_tokens: sim.DraftTokens = None,
    draft_model: sim.DraftModel = "",
    acceptance: sim.Acceptance = "",
    explain: Annotated[
        bool, typer.Option(help="Show the measured runs that each load was corrected by.")
    ] = False,
    json: opt.Json = False,
    format_: opt.Form = TableFormat.text,
) -> None:
    from app.scenario.local_files import drafting_of
    from app.scenario.scenario import Scenario
    from app.scenario.served_rows import WAVES
    from genz_core.errors import InvalidValue

    degrees: dict[str, Any] = {"tp": tp, "pp": pp, "dp": dp, "ep": ep, "moe_tp": moe_tp}
    scenario = Scenario(
        model=model,
        system=system,
        engine=engine,
        weights=weights,
        moe_weights=moe_weights,
        kv=kv,
        activations=activations,
        compute=compute,
        expert_imbalance=expert_imbalance,
        redundant_experts=redundant_experts,
        overlap=overlap,
        isl=isl,
        osl=osl,
        images=images,
        image_size=image_size,
        audio_seconds=audio_seconds,
        **degrees,
    )
    drafting = drafting_of(
        {
            "speculation": speculation,
            "draft_tokens": draft_tokens,
            "draft_model": draft_model,
            "acceptance": acceptance,
        }
    )
    if trace:
        if concurrency or rate:
            raise InvalidValue("give --concurrency, --rate or --trace, one of them")
        if burst_start or stream_interval != 1:
            raise InvalidValue("--burst-start and --stream-interval are not of a --trace")
        _simulate(scenario, trace, recv_interval, drafting, opt.table_format(format_, json))
        return
    if not 0.0 < length_ratio <= 1.0:
        raise InvalidValue(f"--length-ratio {length_ratio:g} is not between 0 and 1")
    loads, chosen = _loads(concurrency, rate), opt.table_format(format_, json)
    rows = _served(
        scenario,
        drafting,
        loads,
        length_ratio=length_ratio,
        waves=WAVES if burst_start else 0.0,
        stream_interval=stream_interval,
        recv_interval=recv_interval,
    )
    if not explain:
        typer.echo(opt.rendered(rows, chosen))
        return
    behind = _runs_behind(scenario, drafting, loads, length_ratio)
    if chosen is TableFormat.json:
        typer.echo(opt.rendered(_with_runs(rows, behind), chosen))
        return
    typer.echo(opt.rendered(rows, chosen))
    for value, runs in zip(loads[1], behind, strict=True):
        typer.echo(f"\n{loads[0]} {value:g}: " + (_RUNS if runs else _NO_RUNS))
        typer.echo(opt.rendered(runs, chosen) if runs else "")


def _served(
    scenario: Scenario, drafting: Drafting, loads: tuple[str, list[float]], **traffic: Any
) -> list[dict[str, Any]]:
    """A row a load, of the deployment as it was calibrated.  traffic: see `serve_resolved`."""
    import numpy as np

    from app.scenario import served_rows
    from app.scenario.drafting import drafted
    from app.scenario.local_files import resolve_local

    name, values = loads
    resolved = drafted(served_rows.as_calibrated(resolve_local(scenario)), drafting)
    load = np.array(values)
    closed = name == "concurrency"
    result = served_rows.serve_resolved(
        resolved,
        concurrency=load if closed else None,
        rate_per_s=None if closed else load,
        **traffic,
    )
    return served_rows.rows(resolved, result, name, load)


_RUNS = "measured runs by their weight (a power of measured over physics alone)"
_NO_RUNS = "no measured run of this engine and model; the engine's profile alone speaks"


def _runs_behind(
    scenario: Scenario, drafting: Drafting, loads: tuple[str, list[float]], length_ratio: float
) -> list[list[dict[str, Any]]]:
    """The measured runs behind each load, see `app.scenario.runs_behind`."""
    from app.scenario import served_rows
    from app.scenario.drafting import drafted
    from app.scenario.local_files import resolve_local
    from app.scenario.runs_behind import runs_behind
    from genz_core.serving import Traffic

    resolved = drafted(served_rows.as_calibrated(resolve_local(scenario)), drafting)
    name = "concurrency" if loads[0] == "concurrency" else "rate_per_s"
    load: dict[str, Any] = {"isl": scenario.isl, "osl": scenario.osl, "length_ratio": length_ratio}
    return [runs_behind(resolved, Traffic(**{**load, name: value})) for value in loads[1]]


def _with_runs(
    rows: list[dict[str, Any]], behind: list[list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    return [{**row, "runs": runs} for row, runs in zip(rows, behind, strict=True)]


def _simulate(
    scenario: Scenario, trace: str, recv_interval: int, drafting: Drafting, chosen: TableFormat
) -> None:
    """Simulate a trace and print its figures, as `ridgeline simulate --trace` does."""
    from app.commands.predict.simulate import run_and_print
    from app.scenario.local_files import resolve_local
    from app.simulation.offered_load import OfferedLoad
    from app.simulation.run import Settings
    from genz_core.serving.simulation import Options

    options = Options(recv_interval=recv_interval)
    settings = Settings(OfferedLoad(trace=trace), options, drafting=drafting)
    run_and_print(resolve_local(scenario), settings, chosen)


def _loads(concurrency: str, rate: str) -> tuple[str, list[float]]:
    """Name and values of the load: "concurrency" [requests] or "rate" [requests/s].

    Raises:
        InvalidValue: neither or both of concurrency and rate, or values that cannot be read.
    """
    from app.scenario.axis_values import parse_rates, parse_values
    from genz_core.errors import InvalidValue

    if bool(concurrency) == bool(rate):
        raise InvalidValue("give --concurrency, --rate or --trace, one of them")
    if concurrency:
        return "concurrency", parse_values("concurrency", concurrency)
    return "rate", parse_rates("--rate", rate)
