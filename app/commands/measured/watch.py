"""ridgeline watch: a live server against its prediction."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.answers.table import to_json
from app.commands import options as opt
from app.commands.progress_bar import running
from app.commands.question_options import Extra, Given, of_verb

if TYPE_CHECKING:
    from app.watching.windows import Event


@of_verb("watch")
def watch(
    source: Annotated[
        str,
        typer.Argument(
            help="Address of the server, or comma-separated recordings of its metrics page."
        ),
    ],
    given: Given,
    window: Extra,
    every: Annotated[float, opt.lasting("Seconds between two samples.")] = 5.0,
    seconds: Annotated[float, typer.Option(help="Seconds to watch; 0: until Ctrl-C.")] = 0.0,
    log: Annotated[
        Path | None, typer.Option(help="Growing log of requests, read together with the page.")
    ] = None,
    record: Annotated[
        Path | None, opt.target("File to append the samples to; it can be watched again later.")
    ] = None,
    export: Annotated[
        int | None, typer.Option(help="Port on which Prometheus can read the gauges.")
    ] = None,
    dashboard: Annotated[
        Path | None, opt.target("File for a Grafana dashboard of these gauges.")
    ] = None,
    keep: Annotated[
        bool, typer.Option(help="At the end, store the learned scale of the step times.")
    ] = False,
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Allow a server on another machine.")
    ] = False,
    json: opt.Json = False,
) -> None:
    """Follow the metrics page of vLLM, SGLang or llama.cpp: report when the server deviates from
    its prediction, and why. Ctrl-C ends it.
    """
    from app.watching import kept_scale
    from app.watching.answer import of_recordings, refuse_unnamed
    from app.watching.grafana import dashboard as drawn
    from app.watching.live import Live, of_page
    from app.watching.windows import sentences
    from profilers.collect.serving import addresses

    asked = given.ask("watch")
    refuse_unnamed(asked)
    if dashboard is not None:
        opt.write_text(dashboard, to_json(drawn()) + "\n")
    with running("watching") as job:
        if "://" in source:
            addresses.require_loopback(source, allow_remote)
            live = Live(window, every, seconds, log, record, export)
            found = of_page(asked, source, live, _tell, job.cancelled)
        else:
            paths = [Path(name) for name in source.split(",") if name]
            found = of_recordings(asked, paths, window, job.cancelled)
    words = sentences(found)
    document = found.document()
    if keep:
        scale = kept_scale.scale_of(asked, found)
        words.append(f"{scale.sentence}; kept in {kept_scale.keep(asked, scale)}")
        document["kept"] = scale.sentence
    opt.show(json, document, "\n".join(words))


def _tell(event: Event) -> None:
    """Print an event above the progress bar as it occurs."""
    typer.echo(f"\n{event.kind}: {event.sentence}", err=True)
