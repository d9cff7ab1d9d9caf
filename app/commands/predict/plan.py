"""ridgeline plan: which deployment serves a load within targets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from app.commands import options as opt
from app.wording.tables import TableFormat

Several = Annotated[str, typer.Option(help='Degrees to try: "1,2,4"; default: all that can be.')]


def register(cli: typer.Typer) -> None:
    cli.command("plan", help="Find the best deployments that serve a load within targets.")(plan)


def plan(
    model: opt.ModelName,
    systems: Annotated[str, typer.Option(help='Slugs, aliases or YAMLs: "h200,b200".')] = "h100",
    devices: Annotated[str, typer.Option(help='Least and most devices: "1:64".')] = "1:8",
    engine: Annotated[
        str, typer.Option(help='"vllm,sglang"; default: those that run on a system.')
    ] = "",
    rate: Annotated[float, typer.Option(help="Requests that arrive per second, or")] = 0.0,
    concurrency: Annotated[int, typer.Option(help="open requests, or")] = 0,
    trace: Annotated[str, typer.Option(help="a trace: CSV or JSON lines, also packed.")] = "",
    isl: opt.Isl = 1024,
    osl: opt.Osl = 256,
    length_ratio: Annotated[
        float, typer.Option(help="Real lengths are uniform from this share of nominal to 1.")
    ] = 1.0,
    target: Annotated[
        str,
        typer.Option(help='What must hold: "ttft_p95 < 500ms, tpot < 30ms, usd_per_mtok < 0.4".'),
    ] = "",
    rank: Annotated[
        str, typer.Option(help="Figure that orders the plans; default: cost, else devices.")
    ] = "",
    confidence: Annotated[
        float, typer.Option(help="Least probability that all targets are met.")
    ] = 0.0,
    weights: Annotated[
        str, typer.Option(help='Weight formats to try: "checkpoint,fp8".')
    ] = "checkpoint",
    kv: Annotated[str, typer.Option(help='Cache formats to try: "checkpoint,fp8".')] = "checkpoint",
    tp: Several = "",
    pp: Several = "",
    dp: Several = "",
    ep: Several = "",
    max_num_seqs: Annotated[
        str, typer.Option(help='Limits of a batch to try: "64,256"; default: by the load.')
    ] = "",
    kind: Annotated[str, typer.Option(help="aggregated, disaggregated; default: both.")] = "",
    cross_systems: Annotated[
        bool, typer.Option(help="Prompts may be read on another system than answers are written.")
    ] = False,
    speculation: Annotated[
        str, typer.Option(help='Also with drafts: "mtp", "ngram", "eagle", "draft_model".')
    ] = "",
    draft_tokens: Annotated[int | None, typer.Option(help="Tokens of a draft.")] = None,
    draft_model: Annotated[str, typer.Option(help="Model that drafts.")] = "",
    acceptance: Annotated[
        str, typer.Option(help='Share of drafted tokens that is accepted: "0.8", or by position.')
    ] = "",
    prefix_hits: Annotated[
        float, typer.Option(help="Share of every prompt that is found in the cache: 0.6.")
    ] = 0.0,
    shared_tokens: Annotated[
        int,
        typer.Option("--shared-prompt", help="Tokens that all requests start with, on top of isl."),
    ] = 0,
    turns: Annotated[
        int, typer.Option(help="Turns of a session; each prompt repeats what was said.")
    ] = 1,
    prefix_tier: Annotated[
        str, typer.Option(help="Where found prefixes lie: device or host.")
    ] = "device",
    samples: Annotated[int, typer.Option(help="Answers to each prompt, all wanted.")] = 1,
    beams: Annotated[int, typer.Option(help="Beams of a search, one answer wanted.")] = 1,
    lora_rank: Annotated[int, typer.Option(help="Rank of LoRA adapters; 0: none.")] = 0,
    lora_adapters: Annotated[int, typer.Option(help="Adapters that requests name, evenly.")] = 1,
    offload: Annotated[
        str, typer.Option(help='Also with this on the host: "weights,kv,experts".')
    ] = "",
    price: Annotated[
        str, typer.Option(help='Rent of a device in US dollars per hour: "h200=3.5,mi300x=2".')
    ] = "",
    top: Annotated[int, typer.Option(help="Plans to show.")] = 5,
    simulate: Annotated[bool, typer.Option(help="Simulate the best for their percentiles.")] = True,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Also write the answer to take along: .html or .md with charts, .yaml, .json, or "
            ".sh with the launch lines.",
            callback=opt.writable_file,
        ),
    ] = None,
    deployment: Annotated[
        str,
        typer.Option(
            help="Write the best plan for kubernetes, helm, dynamo or llm-d, into --output."
        ),
    ] = "",
    output: Annotated[Path, typer.Option(help="Folder that --deployment writes into.")] = Path(
        "deployment"
    ),
    pays: Annotated[
        bool, typer.Option("--pays", help="Also say at which load drafts and pools stop paying.")
    ] = False,
    json: opt.Json = False,
    format_: opt.Form = TableFormat.text,
) -> None:
    given: dict[str, Any] = dict(locals())
    report, output = given.pop("report"), given.pop("output")
    deployment = given.pop("deployment")
    chosen = opt.table_format(given.pop("format_"), given.pop("json"))

    from app.commands.progress_bar import running
    from app.decide.report import check_ending, taken_along
    from app.planning import result
    from app.planning.document import document
    from app.planning.manifests.bundle import check_kind
    from app.planning.wording import sentences
    from app.scenario.local_files import sources
    from app.wording.tables import render, to_json

    if report is not None:
        check_ending(report)
    if deployment:
        check_kind(deployment)
    with running("planning") as job:
        found = result.plan(given.pop("model"), sources=sources, progress=job.progress, **given)
    named = document(found.answer)
    if report is not None:
        opt.write_text(report, taken_along(report, named, found.answer))
        typer.echo(f"-> {report}", err=True)
    if deployment:
        _write(deployment, named, output)
    if chosen is TableFormat.json:
        typer.echo(to_json(named))
        return
    rows = [result.brief(row) for row in named["plans"]]
    if chosen is TableFormat.csv:
        typer.echo(render(named["plans"], chosen))
        return
    if rows:
        typer.echo(render(rows, chosen) + "\n")
    typer.echo("\n".join(sentences(named)))


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
