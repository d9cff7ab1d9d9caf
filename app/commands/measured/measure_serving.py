"""ridgeline measure serving, own-server: engines under load, and a simulation to compare with."""

from pathlib import Path
from typing import Annotated, Any

import typer

from app.answers.table import TableFormat, render, to_json
from app.commands import options as opt
from app.commands.measured.measure_endpoint import Address, ServedModel, Timeout
from app.commands.progress_bar import running
from app.commands.question_options import Given, takes
from app.question.question import STANDARD, Question
from genz_core.common.progress import part
from genz_core.errors import InvalidValue


@takes(
    "concurrency", concurrency="1,2,4,8", requests=None, isl=STANDARD.isl, osl=STANDARD.osl,
    length_ratio=0.8, seed=0,
)  # fmt: skip
def serving(
    address: Address,
    load: Given,
    model: ServedModel = "",
    timeout_s: Timeout = 600.0,
    output: Annotated[
        Path,
        typer.Option(
            help="Folder for one result file per loop, in the format of vllm bench serve."
        ),
    ] = Path("serving"),
    json: opt.Json = False,
) -> None:
    """Measure a running serving engine with closed loops of users."""
    from hardware_db.whole_file import write_whole
    from profilers.collect.serving import closed_loop, prompts, result_file
    from profilers.collect.serving.client import Server
    from profilers.collect.serving.closed_loop import ClosedLoop

    users = _users(load.pop("concurrency"))
    load["requests"] = load["requests"] or 0
    loads = [ClosedLoop(at, **load) for at in users]
    server = Server(address, model, timeout_s)
    rows: list[dict[str, Any]] = []
    with running("measuring") as job:
        server, asked = prompts.probe(server)
        for at, loop in enumerate(loads):
            share = part(job.progress, at / len(loads), (at + 1) / len(loads))
            served = closed_loop.serve(server, asked, loop, share, job.cancelled)
            path = output / f"concurrency-{loop.concurrency}.json"
            with write_whole(path) as draft:
                text = to_json(result_file.document(served, server, {}))
                draft.write_text(text, encoding="utf-8")
            rows += result_file.table([served])
            rows[-1]["file"] = str(path)
    typer.echo(to_json(rows) if json else render(rows, TableFormat.text))
    if not json:
        _hint(server, asked.counted, rows[-1]["file"])


@takes("concurrency", concurrency="1,2,4,8", isl=128, osl=64, length_ratio=0.5)
def own_server(
    load: Given,
    rounds: Annotated[int, typer.Option(help="Repeats of every loop.")] = 3,
    calibrate_at: Annotated[
        int, typer.Option(help="Concurrency of the loop whose mean TPOT scales the step times.")
    ] = 1,
    threads: Annotated[
        int, typer.Option(help="CPU threads of the server and of the calibration.")
    ] = 1,
    output: Annotated[Path | None, opt.target("Markdown file for the table.")] = None,
    json: opt.Json = False,
) -> None:
    """Measure transformers' own server on this machine and compare it with its simulation.

    Its requests are short by default, because a CPU answers them.
    """
    from app.calibration import own_server as comparison
    from app.calibration import own_server_document as document
    from profilers.collect.serving.own_server import ServerSettings

    users = tuple(_users(load.pop("concurrency")))
    settings = ServerSettings(threads=threads)
    plan = comparison.Plan(users, rounds, calibrate_at, Question(**load), settings)
    with running("measuring") as job:
        found = comparison.compare(plan, job.progress, job.cancelled)
    if output is not None:
        opt.write_text(output, document.markdown(found) + "\n")
    opt.show(json, document.summary(found), document.table(found), document.sentence(found))


def _users(concurrency: list[float]) -> list[int]:
    """Users of each loop.  Raises `InvalidValue` for more than 32 loops."""
    if len(concurrency) > 32:
        raise InvalidValue(f"concurrency: {len(concurrency)} loops; give 32 at most")
    return [int(many) for many in concurrency]


def _hint(server: Any, counted: bool, path: str) -> None:
    if not counted:
        typer.echo(
            "\nnote: the server does not count tokens: each prompt word and each streamed chunk "
            "counts as one"
        )
    if not server.body.get("ignore_eos"):
        typer.echo(
            "\nnote: the server does not support ignore_eos: outputs may be shorter than requested"
        )
    typer.echo(f"\ncalibrate a simulation with it: ridgeline simulate MODEL --measured {path}")
