"""ridgeline serve: TTFT, TPOT and throughput under load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.commands import options as opt
from app.commands.grouping import grouped
from app.commands.predict import simulation_options as sim
from app.commands.predict.option_groups import (
    Drafts,
    Formats,
    Inputs,
    Printed,
    Shared,
    Split,
)
from app.wording.tables import TableFormat

if TYPE_CHECKING:
    from app.scenario.drafting import Drafting
    from app.scenario.load_options import LoadOptions
    from app.scenario.scenario import Resolved, Scenario


@dataclass(frozen=True)
class _Load:
    """The load, and how answers are sent."""

    concurrency: Annotated[str, typer.Option(help='Open requests: "64" or "1:256:x2".')] = ""
    rate: Annotated[str, typer.Option(help='Arrivals per second: "10" or "1,2,4".')] = ""
    trace: Annotated[
        str, typer.Option(help="Simulate a trace instead: CSV or JSON lines, also packed.")
    ] = ""
    isl: opt.Isl = 1024
    osl: opt.Osl = 1024
    length_ratio: opt.LengthRatio = 1.0
    burst_start: Annotated[
        bool, typer.Option(help="All users start at once, as in a benchmark of ten requests each.")
    ] = False
    stream_interval: Annotated[
        int, typer.Option(help="Tokens that the engine gathers before it sends them.")
    ] = 1
    recv_interval: Annotated[
        int, typer.Option(help="Decode steps between two looks at new requests.")
    ] = 1

    @property
    def values(self) -> tuple[str, list[float]]:
        """Name and values of the load: "concurrency" [requests] or "rate" [requests/s].

        Raises:
            InvalidValue: neither or both of concurrency and rate, or values that cannot be read.
        """
        from app.scenario.axis_values import parse_rates, parse_values
        from genz_core.errors import InvalidValue

        if bool(self.concurrency) == bool(self.rate):
            raise InvalidValue("give --concurrency, --rate or --trace, one of them")
        if not 0.0 < self.length_ratio <= 1.0:
            raise InvalidValue(f"--length-ratio {self.length_ratio:g} is not between 0 and 1")
        if self.concurrency:
            return "concurrency", parse_values("concurrency", self.concurrency)
        return "rate", parse_rates("--rate", self.rate)


@dataclass(frozen=True)
class _Engine:
    """What the engine may hold, by the keywords of `ridgeline.serve`."""

    offload: Annotated[
        str, typer.Option(help="Put this on the host where a device is full: weights, kv, experts.")
    ] = ""
    max_num_seqs: sim.MaxSequences = 0
    max_num_batched_tokens: sim.TokenBudget = 0


@dataclass(frozen=True)
class _Asked:
    """A load and what serves it, as found."""

    resolved: Resolved
    options: LoadOptions
    load: _Load
    values: tuple[str, list[float]]


def register(cli: typer.Typer) -> None:
    cli.command("serve", help="Estimate TTFT, TPOT and throughput under load.")(grouped(serve))


def serve(
    model: opt.ModelName,
    load: _Load,
    formats: Formats,
    split: Split,
    inputs: Inputs,
    drafts: Drafts,
    shared: Shared,
    held: _Engine,
    printed: Printed,
    system: opt.SystemName = "h100-sxm5-80gb",
    engine: opt.Engine = "vllm",
    explain: Annotated[
        bool, typer.Option(help="Show the measured runs that each load was corrected by.")
    ] = False,
) -> None:
    from app.scenario.load_options import LoadOptions
    from app.scenario.local_files import drafting_of
    from app.scenario.scenario import Scenario

    deployment: dict[str, Any] = {**vars(formats), **vars(split), **vars(inputs)}
    scenario = Scenario(
        model=model, system=system, engine=engine, isl=load.isl, osl=load.osl, **deployment
    )
    drafting, chosen = drafting_of(vars(drafts)), printed.format
    options = LoadOptions.of({**vars(shared), **vars(held)})
    if load.trace:
        _simulate(scenario, load, drafting, options, chosen)
        return
    asked = _Asked(_resolved(scenario, drafting, options), options, load, load.values)
    rows = _served(asked)
    if not explain:
        typer.echo(opt.rendered(rows, chosen))
        return
    behind = _runs_behind(asked)
    if chosen is TableFormat.json:
        typer.echo(opt.rendered(_with_runs(rows, behind), chosen))
        return
    typer.echo(opt.rendered(rows, chosen))
    for value, runs in zip(asked.values[1], behind, strict=True):
        typer.echo(f"\n{asked.values[0]} {value:g}: " + (_RUNS if runs else _NO_RUNS))
        typer.echo(opt.rendered(runs, chosen) if runs else "")


def _resolved(scenario: Scenario, drafting: Drafting, options: LoadOptions) -> Resolved:
    """A deployment as it was calibrated, with what drafts and adapts its model."""
    from app.scenario.drafting import drafted
    from app.scenario.local_files import resolve_local
    from app.scenario.served_rows import as_calibrated

    return options.deployed(drafted(as_calibrated(resolve_local(scenario)), drafting))


def _served(asked: _Asked) -> list[dict[str, Any]]:
    """A row a load."""
    import numpy as np

    from app.scenario import served_rows

    name, values = asked.values
    load, told = np.array(values), asked.load
    closed = name == "concurrency"
    result = served_rows.serve_resolved(
        asked.resolved,
        concurrency=load if closed else None,
        rate_per_s=None if closed else load,
        length_ratio=told.length_ratio,
        waves=served_rows.WAVES if told.burst_start else 0.0,
        stream_interval=told.stream_interval,
        recv_interval=told.recv_interval,
        **asked.options.traffic(told.isl, told.osl, told.length_ratio),
    )
    return served_rows.rows(asked.resolved, result, name, load, asked.options.beyond)


_RUNS = "measured runs by their weight (a power of measured over physics alone)"
_NO_RUNS = "no measured run of this engine and model; the engine's profile alone speaks"


def _runs_behind(asked: _Asked) -> list[list[dict[str, Any]]]:
    """The measured runs behind each load, see `app.scenario.runs_behind`."""
    from app.scenario.runs_behind import runs_behind
    from genz_core.serving import Traffic

    name = "concurrency" if asked.values[0] == "concurrency" else "rate_per_s"
    names = ("isl", "osl", "length_ratio")
    load: dict[str, Any] = {name: getattr(asked.load, name) for name in names}
    return [runs_behind(asked.resolved, Traffic(**{**load, name: v})) for v in asked.values[1]]


def _with_runs(
    rows: list[dict[str, Any]], behind: list[list[dict[str, Any]]]
) -> list[dict[str, Any]]:
    return [{**row, "runs": runs} for row, runs in zip(rows, behind, strict=True)]


def _simulate(
    scenario: Scenario, load: _Load, drafting: Drafting, options: LoadOptions, chosen: TableFormat
) -> None:
    """Simulate a trace and print its figures, as `ridgeline simulate --trace` does."""
    from app.commands.predict.simulate import run_and_print
    from app.scenario.local_files import resolve_local
    from app.simulation.offered_load import OfferedLoad
    from app.simulation.run import Settings
    from genz_core.errors import InvalidValue
    from genz_core.serving.simulation import Options

    if load.concurrency or load.rate:
        raise InvalidValue("give --concurrency, --rate or --trace, one of them")
    if load.burst_start or load.stream_interval != 1:
        raise InvalidValue("--burst-start and --stream-interval are not of a --trace")
    told = Options(recv_interval=load.recv_interval, **options.of_trace())
    settings = Settings(OfferedLoad(trace=load.trace), told, drafting=drafting)
    run_and_print(resolve_local(scenario), settings, chosen)
