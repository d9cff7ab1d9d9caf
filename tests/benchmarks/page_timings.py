"""Time of pages in a browser: until the first result, and after a change.

    python -m tests.benchmarks.page_timings --pages decide --write docs/planning.md
    python -m tests.benchmarks.page_timings --pages predict --write docs/speed.md

A real server and a real Chromium share the machine.  The first result: from opening the address of
a new scenario, in a session of its own, until its chart is drawn; the browser has cached the
dashboard's scripts.  A change: from the key that ends an input until the page shows the new result
and is idle.  Beside wall-clock time, which other programs slow down, stand the processor seconds
of the server and the browser.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil

from tests.browser.conftest import QUIET, SETTLED, chromium
from tests.dashboards import Served, served

#: Longest wall-clock time on a quiet machine.
MOST_FIRST_S, MOST_CHANGE_S = 2.0, 0.5
#: Longest time of the median and of the 95th percentile of clicks on a page that predicts.
MOST_P50_S, MOST_P95_S = 0.3, 0.7
#: A table stands between a mark, which is the command that writes it, and this.
END = "<!-- the end of that table -->"
_REST_MS = 250
_DRAWN = ".js-plotly-plot .main-svg"
_INPUTS = itertools.count(1100, 7)
_SAID = """() => {
    const state = document.querySelector('[data-testid="stApp"]');
    const charts = [...document.querySelectorAll('.js-plotly-plot')].map(
        c => c.data.map(t => [t.name, (t.x || []).length, (t.x || [])[0], (t.y || [])[0]]));
    const shapes = [...document.querySelectorAll('.js-plotly-plot')].map(
        c => (c.layout.shapes || []).map(s => [s.x0, s.y0]));
    const words = document.querySelector('[data-testid="stMain"]').innerText;
    return [state.dataset.testScriptState, JSON.stringify([charts, shapes, words])];
}"""
#: Evaluated at every frame. While the page is busy only this is reported, because reading the page
#: forces a layout.
_CHANGED = f"""before => {{
    const {{testScriptState}} = document.querySelector('[data-testid="stApp"]').dataset;
    return testScriptState === 'notRunning' && ({_SAID})()[1] !== before;
}}"""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of an input.

    label: of the box or slider, "" for buttons.  values: texts to type, keys to press on a slider,
    or buttons to click, one after another.
    prices: whether the change needs new prices.
    """

    words: str
    label: str
    values: Sequence[str]
    prices: bool


@dataclass(frozen=True, slots=True)
class Case:
    """A page with its inputs and the changes to be timed."""

    page: str
    inputs: Mapping[str, Any]
    changes: Sequence[Change]
    points: str = ""  # words after the number of points on the page


@dataclass(frozen=True, slots=True)
class Spent:
    """Wall-clock seconds, and processor seconds of the server and the browser."""

    wall_s: float
    server_s: float
    browser_s: float


@dataclass(slots=True)
class Timing:
    """Times of a page's first result and of each change."""

    page: str
    points: int
    first: list[Spent] = field(default_factory=list)
    changes: dict[str, list[Spent]] = field(default_factory=dict)


class Clock:
    """Measures a `with` block: wall-clock time, and processor time of the server and the
    browser.
    """

    def __init__(self, server: Served) -> None:
        self._server = server

    def _now(self) -> tuple[float, float, float]:
        return time.perf_counter(), self._server.processor_s, self._browser_s()

    def _browser_s(self) -> float:
        total = 0.0
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if "chrom" in process.name():
                    times = process.cpu_times()
                    total += times.user + times.system
        return total

    def __enter__(self) -> Clock:
        self._then = self._now()
        return self

    def __exit__(self, *_: object) -> None:
        self.spent = Spent(*(b - a for a, b in zip(self._then, self._now(), strict=True)))


_SYSTEMS = ("h100-sxm5-80gb", "h200-sxm-141gb", "b200-sxm-180gb", "mi300x-192gb")
_BATCH = Change("batch (sidebar)", "Load", ("batch 17", "batch 18", "batch 19"), True)
CASES = (
    Case(
        "plan",
        {"model": "Qwen/Qwen3-235B-A22B", "systems": ("h200-sxm-141gb",), "rate": 40,
         "engines": ("vllm", "sglang", "trtllm"), "formats": ("fp8", "checkpoint")},
        (Change("TPOT target", "Targets",
                tuple(f"tpot < {ms}ms" for ms in range(20, 38, 2)), False),),
        "deployments priced",
    ),
    Case(
        "compare",
        {"model": "Qwen/Qwen3-235B-A22B", "systems": _SYSTEMS, "devices": "1:64",
         "engine": "vllm"},
        (Change("speed", "Minimum tokens/s per user", ("ArrowRight",) * 3, False),),
        "points without queueing",
    ),
    Case(
        "chip_lab",
        {"part": "Sensitivity", "model": "Qwen/Qwen3-32B", "tp": 2, "engine": "vllm"},
        (_BATCH,),
    ),
    Case(
        "plan",
        {"part": "Economics", "model": "Qwen/Qwen3-32B", "tp": 2, "engine": "vllm", "batch": 16},
        (Change("API price", "API price, output [$/Mtok]", ("2", "3", "4"), False), _BATCH),
    ),
    Case(
        "compare",
        {"model": "Qwen/Qwen3-32B", "tp": 2, "engine": "vllm", "compare_by": "Systems",
         "part": "Figures"},
        (_BATCH,),
    ),
)  # fmt: skip
_BATCHES = Change("batch (sidebar)", "Load", tuple(f"batch {size}" for size in range(5, 29)), True)


def _clicks(words: str, *names: str) -> Change:
    """Buttons that are clicked in turn, two dozen clicks in all."""
    return Change(words, "", names * (24 // len(names)), False)


_SCENARIO = {"model": "Qwen/Qwen3-32B", "tp": 2, "engine": "vllm", "batch": 4}
PREDICTING = (
    Case("", _SCENARIO, (_BATCHES, _clicks("part", "Load curves", "About"))),
    Case("explain", {**_SCENARIO, "part": "Roofline"}, (
        _BATCHES, Change("axis", "Slider moves", ("input length", "batch") * 12, False),
    )),
    Case("explain", {**_SCENARIO, "part": "Breakdown"}, (
        _BATCHES, _clicks("phase", "prefill", "decode"),
    )),
    Case("explain", {**_SCENARIO, "part": "Memory"}, (
        _BATCHES, _clicks("axis", "input length", "batch"),
    )),
    Case("", {**_SCENARIO, "part": "Load curves"}, (
        _BATCHES, Change("users", "Load", tuple(f"{n} users" for n in range(40, 64)), True),
    )),
)  # fmt: skip


def time_page(browser: Any, server: Served, case: Case, repeats: int = 3) -> Timing:
    """Open a page repeatedly, each time with a new scenario, then change its inputs."""
    context = browser.new_context(viewport={"width": 1400, "height": 1100})
    context.set_default_timeout(60_000)
    tab = context.new_page()
    _open(tab, server, case)  # the browser compiles the dashboard's scripts
    part = case.inputs.get("part", "")
    timing = Timing(f"{case.page or 'answer'}{f', {part}' if part else ''}", 0)
    for _ in range(repeats):
        timing.first.append(_open(tab, server, case))
        tab.wait_for_selector(SETTLED)
    timing.points = _points(tab, case)
    for change in case.changes:
        timing.changes[change.words] = [
            _change(tab, server, change.label, value) for value in change.values
        ]
    context.close()
    return timing


def _open(tab: Any, server: Served, case: Case) -> Spent:
    """Open a new scenario, until its chart is drawn."""
    tab.goto("about:blank")
    query = urlencode({**case.inputs, "isl": next(_INPUTS)}, doseq=True)
    with Clock(server) as clock:
        tab.goto(f"{server.url}/{case.page}?{query}", wait_until="commit")
        tab.wait_for_selector(_DRAWN)
    return clock.spent


def _change(tab: Any, server: Served, label: str, value: str) -> Spent:
    """Type a value into a box or click a button, until the page shows the new result and
    is idle.
    """
    tab.wait_for_timeout(_REST_MS)  # what the last change drew late is no part of this one
    tab.wait_for_selector(SETTLED)
    before = tab.evaluate(_SAID)[1]
    key = value if value.startswith("Arrow") else "Enter"
    if not label:
        box = tab.get_by_role("radio", name=value, exact=True).first
    elif key != "Enter":
        box = tab.get_by_role("slider", name=label)
    else:
        box = tab.get_by_label(label, exact=True).first
        box.fill(value)
    with Clock(server) as clock:
        if label:
            box.press(key)
        else:
            box.click()
        tab.wait_for_function(_CHANGED, arg=before)
    return clock.spent


def _points(tab: Any, case: Case) -> int:
    if not case.points:
        return 0
    text = tab.get_by_text(case.points).first.inner_text()
    return int(text.split(case.points)[0].split()[-1].replace(",", ""))


def run(cases: Sequence[Case] = CASES) -> list[Timing]:
    """Time pages with their own server and browser."""
    from playwright.sync_api import sync_playwright

    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder)) as server,
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
        found = [time_page(browser, server, case) for case in cases]
        browser.close()
    return found


def table(timings: Sequence[Timing]) -> str:
    """Medians as a Markdown table."""
    lines = [
        "| page | points | what | by the clock [s] | server [s] | browser [s] |",
        "|---|---|---|---|---|---|",
    ]
    for timing in timings:
        points = f"{timing.points:,}" if timing.points else "one scenario"
        rows = {"first result": timing.first, **timing.changes}
        for at, (words, spent) in enumerate(rows.items()):
            head = f"{timing.page} | {points}" if not at else " | "
            lines.append(f"| {head} | {words} | {_medians(spent)} |")
    return "\n".join(lines)


def _medians(spent: Sequence[Spent]) -> str:
    names = ("wall_s", "server_s", "browser_s")
    return " | ".join(
        f"{statistics.median(getattr(one, name) for one in spent):.2f}" for name in names
    )


def clicks_table(timings: Sequence[Timing]) -> str:
    """Medians and 95th percentiles of clicks, first pages, and processor seconds, as Markdown; the
    last lines are for the first pages and the clicks of all pages.
    """
    first = "first page, scripts there"
    lines = [
        "| page | what | clicks | p50 [ms] | p95 [ms] | server [ms of a core] | browser [ms] |",
        "|---|---|---|---|---|---|---|",
    ]
    for timing in timings:
        for words, spent in {first: timing.first, **timing.changes}.items():
            lines.append(_clicks_row(timing.page, words, spent))
    changes = [spent for timing in timings for spent in timing.changes.values()]
    for words, found in {first: [t.first for t in timings], "every change": changes}.items():
        lines.append(_clicks_row("all", words, [*itertools.chain(*found)]))
    return "\n".join(lines)


def _clicks_row(page: str, words: str, spent: Sequence[Spent]) -> str:
    wall = sorted(one.wall_s for one in spent)
    means = [statistics.mean(getattr(one, name) for one in spent)
             for name in ("server_s", "browser_s")]  # fmt: skip
    figures = [statistics.median(wall), percentile(wall, 0.95), *means]
    cells = " | ".join(f"{1e3 * figure:.0f}" for figure in figures)
    return f"| {page} | {words} | {len(spent)} | {cells} |"


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest of the sorted values that is not exceeded by `share` of them."""
    return ordered[max(-int(-share * len(ordered) // 1) - 1, 0)]


def machine_words() -> str:
    """The machine and how busy it is, for a table's last line."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if platform.system() == "Linux" else []
    name = next((line.partition(":")[2].strip() for line in lines if "model name" in line), "")
    load = os.getloadavg()[0]
    return f"{name or platform.processor()}, {os.cpu_count()} cores, load {load:.1f}"


def replace_table(path: Path, mark: str, text: str) -> None:
    """Replace a table between its mark and `END` in a page of the documentation."""
    head, rest = path.read_text(encoding="utf-8").split(mark, 1)
    after = rest.split(END, 1)[1]
    path.write_text(f"{head}{mark}\n\n{text}\n\n{END}{after}", encoding="utf-8")


#: Pages by kind, and how their timings are shown.
KINDS: Mapping[str, tuple[Sequence[Case], Callable[[Sequence[Timing]], str]]] = {
    "decide": (CASES, table),
    "predict": (PREDICTING, clicks_table),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", choices=list(KINDS), default="predict")
    parser.add_argument("--write", type=Path, help="page of the documentation with the mark")
    given = parser.parse_args()
    cases, shown = KINDS[given.pages]
    before = machine_words()
    text = f"{shown(run(cases))}\n\n{datetime.now(UTC):%Y-%m-%d}, {before} before."
    print(text)
    if given.write:
        command = f"tests.benchmarks.page_timings --pages {given.pages} --write {given.write}"
        replace_table(given.write, f"<!-- python -m {command} -->", text)


if __name__ == "__main__":
    main()
