"""The search over settings of a real server that were all measured, and what its runs teach.

llama_server_settings.csv: 48 settings of llama.cpp's server on one core (docs/tune.md says how they
were measured, by tests/benchmarks/tune_real_server.py).  The search is told of another CPU.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from app.calibration import from_runs
from app.question.query import Query, ask
from app.scenario.points_row import parse
from app.tuning.loop import Tuned, tune
from app.tuning.outcome import Outcome
from app.tuning.run_points import points
from app.tuning.space import space
from app.tuning.study import Record, Study
from genz_core.errors import InvalidValue
from profilers.collect.serving import own_server

NAMES = ("weights", "kv", "max_num_seqs", "max_num_batched_tokens")
GIVEN: dict[str, Any] = {
    "model": dict(own_server.CONFIG), "system": "epyc-9654", "engine": "llama.cpp",
    "concurrency": 8, "burst_start": True, "requests": 24, "isl": 64, "osl": 32,
}  # fmt: skip


def measured() -> dict[tuple[str, ...], dict[str, float]]:
    """Figures by setting, as texts."""
    lines = csv.DictReader(Path(__file__).with_name("llama_server_settings.csv").open())
    return {
        tuple(line[name] for name in NAMES): {
            name: float(text) for name, text in line.items() if name not in NAMES
        }
        for line in lines
    }


def searched(goal: str, target: str = "") -> tuple[Tuned, Query, list[Outcome]]:
    """A search of eight runs at most, and the outcome of every setting."""
    figures = measured()
    several = {name: list(dict.fromkeys(key[at] for key in figures)) for at, name in
               enumerate(NAMES)}  # fmt: skip
    query = ask("tune", {**GIVEN, **several, **({"target": target} if target else {})})
    found = space(query, goal)

    def run(setting: Any, *_: Any) -> Outcome:
        key = tuple(str(setting[name] or "checkpoint") for name in NAMES)
        return Outcome("measured", figures[key])

    return tune(found, run, Study(), 8), query, [run(one) for one in found.settings]


@pytest.mark.parametrize(
    "target", ["", "tpot < 25ms", "tpot < 40ms", "ttft < 1s", "tpot_p95 < 20ms"]
)
def test_the_best_of_all_or_one_within_five_percent_is_found_in_eight_runs(target: str):
    done, _, every = searched("output_tokens_per_s", target)
    goal = done.space.goal
    best = max(one.value(goal) for one in every if one.meets(done.space.targets))
    assert done.best is not None and done.best.outcome.value(goal) >= 0.95 * best


def taught() -> tuple[Tuned, list[dict[str, str]]]:
    """A search, and the rows of its points file."""
    done, query, _ = searched("output_tokens_per_s")
    return done, [{**row, "model": "Qwen/Qwen3-0.6B"} for row in points(query, done.records)]


def test_the_runs_of_a_search_are_rows_of_a_points_file():
    done, rows = taught()
    assert [row["id"] for row in rows] == [f"run {one.number}" for one in done.records]
    for row, record in zip(rows, done.records, strict=True):
        query = parse(row).question
        assert query.concurrency == GIVEN["concurrency"] and query.weights == row["weights"]
        assert query.max_num_seqs == record.setting["max_num_seqs"]
        assert float(row["measured_tpot_s"]) == record.outcome.figures["tpot"]


@pytest.mark.slow
def test_the_rows_of_a_search_calibrate():
    """The CPU that is priced is about ten times as fast as the core that ran."""
    _, rows = taught()
    times = ("measured_ttft_s", "measured_tpot_s")
    faster = [row | {name: str(float(row[name]) / 10.0) for name in times} for row in rows]
    learnt = from_runs.calibrate(faster)
    with pytest.raises(InvalidValue, match=r"TPOT .* times the prediction"):
        from_runs.calibrate(rows)
    assert {one.key.engine for one in learnt} == {"llama.cpp"}
    assert sum(len(one.runs) for one in learnt) == 2 * len(rows)


def test_runs_without_figures_teach_nothing():
    done, query, _ = searched("output_tokens_per_s")
    failed = [type(one)(one.number, one.setting, Outcome("failed")) for one in done.records]
    assert points(query, failed) == []


def test_a_points_file_names_the_system_that_was_not_stated():
    query = ask("tune", {"model": "Qwen/Qwen3-0.6B", "concurrency": 4, "max_num_seqs": "4,8"})
    runs = [Record(1, {"max_num_seqs": 8}, Outcome("measured", {"ttft": 0.1, "tpot": 0.01}))]
    (row,) = points(query, runs)
    assert row["system"] == query.question.system and parse(row).question.isl == query.question.isl
    assert row["max_num_seqs"] == "8" and row["measured_ttft_s"] == "0.1"
