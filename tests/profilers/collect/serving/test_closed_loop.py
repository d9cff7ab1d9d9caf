"""Closed loops: which users have a request in flight, what was sent, the end, and the figures."""

from __future__ import annotations

import json
import math
import threading
import time

import numpy as np
import pytest

from app.benchmarks import benchmark_result
from app.question.question import Question
from app.simulation import offered_load
from genz_core.common.progress import Cancelled
from genz_core.errors import InvalidValue, MeasurementError
from profilers.collect.serving import closed_loop, result_file
from profilers.collect.serving.client import Answer, Server
from profilers.collect.serving.closed_loop import ClosedLoop, ServedLoad
from profilers.collect.serving.prompts import Prompts, probe
from tests.profilers.collect.serving.sse_server import FIXED, PER_WORD, serving


def serve(server, load, **more):
    found, prompts = probe(Server(server.address, "small"))
    return closed_loop.serve(found, prompts, load, **more)


@pytest.mark.parametrize("users", [1, 3])
def test_no_more_requests_than_users_are_open(users):
    with serving(first_s=0.05) as server:
        served = serve(server, ClosedLoop(users, 12, osl=2))
    assert server.most_open == users
    assert len(served.answers) == 12
    starts = sorted(answer.sent_s for answer in served.answers)
    ends = sorted(answer.chunks_s[-1] for answer in served.answers)
    assert all(start >= end for start, end in zip(starts[users:], ends, strict=False))


def test_requests_are_those_that_a_simulation_of_that_seed_draws():
    load = ClosedLoop(4, 50, isl=300, osl=60, length_ratio=0.5, seed=7)
    asked = Question(
        concurrency=4, burst_start=True, requests=50, isl=300, osl=60, length_ratio=0.5, seed=7
    )
    simulated = offered_load.drawn(asked).requests
    assert load.lengths() == list(
        zip(simulated.input_tokens.astype(int), simulated.output_tokens.astype(int), strict=True)
    )


def test_prompts_and_answers_have_the_lengths_that_were_drawn():
    load = ClosedLoop(2, 20, isl=101, osl=8, length_ratio=0.5)
    with serving() as server:
        served = serve(server, load)
    read, written = result_file.lengths(served)
    asked = np.array(load.lengths())
    assert np.abs(read - asked[:, 0]).max() <= PER_WORD / 2 + 0.5 and read.min() > FIXED
    assert (written == asked[:, 1]).all()


def test_progress_counts_answers():
    seen = []
    with serving(first_s=0.1) as server:
        serve(
            server, ClosedLoop(1, 5, osl=1), progress=lambda share, what: seen.append((share, what))
        )
    assert seen == sorted(seen) and seen[-1] == (1.0, "5 of 5 requests")


def test_a_loop_that_is_stopped_ends_its_requests_at_once():
    stop = threading.Event()
    with serving(fault="hangs", good=4) as server:  # two of them are the probes
        threading.Timer(0.5, stop.set).start()
        began = time.perf_counter()
        with pytest.raises(Cancelled, match="2 of 10 requests"):
            serve(server, ClosedLoop(2, 10, osl=1), cancelled=stop.is_set)
        assert time.perf_counter() - began < 10


def test_the_first_failure_ends_the_loop_with_its_sentence():
    with serving(fault="ends_early", good=5) as server:
        with pytest.raises(MeasurementError, match="without a finish_reason"):
            serve(server, ClosedLoop(2, 1000, osl=3))
        assert len(server.bodies) < 20


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"concurrency": 0}, "concurrency = 0"),
        ({"concurrency": 2000}, "concurrency = 2,000"),
        ({"isl": 0}, "isl = 0"),
        ({"osl": 10**7}, "osl = 10,000,000"),
        ({"length_ratio": 0.0}, "length_ratio = 0"),
        ({"concurrency": 8, "requests": 4}, "4 requests are too few for 8 users"),
    ],
)
def test_a_load_outside_its_bounds_is_refused(fields, words):
    with pytest.raises(InvalidValue, match=words):
        ClosedLoop(**{"concurrency": 1, **fields})


# ------------------------------------------------------------------------------- figures


@pytest.fixture
def two() -> ServedLoad:
    """Two requests, one after the other: first tokens after 1 s and 3 s, gaps of 0.5 s
    and 0.2 s.
    """
    answers = (
        Answer(10.0, (11.0, 11.5, 12.0), 100, 3),
        Answer(12.0, (15.0, 15.2, 15.4, 15.6), 300, 7),
    )
    return ServedLoad(ClosedLoop(1, 2), ((100, 3), (300, 7)), answers, 10.0)


def test_figures_are_those_of_the_definitions(two):
    named = result_file.figures(two)
    assert named["ttft_mean_s"] == pytest.approx(2.0)
    assert named["tpot_mean_s"] == pytest.approx((0.5 + 0.6 / 6) / 2)  # 7 tokens in four pieces
    assert named["itl_mean_s"] == pytest.approx((2 * 0.5 + 3 * 0.2) / 5)
    assert named["e2e_p50_s"] == pytest.approx((2.0 + 3.6) / 2)
    assert named["seconds"] == pytest.approx(5.6)
    assert named["output_tokens_per_s"] == pytest.approx(10 / 5.6)
    assert named["input_tokens_per_s"] == pytest.approx(400 / 5.6)


def test_a_load_and_a_later_one_are_one_of_their_length(two):
    both = two.then(two)
    once, twice = result_file.figures(two), result_file.figures(both)
    assert both.seconds == pytest.approx(2 * two.seconds)
    assert twice["requests"] == 4
    for name in ("ttft_mean_s", "tpot_p50_s", "e2e_p99_s", "output_tokens_per_s"):
        assert twice[name] == pytest.approx(once[name], rel=0.05)


def test_answers_of_one_token_have_no_tpot():
    load = ServedLoad(ClosedLoop(1, 1), ((5, 1),), (Answer(0.0, (1.0,), 5, 1),), 0.0)
    assert math.isnan(result_file.figures(load)["tpot_mean_s"])


def test_the_result_file_calibrates_a_simulation(two, tmp_path):
    path = tmp_path / "result.json"
    path.write_text(json.dumps(result_file.document(two, Server("http://h", "m"), {})))
    result = benchmark_result.read(path)
    measured = result_file.figures(two)
    assert result.tpot_s == pytest.approx(measured["tpot_mean_s"])
    total = {"total_tokens_per_s": measured["input_tokens_per_s"] + measured["output_tokens_per_s"]}
    for name, value in result.figures.items():
        assert value == pytest.approx({**measured, **total}[name]), name
    assert {"ttft_p99_s", "e2e_mean_s", "requests_per_s"} <= set(result.figures)
    assert result.load["concurrency"] == 1 and result.load["requests"] == 2
    assert result.load["lengths"].tolist() == [[100, 3], [300, 7]]


def test_prompts_are_words_for_what_is_left_after_the_fixed_tokens():
    assert len(Prompts(10.0, 2.0, counted=True).of(50).split()) == 20
    assert len(Prompts(10.0, 2.0, counted=True).of(1).split()) == 1
