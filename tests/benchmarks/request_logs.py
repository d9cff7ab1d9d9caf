"""Error of the simulation on logs of requests that real engines on this machine served.

Each engine is measured at two rates. Every request is simulated with its own arrival time, first
without calibration, then with a step scale fitted to the first rate.  Run it on a quiet machine:

    python -m tests.benchmarks.request_logs --folder logs --engines hf llama.cpp \\
        --write docs/simulation.md

It starts transformers' server and llama.cpp's `llama-server` (on PATH, or `--llama-server PATH`;
its model file needs the package `gguf`) with one small model of random weights.  The machine's
calibration and the logs stay in the folder and are not measured again, so that a change of the
simulation can be tried on the same logs.  The aims: after one number mean E2E within 2 %, P95
within 4 % and first tokens within 10 %.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from app.answers.table import TableFormat, render
from app.benchmarks import calibration
from app.benchmarks.deployment import Deployment, deployment
from app.benchmarks.replay import replay
from app.calibration import machine
from app.calibration.own_server import SCHEDULER
from app.question.query import ask
from app.scenario.local_files import sources
from profilers.collect.machine_document import ENGINE, SLUG
from profilers.collect.serving import own_server
from profilers.collect.serving.own_server import RunningServer, ServerSettings
from profilers.serving_results import read_results
from tests.benchmarks import gguf_model, llama_server
from tests.benchmarks.llama_server import SlotSettings
from tests.benchmarks.page_timings import machine_words, replace_table

#: Figures of a log: how they are made of the times of its requests, and how near they are to come.
FIGURES = {
    "E2E mean": ("e2e", np.mean, 0.02),
    "E2E P95": ("e2e", lambda times: np.percentile(times, 95), 0.04),
    "TTFT mean": ("ttft", np.mean, 0.10),
}
#: Layers of the model, so that 300 requests of either server take some minutes; format of GGUF.
LAYERS, QUANTISED = {"hf": 4, "llama.cpp": 12}, "q8_0"
MARK = (
    "<!-- python -m tests.benchmarks.request_logs --folder logs --engines hf llama.cpp "
    "--write docs/simulation.md -->"
)


@dataclass(frozen=True)
class Engine:
    """A server that is measured.

    asked: what it is priced as.  started: what it was started with and no result states.
    start: the server, given an empty file for its log.  rates: requests/s of its logs.
    """

    name: str
    asked: Mapping[str, Any]
    started: Mapping[str, Any]
    start: Any
    rates: Sequence[float]


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Measure, simulate, calibrate, simulate again; prints and returns a row per figure
    and rate.
    """
    told = _options().parse_args(arguments)
    folder: Path = told.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["RIDGELINE_DATA"] = str(folder / "data")
    if not (folder / "data" / "systems").exists():
        machine.save(machine.calibrate("cpu", told.threads, anyway=told.busy))
    engines = {"hf": transformers_serve, "llama.cpp": llama_cpp}
    rows = []
    for name in told.engines:
        model = folder / f"model-{name}"
        if not model.exists():
            own_server.write_model(model, {**own_server.CONFIG, "num_hidden_layers": LAYERS[name]})
        rows += compared(engines[name](model, told), model, folder, told)
    print(render(rows, TableFormat.text))
    if told.write:
        replace_table(told.write, MARK, section(rows))
    return rows


def compared(
    engine: Engine, model: Path, folder: Path, told: argparse.Namespace
) -> list[dict[str, Any]]:
    """Rows of an engine: its logs, measured where they are not in the folder yet."""
    files = [folder / f"{engine.name}-{rate:g}.json" for rate in engine.rates]
    if not all(file.exists() for file in files):
        with engine.start(folder / f"{engine.name}.log") as running:
            measured(running, max(engine.rates), told, folder / "warm-up.json", 24)
            for rate, file in zip(engine.rates, files, strict=True):
                measured(running, rate, told, file, told.requests)
    given = {"system": SLUG, "tp": 1, "model": str(model / "config.json"), **engine.asked}
    asked = ask("compare", given, sources)
    results = [read_results(file)[-1] for file in files]
    first = scheduled(deployment(results[0], asked), engine.started)
    calibration.forget([first])
    before = [figures(scheduled(deployment(one, asked), engine.started)) for one in results]
    learnt = calibration.calibrate([first])
    calibration.keep(learnt)
    after = [figures(scheduled(deployment(one, asked), engine.started)) for one in results]
    calibration.forget([first])
    print(f"{engine.name}: {learnt.sentence}", file=sys.stderr)
    return [
        {
            "engine": engine.name, "requests/s": rate, "requests": len(one.requests),
            "day": str(one.subject.date)[:10], "figure": name,
            "measured [ms]": old[name][0] * 1e3, "before": old[name][1], "after": new[name][1],
            "aim": FIGURES[name][2],
        }
        for rate, one, old, new in zip(engine.rates, results, before, after, strict=True)
        for name in FIGURES
    ]  # fmt: skip


def transformers_serve(model: Path, told: argparse.Namespace) -> Engine:
    """transformers' server, see app.calibration.own_server."""
    settings = ServerSettings(threads=told.threads)

    def start(log: Path) -> AbstractContextManager[RunningServer]:
        return own_server.running(model, settings, log)

    asked = {"engine": ENGINE, "weights": "bf16", "max_num_batched_tokens": settings.batch_tokens}
    started = {"scheduler": SCHEDULER, "kv_tokens": float(settings.kv_tokens)}
    return Engine("transformers serve", asked, started, start, told.rates)


def llama_cpp(model: Path, told: argparse.Namespace) -> Engine:
    """llama.cpp's server with the same model in 8-bit blocks."""
    settings = SlotSettings(threads=told.threads)
    file = model / f"{QUANTISED}.gguf"

    @contextmanager
    def start(log: Path) -> Iterator[RunningServer]:
        if not file.exists():
            gguf_model.write(model, file, QUANTISED)
        with llama_server.running(file, settings, log, told.llama_server) as running:
            yield running

    asked = {
        "engine": "llama.cpp", "weights": QUANTISED, "max_num_seqs": settings.slots,
        "max_num_batched_tokens": settings.batch_tokens,
    }  # fmt: skip
    return Engine("llama.cpp", asked, {}, start, told.llama_rates)


def section(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table for the document."""
    shown = [
        {
            "engine": row["engine"], "requests/s": f"{row['requests/s']:g}",
            "requests": row["requests"], "figure": row["figure"],
            "measured [ms]": f"{row['measured [ms]']:,.0f}", "before": f"{row['before']:+.1%}",
            "after one number": f"{row['after']:+.1%}", "aim": f"{row['aim']:.0%}",
        }
        for row in rows
    ]  # fmt: skip
    words = f"{rows[-1]['day']}, {machine_words().partition(', load')[0]}, one core."
    return f"{render(shown, TableFormat.markdown)}\n\n{words}"


def scheduled(run: Deployment, started: Mapping[str, Any]) -> Deployment:
    """The run under what its server was started with and no result states, by parameter."""
    scenario = replace(run.scenario, **started)
    return replace(run, scenario=scenario, resolved=replace(run.priced(), scenario=scenario))


def figures(run: Deployment) -> dict[str, tuple[float, float]]:
    """Measured value [s] of each figure, and simulated over measured minus one."""
    table, found = replay(run).table, {}
    for name, (latency, figure, _) in FIGURES.items():
        sides = [table[f"{latency}_{side}_s"].to_numpy() for side in ("measured", "simulated")]
        known = np.isfinite(sides[0]) & np.isfinite(sides[1])
        was, simulated = (float(figure(side[known])) for side in sides)
        found[name] = was, simulated / was - 1.0
    return found


def measured(
    running: RunningServer, rate: float, told: argparse.Namespace, file: Path, requests: int
) -> None:
    """Measure a server at a rate into a file that lists every request."""
    subprocess.run(
        [
            sys.executable, "-m", "app.cli", "measure", "endpoint", running.server.address,
            "--model", running.server.model, "--rate", f"{rate:g}", "--requests", str(requests),
            "--isl", str(told.isl), "--osl", str(told.osl), "--client", "own", "--no-keep",
            "--output", str(file),
        ],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="of the model and the logs")
    parser.add_argument("--engines", nargs="+", choices=["hf", "llama.cpp"], default=["hf"])
    parser.add_argument("--llama-server", default=llama_server.PROGRAM, help="path of the program")
    parser.add_argument("--rates", type=float, nargs="+", default=(1.5, 2.5), help="requests/s")
    parser.add_argument("--llama-rates", type=float, nargs="+", default=(1.5, 2.5))
    parser.add_argument("--requests", type=int, default=300, help="of each log")
    parser.add_argument("--threads", type=int, default=1, help="of each server")
    parser.add_argument("--busy", action="store_true", help="also where other programs run")
    parser.add_argument("--isl", type=int, default=64)
    parser.add_argument("--osl", type=int, default=32)
    parser.add_argument("--write", type=Path, help="page of the documentation with the mark")
    return parser


if __name__ == "__main__":
    main()
