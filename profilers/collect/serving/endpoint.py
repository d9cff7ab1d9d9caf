"""Measure an OpenAI-compatible endpoint under a given load: a result file and the server's
metrics.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from genz_core.common.progress import Cancel, Progress, never, silent
from genz_core.errors import MeasurementError
from profilers.collect.serving import addresses, clients, closed_loop, open_loop, result_file
from profilers.collect.serving.client import Server
from profilers.collect.serving.closed_loop import ClosedLoop, ServedLoad
from profilers.collect.serving.endpoint_load import EndpointLoad
from profilers.collect.serving.prompts import only_model, probe
from profilers.serving_results import ServingMeasurement, read_results
from profilers.serving_results.prometheus import Page, of_page, parse

OWN, AUTO = "own", "auto"
#: Names of the files that a run leaves in its folder.
RESULT, BEFORE, AFTER = "result.json", "metrics-before.txt", "metrics-after.txt"


@dataclass(frozen=True, slots=True)
class EndpointRun:
    """A measured endpoint.

    file: the client's result.  client: its name.  server: the change of the server's metrics over
    the run, None where it has no /metrics page.
    """

    measurement: ServingMeasurement
    file: Path
    client: str
    server: ServingMeasurement | None = None


def measure(
    server: Server,
    load: EndpointLoad,
    folder: Path,
    client: str = AUTO,
    tokenizer: str = "",
    progress: Progress = silent,
    cancelled: Cancel = never,
) -> EndpointRun:
    """Load an endpoint through a client and read the client's result.

    client: "auto" for the first installed one (AIPerf, GuideLLM, vLLM), otherwise Ridgeline's;
    "own" for Ridgeline's; or a name.  folder: an empty folder for the files.

    Raises:
        MeasurementError: the endpoint or the client failed.  ReportError: an unreadable result.
        Cancelled: `cancelled` returned True.
    """
    chosen = _chosen(client)
    before, started = _look(server, folder / BEFORE), time.monotonic()
    if chosen is None:
        name, file = OWN, folder / RESULT
        _own(server, load, file, progress, cancelled)
    else:
        named = replace(server, model=server.model or only_model(server))
        name, file = (
            chosen.name,
            clients.drive(chosen, clients.Task(named, load, folder, tokenizer), cancelled),
        )
    seconds = time.monotonic() - started
    after = _look(server, folder / AFTER)
    seen = of_page(after, before, seconds) if before and after else None
    return EndpointRun(_described(read_results(file)[-1], load, seen), file, name, seen)


def _chosen(name: str) -> clients.Client | None:
    """The client to run, None for Ridgeline's own."""
    if name == OWN:
        return None
    return next(iter(clients.installed()), None) if name == AUTO else clients.named(name)


def _look(server: Server, file: Path) -> Page | None:
    """The /metrics page, saved in a file; None where the server has none of vLLM or SGLang."""
    try:
        text = addresses.page(server.address, "metrics")
    except MeasurementError:
        return None
    page = parse(text)
    if not page.engine:
        return None
    file.write_text(text, encoding="utf-8")
    return page


def _described(
    found: ServingMeasurement, load: EndpointLoad, seen: ServingMeasurement | None
) -> ServingMeasurement:
    """A result completed with the load that the client was given and with the server's metrics."""
    lengths = replace(
        found.lengths,
        isl_asked=found.lengths.isl_asked or float(load.isl),
        osl_asked=found.lengths.osl_asked or float(load.osl),
    )
    stated = replace(
        found.load,
        concurrency=found.load.concurrency or load.concurrency or None,
        rate=found.load.rate or load.rate or None,
        requests=found.load.requests or load.count,
    )
    if seen is None:
        return replace(found, lengths=lengths, load=stated)
    subject = replace(
        found.subject,
        engine=found.subject.engine or seen.subject.engine,
        kv_precision=found.subject.kv_precision or seen.subject.kv_precision,
    )
    figures = {**seen.server, **found.server}
    return replace(found, lengths=lengths, load=stated, subject=subject, server=figures)


def _own(
    server: Server, load: EndpointLoad, file: Path, progress: Progress, cancelled: Cancel
) -> None:
    """Run the load with Ridgeline's own client, and write its result."""
    asked, prompts = probe(server)
    facts: dict[str, Any] = {}
    if load.concurrency:
        loop = ClosedLoop(load.concurrency, load.count, load.isl, load.osl, seed=load.seed)
        served: ServedLoad = closed_loop.serve(asked, prompts, loop, progress, cancelled)
    else:
        served = open_loop.serve(asked, prompts, load, progress, cancelled)
        facts = {"request_rate": load.rate, "burstiness": 1.0, "max_concurrency": None}
    document = result_file.document(served, asked, facts)
    file.write_text(json.dumps(document, default=float), encoding="utf-8")


def watch(address: str, seconds: float = 0.0, cancelled: Cancel = never) -> ServingMeasurement:
    """Metrics of a server's /metrics page: since it started, or over the next `seconds`.

    Raises:
        MeasurementError: it has no such page, or one of neither vLLM nor SGLang.
    """
    before = _page(address) if seconds > 0 else None
    started = time.monotonic()
    while seconds > 0 and time.monotonic() - started < seconds and not cancelled():
        time.sleep(min(0.2, seconds))
    after = _page(address)
    return of_page(after, before, time.monotonic() - started if before else None)


def _page(address: str) -> Page:
    page = parse(addresses.page(address, "metrics"))
    if not page.engine:
        raise MeasurementError(
            f"the page {address}/metrics has no metrics of vLLM or SGLang (SGLang needs "
            "--enable-metrics)"
        )
    return page
