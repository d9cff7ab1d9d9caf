"""The measurements of the benchmarks page: each a number with its unit and its better direction."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
            name = f"{row['operator']}, shapes that fitted nothing, mean error"
            yield Measure("Accuracy", name, "%", float(row["held-out shapes"]))


def sweeps(peers_python: str, count: int) -> Iterator[Measure]:
    """Configurations per second of processor time, including the peers if their Python is given."""
    from tests.benchmarks.peers_sweep import ours, peers

    rates = {**(peers(peers_python, count, "1.3.0rc20") if peers_python else {}), **ours()}
    for name, rate in rates.items():
        yield Measure("Sweeps", f"{name}: configurations a second", "1/s", rate, False)


def _processor_s(command: list[str], repeats: int) -> float:
    """Median processor time of a program in a new process [s], with its byte code cached."""
    own = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'app' / 'python'}", "OMP_NUM_THREADS": "1"}
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
        yield Measure("Start-up", name, "s", _processor_s([sys.executable, "-c", code], repeats))
    for words in ("--help", "estimate Qwen/Qwen3-8B --json", "systems"):
        command = [sys.executable, "-c", _CLI, *words.split()]
        yield Measure("Start-up", f"ridgeline {words}", "s", _processor_s(command, repeats))


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
