"""Error of the simulation on logs of requests that real engines on this machine served.

Each engine is measured at two rates. Every request is simulated with its own arrival time, first
without calibration, then with a step scale fitted to the first rate.  Run it on a quiet machine:

    python -m tests.benchmarks.request_logs --output logs                # transformers serve
    python -m tests.benchmarks.request_logs --output logs --engine llama.cpp \
        --address http://127.0.0.1:8080 --model Qwen/Qwen3-0.6B --weights q8_0

The first command starts transformers' server with a small model of random weights.  The second uses
a running server, such as llama.cpp's `llama-server -m MODEL.gguf --parallel 4`, or
`python -m llama_cpp.server --model MODEL.gguf` of llama-cpp-python.  The aim is a mean E2E
within 2 %, P95 within 4 % and first tokens within 10 %.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from app.answers.table import TableFormat, render
from app.benchmarks import calibration
from app.benchmarks.deployment import Deployment, deployment
from app.benchmarks.replay import replay
from app.calibration import machine
from app.calibration.own_server import SCHEDULER
from app.question.asking import ask
from app.scenario.local_files import sources
from profilers.collect.machine_document import ENGINE, SLUG
from profilers.collect.serving.own_server import ServerSettings
from profilers.serving_results import read_results

#: Figures of a log, computed from the times of its requests.
FIGURES = {
    "E2E mean": ("e2e", np.mean),
    "E2E P95": ("e2e", lambda times: np.percentile(times, 95)),
    "TTFT mean": ("ttft", np.mean),
}


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Measure, simulate, calibrate, simulate again; prints and returns a row per figure
    and rate.
    """
    told = _options().parse_args(arguments)
    told.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ridgeline-") as folder:
        os.environ["RIDGELINE_DATA"] = str(Path(folder) / "data")
        if told.system == SLUG:
            machine.save(machine.calibrate("cpu", told.threads, anyway=told.busy))
        given = {"engine": told.engine, "system": told.system, "weights": told.weights, "tp": 1}
        started: dict[str, Any] = {}
        if not told.address:  # as transformers' server is started in app.calibration.own_server
            settings = ServerSettings(threads=told.threads)
            given |= {"max_num_batched_tokens": settings.batch_tokens}
            started = {"scheduler": SCHEDULER, "kv_tokens": settings.kv_tokens}
        server: Any = nullcontext((told.address, told.model, told.model))
        if not told.address:
            server = _transformers(Path(folder), told.threads)
        with server as (address, name, model):
            files = [
                measured(address, name, rate, told, told.output / f"{told.engine}-{rate:g}.json")
                for rate in told.rates
            ]
        asked = ask("compare", {**given, "model": model}, sources)
        results = [read_results(file)[-1] for file in files]
        before = [figures(scheduled(deployment(one, asked), started)) for one in results]
        first = scheduled(deployment(results[0], asked), started)
        calibration.keep(calibration.calibrate([first]))
        after = [figures(scheduled(deployment(one, asked), started)) for one in results]
    rows = [
        {
            "engine": told.engine, "rate": rate, "requests": told.requests, "figure": name,
            "measured [ms]": old[name][0] * 1e3, "before": old[name][1], "after": new[name][1],
        }
        for rate, old, new in zip(told.rates, before, after, strict=True) for name in FIGURES
    ]  # fmt: skip
    print(render(rows, TableFormat.text))
    return rows


def scheduled(run: Deployment, started: dict[str, Any]) -> Deployment:
    """The run with the parameters of its server that no result file states."""
    scenario = replace(run.scenario, **started)
    return replace(run, scenario=scenario, resolved=replace(run.priced(), scenario=scenario))


def figures(run: Deployment) -> dict[str, tuple[float, float]]:
    """Measured value [s] of each figure, and simulated over measured minus one."""
    table, found = replay(run).table, {}
    for name, (latency, figure) in FIGURES.items():
        sides = [table[f"{latency}_{side}_s"].to_numpy() for side in ("measured", "simulated")]
        known = np.isfinite(sides[0]) & np.isfinite(sides[1])
        was, simulated = (float(figure(side[known])) for side in sides)
        found[name] = was, simulated / was - 1.0
    return found


def measured(address: str, name: str, rate: float, told: argparse.Namespace, file: Path) -> Path:
    """Benchmark a server at a rate, with every request listed in a file."""
    subprocess.run(
        [
            sys.executable, "-m", "app.cli", "measure", "endpoint", address, "--model", name,
            "--rate", f"{rate:g}", "--requests", str(told.requests), "--isl", str(told.isl),
            "--osl", str(told.osl), "--client", "own", "--no-keep", "--output", str(file),
        ],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return file


@contextmanager
def _transformers(folder: Path, threads: int) -> Iterator[tuple[str, str, str]]:
    """transformers' server with a small model of random weights: address, name and config."""
    from profilers.collect.serving import own_server

    model = folder / "model"
    own_server.write_model(model, {**own_server.CONFIG, "num_hidden_layers": 4})
    with own_server.running(model, ServerSettings(threads=threads), folder / "log") as running:
        yield running.server.address, running.server.model, str(model / "config.json")


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, required=True, help="folder of the logs")
    parser.add_argument("--engine", default=ENGINE, help="that the server is priced as")
    parser.add_argument("--address", default="", help="of a server that runs")
    parser.add_argument("--model", default="", help="of that server, name or config")
    parser.add_argument("--system", default=SLUG, help="default: this machine, calibrated")
    parser.add_argument("--weights", default="bf16", help="format of the weights")
    parser.add_argument("--rates", type=float, nargs=2, default=(1.0, 2.0), help="requests/s")
    parser.add_argument("--requests", type=int, default=300, help="of each log")
    parser.add_argument("--threads", type=int, default=1, help="of the server")
    parser.add_argument("--busy", action="store_true", help="also where other programs run")
    parser.add_argument("--isl", type=int, default=128)
    parser.add_argument("--osl", type=int, default=64)
    return parser


if __name__ == "__main__":
    main()
