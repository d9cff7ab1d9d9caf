"""Does `ridgeline tune` find the best settings of a real server? All of them measured beforehand.

    python -m tests.benchmarks.tune_real_server --folder runs --write docs/tune.md

It needs llama.cpp's `llama-server` (on PATH, or `--server PATH`), the package `gguf` and a quiet
machine.  A small model of random weights is written in three formats, this machine is calibrated
by its microbenchmarks, the server is run once with every setting and a few times more with two of
them (the noise), then the search starts from nothing and runs the server itself.  What the folder
holds of the models, the calibration and all settings is not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from app.answers.table import TableFormat, render
from app.calibration import machine
from app.question.query import Query, ask
from app.scenario.local_files import sources
from app.tuning.answer import answer
from app.tuning.loop import Tuned
from app.tuning.outcome import Outcome, outcome_of
from app.tuning.real_server import Commands, RealServer
from app.tuning.space import Setting, space, words
from genz_core.common.progress import never, silent
from genz_core.errors import MeasurementError
from profilers.collect.machine_document import SLUG
from profilers.collect.serving import own_server
from tests.benchmarks import gguf_model, llama_server
from tests.benchmarks.page_timings import machine_words, replace_table

GOAL, RUNS, WITHIN = "output_tokens_per_s", 8, 0.05
#: What the server is started with, every value with every other.
SETTINGS: dict[str, list[Any]] = {
    "weights": ["bf16", "q8_0", "q4_0"],
    "kv": ["checkpoint", "q8_0"],
    "max_num_seqs": [1, 2, 4, 8],
    "max_num_batched_tokens": [32, 512],
}
LOAD: dict[str, Any] = {
    "concurrency": 8, "burst_start": True, "requests": 24, "isl": 64, "osl": 32,
}  # fmt: skip
_COMMAND = (
    "{server} --model {model}/{{weights}}.gguf --alias m --host 127.0.0.1 --port {{port}} "
    "--threads {threads} --threads-batch {threads} --threads-http 2 --ctx-size 4096 "
    "--flash-attn on --cache-ram 0 --parallel {{max_num_seqs}} "
    "--batch-size {{max_num_batched_tokens}} --ubatch-size {{max_num_batched_tokens}} "
    "[[--cache-type-k {{kv}} --cache-type-v {{kv}}]]"
)


@dataclass(frozen=True)
class Scored:
    """A search beside all settings measured.

    every: the outcome of each setting, in its order.  repeats: figures of the settings that were
    run again, the first run among them.
    """

    every: Sequence[tuple[Setting, Outcome]]
    repeats: Sequence[tuple[Setting, Sequence[float]]]
    search: Tuned
    seconds: float

    def value(self, setting: Setting) -> float:
        """The goal of a setting as it was measured among all; NaN where it failed or misses."""
        found = next(one for at, one in self.every if dict(at) == dict(setting))
        return found.figures.get(GOAL, np.nan) if found.meets(self.search.space.targets) else np.nan

    @property
    def best(self) -> tuple[Setting, float]:
        """The best setting of all, and its figure."""
        values = [(self.value(setting), at) for at, (setting, _) in enumerate(self.every)]
        value, at = max(pair for pair in values if np.isfinite(pair[0]))
        return self.every[at][0], value

    @property
    def near(self) -> int:
        """How many settings lie within 5 % of the best."""
        return sum(
            self.value(setting) >= (1.0 - WITHIN) * self.best[1] for setting, _ in self.every
        )

    @property
    def chosen(self) -> float:
        """The search's best setting as it was measured among all, over the best of all."""
        found = self.search.best
        return self.value(found.setting) / self.best[1] if found else np.nan

    @property
    def noise(self) -> float:
        """Deviation of ln of the goal between runs of one setting."""
        logs = [np.log(values) for _, values in self.repeats]
        freedom = sum(len(one) - 1 for one in logs)
        return float(np.sqrt(sum(((one - one.mean()) ** 2).sum() for one in logs) / freedom))


def question(model: Path, targets: str) -> Query:
    """The question of the search: its settings, its load and this machine."""
    given = {"model": str(model / "config.json"), "system": SLUG, "engine": "llama.cpp",
             **LOAD, **SETTINGS}  # fmt: skip
    return ask("tune", {**given, "target": targets} if targets else given, sources)


def commands(server: str, model: Path, threads: int) -> Commands:
    """How each setting is started and loaded."""
    text = _COMMAND.format(server=server, model=model, threads=threads)
    return Commands(text, "own", start_s=120.0)


def write_models(folder: Path) -> Path:
    """The model in every format that is tried."""
    if not (folder / "config.json").exists():
        own_server.write_model(folder)
    for weights in SETTINGS["weights"]:
        if not (folder / f"{weights}.gguf").exists():
            gguf_model.write(folder, folder / f"{weights}.gguf", weights)
    return folder


def measured(query: Query, run: RealServer, again: int) -> dict[str, Any]:
    """Every setting in an order drawn at random, then two of them again, in turns."""
    settings = space(query, GOAL).settings
    order = random.Random(0).sample(range(len(settings)), len(settings))
    found: dict[int, Outcome] = {}
    for number, at in enumerate(order, start=1):
        found[at] = run(settings[at], None, silent, never)
        shown = found[at].figures.get(GOAL)
        print(f"{number:3} {words(settings[at])}: {shown or found[at].why}", file=sys.stderr)
    values = {at: one.figures[GOAL] for at, one in found.items() if one.status == "measured"}
    ranked = sorted(values, key=values.__getitem__)
    repeated = [ranked[-1], ranked[len(ranked) // 2]]
    logs = {at: [values[at]] for at in repeated}
    for _ in range(again):
        for at in repeated:
            logs[at].append(run(settings[at], None, silent, never).figures[GOAL])
    return {
        "day": date.today().isoformat(),
        "all": [{"setting": dict(settings[at]), **one.document()} for at, one in found.items()],
        "repeats": [{"setting": dict(settings[at]), GOAL: logs[at]} for at in repeated],
    }


def section(found: Scored, day: str) -> str:
    """What it came to, for the document."""
    search, (best, value) = found.search, found.best
    rows = []
    for record in search.records:
        rate, expected = record.outcome.figures.get(GOAL, np.nan), record.proposal
        ends = f"{expected['low']:.0f} to {expected['high']:.0f}"
        rows.append(
            {
                "run": record.number,
                **{name: value or "default" for name, value in record.setting.items()},
                "expected [tokens/s]": f"{expected['predicted']:.0f} ({ends})",
                "measured [tokens/s]": f"{rate:.0f}",
                "of the best of all": f"{found.value(record.setting) / value:.0%}",
            }
        )
    values = [v for setting, _ in found.every if np.isfinite(v := found.value(setting))]
    targets = ", ".join(map(str, search.space.targets))
    missed = len(found.every) - len(values)
    runs = sum(len(v) for _, v in found.repeats)
    load = (
        f"{day}, {machine_words().partition(', load')[0]}, one core for server and client; "
        f"llama.cpp's `llama-server`, a Qwen3 of 89 M random weights; {LOAD['concurrency']} users, "
        f"{LOAD['requests']} requests of {LOAD['isl']} and {LOAD['osl']} tokens"
    )
    every = (
        f"All {len(found.every)} settings were measured: {min(values):.0f} to {max(values):.0f} "
        f"tokens/s, the best {words(best)}; {found.near} of them within {WITHIN:.0%} of it"
    )
    chosen = words(search.best.setting) if search.best else "nothing"
    came = (
        f"The search started from nothing and found {chosen} in {len(search.records)} runs: "
        f"{found.chosen:.0%} of the best of all. It stopped: {search.stop}."
    )
    noise = f"Runs of one setting differ by {found.noise:.1%} ({runs} runs of two settings)."
    return "\n\n".join(
        (
            f"{load}; target {targets}." if targets else f"{load}.",
            f"{every}; {missed} miss the target. {noise}" if missed else f"{every}. {noise}",
            came,
            render(rows, TableFormat.markdown),
        )
    )


def main(arguments: Sequence[str] | None = None) -> Scored:
    """Measure all, search, score; prints the section and returns what it is made of."""
    told = _options().parse_args(arguments)
    folder: Path = told.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["RIDGELINE_DATA"] = str(folder / "data")
    os.environ["OMP_NUM_THREADS"] = str(told.threads)
    try:
        server = llama_server.found(told.server)
    except MeasurementError as error:
        sys.exit(str(error))
    model = write_models(folder / "model")
    if not (folder / "data").exists():
        machine.save(machine.calibrate("cpu", told.threads, anyway=told.busy))
    query = question(model, told.target)
    how = commands(server, model, told.threads)
    started = time.monotonic()
    table = folder / "all.json"
    if not table.exists():
        table.write_text(json.dumps(measured(query, RealServer(query, how), told.again)))
    document = json.loads(table.read_text(encoding="utf-8"))
    every = [(one["setting"], outcome_of(one)) for one in document["all"]]
    repeats = [(one["setting"], one[GOAL]) for one in document["repeats"]]
    place = folder / "search"
    if place.exists():
        shutil.rmtree(place)
    search = answer(query, GOAL, RUNS, WITHIN * 100.0, commands=how, folder=place)
    found = Scored(every, repeats, search, time.monotonic() - started)
    text = section(found, document.get("day", date.today().isoformat()))
    print(text)
    (folder / "section.md").write_text(text, encoding="utf-8")
    if told.write:
        replace_table(told.write, MARK, text)
    return found


MARK = "<!-- python -m tests.benchmarks.tune_real_server --folder runs --write docs/tune.md -->"


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folder", type=Path, required=True, help="of the models and the runs")
    parser.add_argument("--server", default="llama-server", help="program of llama.cpp's server")
    parser.add_argument("--threads", type=int, default=1, help="of the server")
    parser.add_argument("--target", default="", help="that a setting has to meet")
    parser.add_argument("--again", type=int, default=3, help="more runs of each of two settings")
    parser.add_argument("--busy", action="store_true", help="also where other programs run")
    parser.add_argument("--write", type=Path, help="page of the documentation with the mark")
    return parser


if __name__ == "__main__":
    main()
