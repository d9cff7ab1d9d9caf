"""Requests that run at once: the closed form beside the simulation, on random loads."""

from __future__ import annotations

import numpy as np
import pytest

from app.accuracy.simulation_grid import Case
from app.question.question import Question
from app.scenario.served_rows import served
from app.simulation.run import run
from tests.draws import cases, seed

COUNT = cases(8)
pytestmark = pytest.mark.draws


def drawn(engine: str) -> list[Case]:
    """Loads of an 8B model on one device with many places: prompts of 1k to 16k, short answers."""
    generator = np.random.default_rng(seed(5))

    def one(number: int) -> Case:
        isl, osl, users = (
            int(2 ** generator.uniform(*span)) for span in ((10, 14), (3, 7), (4, 8))
        )
        ratio = (1.0, 0.8)[number % 2]
        return Case(
            Question(
                model="meta-llama/Llama-3.1-8B", system="h200-sxm-141gb", engine=engine, isl=isl,
                osl=osl, concurrency=users, requests=max(4 * users, 100), length_ratio=ratio,
                max_num_seqs=256,
            )
        )  # fmt: skip

    return [one(number) for number in range(COUNT)]


def simulated(case: Case) -> tuple[np.ndarray, float]:
    """Numbers of running requests in the steady part of a simulation, [samples], and their mean."""
    series = run(case.resolved).simulation.series
    time, running = (np.asarray(series[name], dtype=float) for name in ("time_s", "running"))
    steady = (time >= 0.25 * time[-1]) & (time <= 0.8 * time[-1])
    time, running = time[steady], running[steady]
    return running, float(np.average(running[:-1], weights=np.diff(time)))


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "llamacpp"])
def test_as_many_run_at_once_as_in_the_simulation(engine: str):
    """Samples fall between steps, where the requests that a step ends are gone already."""
    for case in drawn(engine):
        running, mean = simulated(case)
        found = float(served(case.resolved).running[0])
        assert 0.97 * mean < found < 1.2 * running.max() + 1.0, case
