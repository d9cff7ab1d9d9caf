"""ridgeline tune: find the best settings of a server with few runs."""

from pathlib import Path
from typing import Annotated

import typer

from app.commands import options as opt
from app.commands.measured.measure_endpoint import ServedModel
from app.commands.progress_bar import running
from app.commands.question_options import Extra, Given, of_verb


@of_verb("tune")
def tune(
    given: Given,
    goal: Extra,
    runs: Extra,
    within: Extra,
    level: Extra,
    dry_run: Extra,
    server: Annotated[
        str,
        typer.Option(
            help="Command that starts the server: 'vllm serve {model} --port {port} "
            "[[--max-num-seqs {max_num_seqs}]]'; text in [[ ]] is left out if its value is the "
            "default."
        ),
    ] = "",
    client: Annotated[
        str,
        typer.Option(
            help="auto (an installed one, else own), own, aiperf, guidellm, vllm, or a command "
            "that puts load on {address} and writes {result}."
        ),
    ] = "auto",
    folder: Annotated[
        Path | None,
        typer.Option(help="Folder for all runs; an interrupted search in it continues."),
    ] = None,
    health: Annotated[
        str, typer.Option(help="URL path that answers once the server is ready.")
    ] = "",
    served_model: ServedModel = "",
    tokenizer: Annotated[
        str,
        typer.Option(
            help="Tokenizer of a client given by name: name or folder; default: the model's."
        ),
    ] = "",
    start_timeout: Annotated[
        float, opt.lasting("Time limit for the server's start in seconds.")
    ] = 900.0,
    client_timeout: Annotated[float, opt.lasting("Time limit for the client in seconds.")] = 3600.0,
    json: opt.Json = False,
) -> None:
    """Find the best settings of a server: predict, run, learn, repeat. Give several values of an
    option to try them; runs already in the folder count.
    """
    from app.tuning import report
    from app.tuning.answer import POINTS, REPORT, answer
    from app.tuning.real_server import Commands

    commands = None
    if server:
        commands = Commands(
            server, client, health, served_model, tokenizer, start_timeout, client_timeout
        )
    with running("tuning") as job:
        found = answer(
            given.ask("tune"), goal, runs, within, level, dry_run, commands=commands,
            folder=folder, progress=job.progress, cancelled=job.cancelled,
        )  # fmt: skip
    words = "\n".join(report.sentences(found))
    opt.show(json, report.document(found), report.shown_rows(found), words)
    if folder is not None and (folder / REPORT).exists() and not json:
        typer.echo(f"report: {folder / REPORT}")
        if (folder / POINTS).exists():
            typer.echo(f"use these runs in predictions: ridgeline calibrate runs {folder / POINTS}")
