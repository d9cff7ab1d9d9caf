"""A server beside its simulation: one that behaves as simulated agrees, and a page shows
how far.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from app.calibration import own_server, own_server_document
from app.calibration.own_server import MeasuredLoop, Plan
from app.question.question import Question
from app.scenario.scenario import Resolved, resolve
from app.simulation.run import run
from genz_core.errors import InvalidValue
from profilers.collect.serving.client import Answer
from profilers.collect.serving.closed_loop import ServedLoad

PLAN = Plan(users=(1, 4), rounds=2, calibrate_at=4)


@pytest.fixture
def resolved(own_data) -> Resolved:
    return resolve(Question(system="h100", engine="vllm", model="Qwen/Qwen3-0.6B"))


def answered(resolved: Resolved, concurrency: int, number: int, scale: float) -> ServedLoad:
    """A benchmark round on a server whose steps take `scale` times their price."""
    load = PLAN.load(concurrency, number)
    served = run(own_server.asked_of(PLAN, resolved, concurrency, number, scale)).simulation
    answers = []
    for row, (isl, osl) in enumerate(load.lengths()):
        first = served.arrival_s[row] + served.ttft_s[row]
        gaps = np.nan_to_num(served.tpot_s[row]) * np.arange(osl)
        answers.append(Answer(served.arrival_s[row], tuple(first + gaps), isl, osl))
    return ServedLoad(load, tuple(load.lengths()), tuple(answers), 0.0)


#: The stored file names the server's release.
needs_transformers = pytest.mark.skipif(
    find_spec("transformers") is None, reason="no transformers on this machine"
)


@pytest.fixture
def found(resolved) -> own_server.OwnServer:
    loops = {
        at: MeasuredLoop(answered(resolved, at, 0, 1.7).then(answered(resolved, at, 1, 1.7)), 0.5)
        for at in PLAN.users
    }
    return own_server.simulated(PLAN, resolved, loops, contention=2.0)


def test_a_server_that_behaves_as_simulated_is_met_from_one_number(found):
    assert found.scale.scale == pytest.approx(1.7, rel=0.02)
    errors = {
        (row["concurrency"], row["figure"]): row["error"] for row in own_server_document.rows(found)
    }
    assert len(errors) == 2 * len(own_server_document.FIGURES)
    assert max(map(abs, errors.values())) < 0.03


@needs_transformers
def test_the_page_has_a_row_a_figure_and_says_what_it_rests_on(found):
    page = own_server_document.markdown(found)
    for words in (
        "| TTFT p99 (ms) |", "| 1 user | 4 users |", ", calibrated |", "x 1.7", "50 %",
        "at most 512 tokens a step", "64 to 128", "transformers ", "mean TPOT at 4 users",
        "Median error of the 19 figures",
    ):  # fmt: skip
        assert words in page, words
    assert page.count("calibrated |") == 2  # in wall-clock time and in core time


@needs_transformers
def test_the_same_figures_are_plain_data(found):
    facts = own_server_document.summary(found)
    assert facts["calibrated_at"] == 4 and facts["contention"] == 2.0
    calibrated = [row for row in facts["rows"] if row["calibrated"]]
    assert [(row["concurrency"], row["figure"]) for row in calibrated] == [(4, "tpot_mean_s")]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"calibrate_at": 16}, "16 is not one of the measured loads"),
        ({"rounds": 0}, "rounds = 0"),
        ({"users": (1, 500)}, "500 requests of 128/64 tokens do not fit"),
        ({"lengths": Question(isl=4000, osl=200)}, "1 requests of 4000/200 tokens do not fit"),
    ],
)
def test_a_plan_that_cannot_be_measured_is_refused(fields, words):
    with pytest.raises(InvalidValue, match=words):
        Plan(**fields)
