"""ridgeline plan: which deployment serves a load within targets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from app.commands import options as opt
from app.commands.grouping import grouped
from app.commands.predict.option_groups import Printed, Shared
from app.wording.tables import TableFormat

Several = Annotated[str, typer.Option(help='Degrees to try: "1,2,4"; default: all that can be.')]


@dataclass(frozen=True)
class _Where:
    """What may be chosen, by the keywords of `ridgeline.plan`."""

    systems: Annotated[str, typer.Option(help='Slugs, aliases or YAMLs: "h200,b200".')] = "h100"
    devices: Annotated[str, typer.Option(help='Least and most devices: "1:64".')] = "1:8"
    engine: Annotated[
        str, typer.Option(help='"vllm,sglang"; default: those that run on a system.')
    ] = ""


@dataclass(frozen=True)
class _Load:
    """What has to be served, likewise."""

    rate: Annotated[float, typer.Option(help="Requests that arrive per second, or")] = 0.0
    concurrency: Annotated[int, typer.Option(help="open requests, or")] = 0
    trace: Annotated[str, typer.Option(help="a trace: CSV or JSON lines, also packed.")] = ""
    isl: opt.Isl = 1024
    osl: opt.Osl = 256
    length_ratio: opt.LengthRatio = 1.0


@dataclass(frozen=True)
class _Wanted:
    """What must hold, and what is best, likewise."""

    target: Annotated[
        str,
        typer.Option(help='What must hold: "ttft_p95 < 500ms, tpot < 30ms, usd_per_mtok < 0.4".'),
    ] = ""
    rank: Annotated[
        str, typer.Option(help="Figure that orders the plans; default: cost, else devices.")
    ] = ""
    confidence: Annotated[
        float, typer.Option(help="Least probability that all targets are met.")
    ] = 0.0


@dataclass(frozen=True)
class _Tried:
    """Formats, degrees and kinds to try, likewise."""

    weights: Annotated[str, typer.Option(help='Weight formats to try: "checkpoint,fp8".')] = (
        "checkpoint"
    )
    kv: Annotated[str, typer.Option(help='Cache formats to try: "checkpoint,fp8".')] = "checkpoint"
    tp: Several = ""
    pp: Several = ""
    dp: Several = ""
    ep: Several = ""
    max_num_seqs: Annotated[
        str, typer.Option(help='Limits of a batch to try: "64,256"; default: by the load.')
    ] = ""
    kind: Annotated[str, typer.Option(help="aggregated, disaggregated; default: both.")] = ""
    cross_systems: Annotated[
        bool, typer.Option(help="Prompts may be read on another system than answers are written.")
    ] = False
    offload: Annotated[
        str, typer.Option(help='Also with this on the host: "weights,kv,experts".')
    ] = ""


@dataclass(frozen=True)
class _Drafts:
    """Ways to draft, likewise."""

    speculation: Annotated[
        str, typer.Option(help='Also with drafts: "mtp", "ngram", "eagle", "draft_model".')
    ] = ""
    draft_tokens: Annotated[int | None, typer.Option(help="Tokens of a draft.")] = None
    draft_model: Annotated[str, typer.Option(help="Model that drafts.")] = ""
    acceptance: Annotated[
        str, typer.Option(help='Share of drafted tokens that is accepted: "0.8", or by position.')
    ] = ""


@dataclass(frozen=True)
class _Answer:
    """What is answered, likewise."""

    price: Annotated[
        str, typer.Option(help='Rent of a device in US dollars per hour: "h200=3.5,mi300x=2".')
    ] = ""
    top: Annotated[int, typer.Option(help="Plans to show.")] = 5
    simulate: Annotated[bool, typer.Option(help="Simulate the best for their percentiles.")] = True
    pays: Annotated[
        bool, typer.Option("--pays", help="Also say at which load drafts and pools stop paying.")
    ] = False


@dataclass(frozen=True)
class _Files:
    """What is written of the answer."""

    report: Annotated[
        Path | None,
        typer.Option(
            help="Also write the answer to take along: .html or .md with charts, .yaml, .json, or "
            ".sh with the launch lines.",
            callback=opt.writable_file,
        ),
    ] = None
    deployment: Annotated[
        str,
        typer.Option(
            help="Write the best plan for kubernetes, helm, dynamo or llm-d, into --output."
        ),
    ] = ""
    output: Annotated[Path, typer.Option(help="Folder that --deployment writes into.")] = Path(
        "deployment"
    )


def register(cli: typer.Typer) -> None:
    cli.command("plan", help="Find the best deployments that serve a load within targets.")(
        grouped(plan)
    )


def plan(
    model: opt.ModelName,
    where: _Where,
    load: _Load,
    wanted: _Wanted,
    tried: _Tried,
    drafts: _Drafts,
    shared: Shared,
    asked: _Answer,
    files: _Files,
    printed: Printed,
) -> None:
    from app.commands.progress_bar import running
    from app.decide.report import check_ending, taken_along
    from app.planning import result
    from app.planning.document import document
    from app.planning.manifests.bundle import check_kind
    from app.scenario.local_files import sources

    if files.report is not None:
        check_ending(files.report)
    if files.deployment:
        check_kind(files.deployment)
    groups = (where, load, wanted, tried, drafts, shared, asked)
    given = {name: value for group in groups for name, value in vars(group).items()}
    with running("planning") as job:
        found = result.plan(model, sources=sources, progress=job.progress, **given)
    named = document(found.answer)
    if files.report is not None:
        opt.write_text(files.report, taken_along(files.report, named, found.answer))
        typer.echo(f"-> {files.report}", err=True)
    if files.deployment:
        _write(files.deployment, named, files.output)
    _print(named, printed.format)


def _write(deployment: str, named: dict[str, Any], folder: Path) -> None:
    """Write the files of the best plan, and say on standard error what they leave open."""
    from app.planning.manifests.bundle import bundle
    from genz_core.errors import InvalidValue

    made = bundle(named, deployment)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidValue(f"{folder} cannot be made: {error.strerror}") from None
    for name, text in made.files.items():
        opt.write_text(folder / name, text)
        typer.echo(f"-> {folder / name}", err=True)
    for note in made.notes:
        typer.echo(f"note: {note}", err=True)


def _print(named: dict[str, Any], chosen: TableFormat) -> None:
    """Print the document of an answer: the plans, and what is said of them."""
    from app.planning.result import brief
    from app.planning.wording import sentences
    from app.wording.tables import render, to_json

    if chosen is TableFormat.json:
        typer.echo(to_json(named))
        return
    rows = [brief(row) for row in named["plans"]]
    if chosen is TableFormat.csv:
        typer.echo(render(named["plans"], chosen))
        return
    if rows:
        typer.echo(render(rows, chosen) + "\n")
    typer.echo("\n".join(sentences(named)))
