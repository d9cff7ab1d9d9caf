"""What Ridgeline's own calls cost, as the table of docs/speed.md shows them.

Seconds of one processor after a first call that loads what the others need; the least of several,
as others on the machine only ever add to it.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

import genz_core
import hardware_db
import model_registry
from genz_core.deployment import deploy
from genz_core.serving import Traffic, serve
from genz_core.types import Parallelism, Step, Workload
from genz_core.workload import bounds
from tests.benchmarks.growth import Growth
from tests.benchmarks.measures import processor_s

DENSE, EXPERTS, LATENT = (
    "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-235B-A22B", "deepseek-ai/DeepSeek-V3",
)  # fmt: skip
_SEED = 0
_SIZES = itertools.count(1000)


def least_s(work: Callable[[], object], repeats: int = 5) -> float:
    """Least processor time of a call after a first one [s]."""
    work()
    spent = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return min(spent)


def arrays(size: int) -> Iterator[tuple[str, float]]:
    """Configurations a second: prefill and decode of random batches and input lengths."""
    rng = np.random.default_rng(_SEED)
    batch, isl = rng.integers(1, 257, size), rng.integers(1, 8193, size)
    several = Parallelism(tp=2 ** rng.integers(0, 4, size))
    model, system, engine = _deployment(DENSE, "h100")
    for name, split in (("one degree", Parallelism(tp=2)), ("four degrees mixed", several)):
        seconds = least_s(lambda split=split: _both(model, system, engine, batch, isl, split), 3)
        yield f"arrays, calibrated, {name}", size / seconds
    load = Workload(batch, isl)
    seconds = least_s(lambda: bounds(model, system, load, Parallelism(tp=2)), 3)
    yield "arrays, bounds alone, one degree", size / seconds


def _deployment(model: str, system: str) -> tuple[object, object, object]:
    return model_registry.load(model), hardware_db.load(system), hardware_db.load_engine("vllm")


def _both(model, system, engine, batch, isl, split) -> None:  # type: ignore[no-untyped-def]
    load = Workload(batch, isl)
    genz_core.prefill(model, system, load, split, engine)
    genz_core.decode_step(model, system, load.batch, load.isl, split, engine)


def _scalar_s(model: str, system: str, split: Parallelism, calls: int = 50) -> float:
    """An estimate whose sizes nobody asked before."""
    found = _deployment(model, system)

    def ask() -> None:
        for _ in range(calls):
            genz_core.estimate(*found[:2], Workload(4, next(_SIZES), 128), split, found[2])

    return least_s(ask) / calls


def _served_s(loads: int, repeats: int = 15) -> float:
    """Loads of a length that nobody asked before; a deployment asked often has a program."""
    model, system, engine = _deployment(DENSE, "h100")
    users = np.arange(1, loads + 1)
    return least_s(
        lambda: serve(
            model, system, Traffic(next(_SIZES), 256, concurrency=users), engine=engine,
            on_error="status",
        ),
        repeats,
    )  # fmt: skip


def _simulated_s(requests: int) -> float:
    from app.question.question import Question
    from app.scenario.scenario import resolve
    from app.simulation.run import run

    asked = Question(
        model="meta-llama/Llama-3.1-70B", engine="vllm", weights="fp8", tp=4, concurrency=64,
        requests=requests, osl=1024, length_ratio=0.8,
    )  # fmt: skip
    resolved = resolve(asked)
    return least_s(lambda: run(resolved))


def _sensitivities_s() -> float:
    """Eleven systems: as it is, and each of five resources a tenth more and less."""
    from app.decide.sensitivity import sensitivities
    from app.question.question import Question
    from app.scenario.scenario import resolve

    asked = Question(model=DENSE, system="h100", engine="vllm", batch=8)
    return least_s(lambda: sensitivities(resolve(replace(asked, isl=next(_SIZES)))))


def _planned_s() -> float:
    import ridgeline

    return least_s(
        lambda: ridgeline.plan(
            LATENT, systems="h200,b200,mi300x", devices="1:64", engine="vllm", isl=1024, osl=256,
            rate=10, target="ttft_p95 < 1500ms, tpot < 50ms",
        ),
        repeats=2,
    )  # fmt: skip


def calls() -> Iterator[tuple[str, float]]:
    """Seconds of one call each."""
    yield "estimate, new sizes, Llama-3.1-8B", _scalar_s(DENSE, "h100", Parallelism())
    yield "estimate, new sizes, DeepSeek-V3", _scalar_s(LATENT, "b200", Parallelism(tp=8))
    yield "serve, one load", _served_s(1)
    yield "serve, 256 loads of one length", _served_s(256)
    yield "simulate, 1,000 requests, 64 users", _simulated_s(1000)
    yield "sensitivities of a batch", _sensitivities_s()
    yield "plan, DeepSeek-V3 on three systems", _planned_s()


def programs(repeats: int = 3) -> Iterator[tuple[str, float]]:
    """Seconds of processor of a whole program each, imports and files read included."""
    command = [sys.executable, "-c", "from ridgeline import main; main()"]
    words = ["estimate", DENSE, "--system", "h100"]
    yield "`ridgeline estimate`", processor_s([*command, *words], repeats)
    with tempfile.TemporaryDirectory() as folder:
        sweep = Path(folder) / "sweep.yaml"
        sweep.write_text(
            f"model: {DENSE}\nsystem: h100\nengine: vllm\ntp: [1, 2, 4, 8]\nosl: 128\n"
            "batch: {from: 1, to: 50, step: 1}\nisl: {from: 16, to: 8000, step: 16}\n"
        )
        words = ["sweep", str(sweep), "--output", str(Path(folder) / "rows.parquet")]
        yield "`ridgeline sweep`, 100,000 rows to parquet", processor_s([*command, *words], repeats)


def growth() -> Iterator[tuple[str, Growth]]:
    """How time grows with configurations, loads, requests and operators."""
    model, system, engine = _deployment(DENSE, "h100")
    rng = np.random.default_rng(_SEED)
    sizes = [1_000, 10_000, 100_000]
    seconds = []
    for size in sizes:
        batch, isl = rng.integers(1, 257, size), rng.integers(1, 8193, size)
        seconds.append(
            least_s(lambda b=batch, i=isl: _both(model, system, engine, b, i, Parallelism(tp=2)))
        )
    yield "configurations of an array", Growth.of(sizes, seconds)
    sizes = [16, 64, 256, 1024]
    yield "loads of `serve`", Growth.of(sizes, [_served_s(loads) for loads in sizes])
    sizes = [500, 2_000, 8_000]
    yield "requests of `simulate`", Growth.of(sizes, [_simulated_s(number) for number in sizes])
    found = sorted((_operators(name), _scalar_s(name, "b200", Parallelism(tp=8)))
                   for name in (DENSE, EXPERTS, LATENT))  # fmt: skip
    yield "operators of a model, estimate", Growth.of(*zip(*found, strict=True))


def _operators(model: str) -> int:
    """Distinct operators of a decode step."""
    deployed = deploy(model_registry.load(model), hardware_db.load("b200"), None)
    return len(deployed.graph(Step.decode(4.0, 1000.0), Parallelism(tp=8)).ops)
