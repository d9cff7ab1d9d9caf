"""ridgeline measure endpoint, metrics: a server under a given load, and its metrics page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.answers.table import TableFormat, render, to_json
from app.commands import options as opt
from app.commands.measured.import_ import print_results
from app.commands.progress_bar import running
from app.commands.question_options import Given, takes
from app.question.question import STANDARD
from genz_core.errors import InvalidValue

if TYPE_CHECKING:
    from profilers.collect.serving.endpoint import EndpointRun

Address = Annotated[str, typer.Argument(help="Address of the server: http://localhost:8000.")]
ServedModel = Annotated[
    str, typer.Option(help="Model name on the server; default: its only model.")
]
Timeout = Annotated[float, typer.Option("--timeout", help="Time limit of a request in seconds.")]
Remote = Annotated[
    bool,
    typer.Option(
        "--allow-remote",
        help="Allow a server on another machine; make sure that you may put load on it.",
    ),
]


@takes(concurrency=None, rate=None, requests=None, isl=STANDARD.isl, osl=STANDARD.osl, seed=0)
def endpoint(
    address: Address,
    load: Given,
    model: ServedModel = "",
    client: Annotated[
        str, typer.Option(help="auto (an installed one, else own), own, aiperf, guidellm or vllm.")
    ] = "auto",
    tokenizer: Annotated[
        str,
        typer.Option(help="Tokenizer for another client: name or folder; default: the model's."),
    ] = "",
    timeout_s: Timeout = 600.0,
    allow_remote: Remote = False,
    keep: Annotated[bool, typer.Option(help="Keep the run; `runs list` shows it.")] = True,
    label: Annotated[str, typer.Option(help="Name of the kept run.")] = "",
    tag: opt.Tag = None,
    output: Annotated[Path | None, typer.Option(help="Copy the result file to this path.")] = None,
    json: opt.Json = False,
) -> None:
    """Measure an OpenAI-compatible server under a given load."""
    import tempfile

    from app.measuring import endpoint_run
    from profilers.collect.serving import addresses
    from profilers.collect.serving import endpoint as endpoints
    from profilers.collect.serving.client import Server
    from profilers.collect.serving.endpoint_load import EndpointLoad

    addresses.require_loopback(address, allow_remote)
    users, rate = (load.pop(name) or 0 for name in ("concurrency", "rate"))
    requests = load.pop("requests") or 0
    asked = EndpointLoad(int(users or (0 if rate else 1)), float(rate), requests, **load)
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as name:
        folder = Path(name)
        with running("measuring") as job:
            run = endpoints.measure(
                Server(address, model, timeout_s), asked, folder, client, tokenizer,
                job.progress, job.cancelled,
            )  # fmt: skip
        identity = endpoint_run.keep(run, folder, label, tag or ()) if keep else ""
        if output is not None:
            opt.write_text(output, run.file.read_text(encoding="utf-8"))
    _print(run, identity, json)


def _print(run: EndpointRun, identity: str, json: bool) -> None:
    from app.measuring import result_table

    if json:
        document = result_table.documents([run.measurement])[0]
        typer.echo(to_json({"id": identity or None, "client": run.client, **document}))
        return
    typer.echo(f"client: {run.client}")
    print_results([run.measurement], TableFormat.text)
    if identity:
        typer.echo(f"kept as {identity[:8]}; `ridgeline runs show {identity[:8]}` prints it again")


def metrics(
    address: Address,
    seconds: Annotated[
        float, typer.Option(help="Seconds to watch; 0: everything since the server started.")
    ] = 0.0,
    allow_remote: Remote = False,
    json: opt.Json = False,
) -> None:
    """Read the /metrics page of vLLM or SGLang as a measurement."""
    from app.measuring import result_table
    from profilers.collect.serving import addresses
    from profilers.collect.serving import endpoint as endpoints

    if not 0 <= seconds <= 86_400:
        raise InvalidValue(f"--seconds is {seconds:g}; give 0 to 86,400")
    addresses.require_loopback(address, allow_remote)
    with running("watching") as job:
        found = endpoints.watch(address, seconds, job.cancelled)
    if json:
        typer.echo(to_json(result_table.documents([found])[0]))
        return
    print_results([found], TableFormat.text)
    rows = [{"figure": name, "value": value} for name, value in sorted(found.server.items())]
    typer.echo(render(rows, TableFormat.text))
