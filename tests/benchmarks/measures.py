"""The measurements of the benchmarks page: each a number with its unit and its better direction."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
_CLI = "from app.cli import main; main()"


@dataclass(frozen=True, slots=True)
class Measure:
    """One number.  area: of the page.  name: unique.  less_is_better: of two values."""

    area: str
    name: str
    unit: str
    value: float
    less_is_better: bool = True


def accuracy() -> Iterator[Measure]:
    """Errors of the shipped fits, on rows that were not used for fitting."""
    from app.accuracy import shipped_errors
    from app.accuracy.measured_points import SERVING_METRICS
    from app.accuracy.shipped_errors import BATCH_METRICS

    for metrics, what in ((SERVING_METRICS, "under load"), (BATCH_METRICS, "static batch")):
        for row in shipped_errors.fit_errors(metrics):
            if row["split"] != "in sample":
                name = f"{row['metric']} {what}, {row['split']}, median error"
                yield Measure("Accuracy", name, "%", row["median %"])
    for row in shipped_errors.operator_matrix(shipped_errors.operator_series()):
        if row.get("held-out shapes") is not None:
            name = f"{row['operator']}, held-out shapes, mean error"
            yield Measure("Accuracy", name, "%", float(row["held-out shapes"]))


def sweeps(peers_python: str, count: int) -> Iterator[Measure]:
    """Configurations per second of processor time, including the peers if their Python is given."""
    from tests.benchmarks.peers_sweep import ours, peers

    rates = {**(peers(peers_python, count, "1.3.0rc20") if peers_python else {}), **ours()}
    for name, rate in rates.items():
        yield Measure("Sweeps", f"{name}: configurations a second", "1/s", rate, False)


def processor_s(command: list[str], repeats: int) -> float:
    """Median processor time of a program of its own [s]; it finds the byte code made before."""
    own = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'app' / 'python'}", "OMP_NUM_THREADS": "1"}
    own.pop("PYTHONDONTWRITEBYTECODE", None)
    found = []
    for _ in range(repeats + 1):
        before = os.times()
        subprocess.run(command, cwd=ROOT, env=own, check=True, capture_output=True, timeout=300)
        after = os.times()
        found.append(sum(after[2:4]) - sum(before[2:4]))
    return float(np.median(found[1:]))


def start_up(repeats: int) -> Iterator[Measure]:
    """Programs and imports, each in a fresh process."""
    programs = {
        "import genz_core": "import genz_core",
        "import ridgeline": "import ridgeline",
        "first estimate in Python": "import ridgeline; ridgeline.estimate('Qwen/Qwen3-8B')",
    }
    for name, code in programs.items():
        yield Measure("Start-up", name, "s", processor_s([sys.executable, "-c", code], repeats))
    for words in ("--help", "estimate Qwen/Qwen3-8B --json", "systems"):
        command = [sys.executable, "-c", _CLI, *words.split()]
        yield Measure("Start-up", f"ridgeline {words}", "s", processor_s(command, repeats))


def pages(cases: int, repeats: int) -> Iterator[Measure]:
    """Pages in a real browser: processor seconds of server and browser together."""
    from tests.benchmarks.page_timings import CASES, Spent, time_page
    from tests.browser.conftest import QUIET, chromium
    from tests.dashboards import served

    if chromium() is None:
        return
    from playwright.sync_api import sync_playwright

    def both(spent: list[Spent]) -> float:
        return float(np.median([one.server_s + one.browser_s for one in spent]))

    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder)) as server,
        sync_playwright() as playwright,
    ):
        yield Measure("Memory", "server of the dashboard, started", "MB", server.memory_bytes / 1e6)
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
        for case in CASES[:cases]:
            timing = time_page(browser, server, case, repeats)
            yield Measure("Pages", f"{case.page}: first result", "s", both(timing.first))
            for words, spent in timing.changes.items():
                yield Measure("Pages", f"{case.page}: {words}", "s", both(spent))
        browser.close()
        used = server.memory_bytes / 1e6
        yield Measure("Memory", f"the same after {cases} pages", "MB", used)


def reports(repeats: int) -> Iterator[Measure]:
    """Time to read the shipped reports."""
    import ridgeline

    for path in sorted((ROOT / "app" / "samples").glob("*.json.gz")):
        spent = _spent(lambda path=path: ridgeline.read_report(path), repeats)
        yield Measure("Reports", f"read {path.name}", "s", spent)


def simulations(requests: int, repeats: int) -> Iterator[Measure]:
    """Time to simulate requests one by one."""
    import ridgeline

    def served_requests() -> object:
        return ridgeline.simulate(
            "Qwen/Qwen3-8B", system="h100", engine="vllm", rate=20, requests=requests, isl=512,
            osl=128, seed=1,
        )  # fmt: skip

    rate = requests / _spent(served_requests, repeats)
    yield Measure("Simulation", "requests a second of processor time", "1/s", rate, False)


def scale(full: bool) -> Iterator[Measure]:
    """How cost grows with rows, simulations, deployments and models, here and over a cluster.

    full: up to a million rows and deployments and a thousand simulations.
    """
    for name, spent in scale_cases(full):
        yield Measure("Scale", name, "s", spent())


def scale_cases(full: bool) -> Iterator[tuple[str, Callable[[], float]]]:
    """What is measured of `scale`, each in words and as a call that returns its seconds.

    Of a cluster every process counts, from its start to its end: two workers of this machine.
    """
    for exponent in (4, 5, 6) if full else (3,):
        rows = 10**exponent
        for where, cluster in _PLACES.items():
            yield f"sweep of {rows:,} rows, {where}", partial(_of_all, _sweep, rows, cluster)
    for count in (10, 100, 1000) if full else (4,):
        for where, cluster in _PLACES.items():
            name = f"{count:,} simulations of 50 requests, {where}"
            yield name, partial(_of_all, _simulations, count, cluster)
    for systems in (1, 7) if full else ():
        for where, cluster in _PLACES.items():
            name = f"plan of {systems * _DEPLOYMENTS:,} deployments, {where}"
            yield name, partial(_of_all, _plan, systems, cluster)
    for models in (5, 10, 20) if full else (2,):
        yield f"fleet of {models} models on 50 machines", partial(_of_all, _fleet, models, False)


#: Where pieces of work run, and whether it is a cluster.
_PLACES = {"one process": False, "a cluster of two workers": True}
#: Of the plan below, a system.
_DEPLOYMENTS = 161_280


def _of_all(work: Callable[[int, str], None], size: int, cluster: bool) -> float:
    """Processor time of a piece of work by this process and all that it started and ended [s].

    work: of a size and the address of a cluster, "" for none.
    """
    before = os.times()
    if cluster:
        from distributed import LocalCluster

        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as there:
            work(size, there.scheduler_address)
    else:
        work(size, "")
    return sum(os.times()[:4]) - sum(before[:4])


def _sweep(rows: int, cluster: str) -> None:
    from app.planning import sweep_file
    from app.planning.sweep_axes import sweep_axes
    from app.simulation.executor import Where

    axes = sweep_axes(
        {"model": "meta-llama/Llama-3.1-8B", "engine": "vllm", "tp": [1, 2, 4, 8], "osl": 128,
         "system": ["h100", "h200", "b200", "a100-sxm4-80gb", "mi300x"],
         "batch": {"from": 1, "to": 50, "step": 1},
         "isl": {"from": 16, "to": 16 * rows // 1000, "step": 16}}
    )  # fmt: skip
    assert len(axes) == rows
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "out.parquet"
        done = sweep_file.sweep(axes, target, where=Where(1, cluster))
        assert done is not None and done.rows == rows


def _simulations(count: int, cluster: str) -> None:
    from app.simulation import rows_file

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "in.csv"
        cells = "meta-llama/Llama-3.1-8B,h100,vllm,50,256,64"
        rows = [f"{at},{cells},{4 + at % 16},{at}" for at in range(count)]
        source.write_text("\n".join(["id,model,system,engine,requests,isl,osl,rate,seed", *rows]))
        done = rows_file.run_file(source, Path(folder) / "out.csv", 1, cluster)
        assert all(row["status"] == "ok" for row in done.rows) and len(done.rows) == count


def _plan(systems: int, cluster: str) -> None:
    from app.planning import answer
    from app.question.query import ask
    from app.simulation.executor import Where
    from tests.benchmarks.test_planning_speed import SYSTEMS

    formats = "checkpoint,fp8"
    asked = ask("plan", {
        "model": "meta-llama/Llama-3.1-8B", "system": SYSTEMS[:systems], "weights": formats,
        "kv": formats, "engine": "vllm,sglang,trtllm", "devices": "1:4096", "rate": 2000,
        "pools": "aggregated", "target": "tpot < 30ms", "simulate": False,
    })  # fmt: skip
    found = answer.answer(asked, where=Where(1, cluster)).found
    assert len(found.candidates) > 0.9 * systems * _DEPLOYMENTS


def _fleet(count: int, _cluster: str) -> None:
    from app.fleets.result import fleet
    from tests.benchmarks.test_fleet_speed import MACHINES, models

    chosen = models(6.0 * 20 / count)[:count]
    question = {"engine": "vllm", "simulate": False}
    found = fleet({"machines": MACHINES, "models": chosen, "question": question})
    assert len(found.models) == count


def peaks() -> Iterator[Measure]:
    """Peak memory of programs, each in a fresh process (Linux)."""
    if sys.platform != "linux":
        return
    sweep = (
        "import ridgeline; ridgeline.estimate('Qwen/Qwen3-8B', "
        "batch=list(range(1, 1001)) * 100, on_error='status')"
    )
    for name, code in {"import ridgeline": "import ridgeline", "100,000 estimates": sweep}.items():
        own = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'app' / 'python'}"}
        told = f"{code}; print(next(x for x in open('/proc/self/status') if x.startswith('VmHWM')))"
        done = subprocess.run(
            [sys.executable, "-c", told],
            cwd=ROOT, env=own, check=True, capture_output=True, text=True, timeout=600,
        )  # fmt: skip
        peak_kib = float(done.stdout.split()[-2])
        yield Measure("Memory", f"{name}, highest", "MB", peak_kib * 1024.0 / 1e6)


def _spent(work: Callable[[], object], repeats: int) -> float:
    """Median processor time of a call, after a first one [s]."""
    work()
    found = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return float(np.median(found))
