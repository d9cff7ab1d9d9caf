"""Offered load: the arrivals, lengths and sessions of the question, equal for equal seeds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.question.query import ask
from app.question.question import Question
from app.scenario.local_files import sources
from app.simulation import offered_load
from app.simulation.offered_load import Conversation
from genz_core.errors import InvalidValue
from genz_core.serving.simulation import Requests


def drawn(**fields: Any) -> Requests:
    asked = ask("simulate", {"model": "meta-llama/Llama-3.1-8B", **fields}, sources)
    return offered_load.drawn(asked.question, asked.objects).requests


def test_users_that_start_together_send_ten_requests_each():
    requests = drawn(concurrency=8, burst_start=True, isl=100, osl=10, length_ratio=1.0)
    assert len(requests) == 80 and not requests.arrival_s.any()
    assert set(requests.input_tokens) == {100} and set(requests.output_tokens) == {10}


def test_users_of_a_steady_loop_send_two_more_before_and_one_after():
    assert len(drawn(concurrency=8)) == 8 * (2 + 10 + 1)
    assert offered_load.counted(Question(concurrency=8)) == range(16, 96)
    assert len(drawn(concurrency=8, requests=5)) == 16 + 5 + 8
    sessions = Question(concurrency=8, turns=3)
    assert offered_load.counted(sessions) == range(48, 288)
    for other in ({"rate": 2.0}, {"concurrency": 8, "burst_start": True}, {"trace": "t.csv"}):
        assert offered_load.counted(Question(**other)) is None


@pytest.mark.parametrize(("isl", "osl"), [(1024, 256), (5, 6), (100, 2), (1, 1), (15, 25)])
def test_lengths_vary_by_a_tenth_about_what_was_asked(isl, osl):
    requests = drawn(rate=1.0, isl=isl, osl=osl, requests=20_000)
    for mean, lengths in ((isl, requests.input_tokens), (osl, requests.output_tokens)):
        assert lengths.min() + lengths.max() == 2 * mean
        assert 1.1 * mean - 1.0 < lengths.max() <= 1.1 * mean
        assert lengths.mean() == pytest.approx(mean, rel=0.005)


def test_a_rate_has_a_thousand_requests_that_come_as_often():
    requests = drawn(rate=5.0)
    assert len(requests) == 1000
    assert requests.arrival_s[-1] == pytest.approx(200.0, rel=0.1)


@pytest.mark.parametrize("sessions", [{"turns": 4, "think_s": 9.0}, {"sessions": "coding_agent"}])
def test_a_rate_counts_every_request_of_a_session(sessions: dict[str, Any]):
    """Sessions start at the rate over their turns, as `serve` reads a rate."""
    requests = drawn(rate=5.0, requests=40_000, **sessions)
    starts = requests.arrival_s[requests.after < 0]
    assert len(requests) / np.ptp(starts) == pytest.approx(5.0, rel=0.06)


def test_a_ramp_and_a_day_count_every_request_of_a_session():
    ramp = {"rate": 1.0, "ramp_to": 9.0, "ramp_s": 1000.0, "requests": 5000}
    alone, turns = (drawn(**ramp, **more).arrival_s for more in ({}, {"turns": 4}))
    assert turns[-4] == pytest.approx(alone[-1], rel=0.05)  # the last session's start
    day = Question(rate=5.0, day=(0.5,) * 12 + (1.0,) * 12)
    whole = offered_load.of_a_day(day)
    assert offered_load.of_a_day(replace(day, turns=4)) == pytest.approx(whole, abs=4)


def test_bursts_have_gaps_of_a_gamma_distribution():
    gaps = np.diff(drawn(rate=5.0, burstiness=0.25, requests=20_000).arrival_s)
    assert gaps.std() / gaps.mean() == pytest.approx(2.0, rel=0.05)  # 1 / sqrt(shape)


def test_a_ramp_ends_at_its_rate():
    arrival = drawn(rate=1.0, ramp_to=9.0, ramp_s=100.0, requests=2000).arrival_s
    assert np.sum(arrival < 100.0) == pytest.approx(500, rel=0.1)
    assert np.sum(arrival > 100.0) / (arrival[-1] - 100.0) == pytest.approx(9.0, rel=0.1)


def test_uniform_lengths_lie_between_the_ratio_and_the_nominal():
    requests = drawn(rate=1.0, isl=1000, osl=100, length_ratio=0.8, requests=5000)
    assert requests.input_tokens.min() == 800 and requests.input_tokens.max() == 1000
    assert requests.output_tokens.mean() == pytest.approx(90, rel=0.02)


def test_lognormal_lengths_have_the_mean_and_the_spread():
    lengths = drawn(rate=1.0, isl=1000, length_spread=0.5, requests=20_000).input_tokens
    assert lengths.mean() == pytest.approx(1000, rel=0.02)
    assert lengths.std() / lengths.mean() == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize("from_file", [True, False], ids=["file", "array"])
def test_measured_lengths_are_drawn_in_pairs(tmp_path: Path, from_file: bool):
    path = tmp_path / "lengths.csv"
    path.write_text("input_tokens,output_tokens\n100,1\n200,2\n")
    lengths = path if from_file else np.array([[100.0, 1.0], [200.0, 2.0]])
    requests = drawn(rate=1.0, lengths=lengths, requests=50)
    assert set(requests.input_tokens) == {100, 200}
    assert np.array_equal(requests.input_tokens, 100 * requests.output_tokens)


def test_a_prompt_of_a_session_repeats_all_that_was_said():
    requests = drawn(concurrency=2, isl=160, osl=32, turns=3, think_s=4.0, think_spread=0,
                     shared_tokens=64, burst_start=True, length_ratio=1.0)  # fmt: skip
    assert len(requests) == 2 * 10 * 3
    assert requests.input_tokens[:6].tolist() == [224, 416, 608, 224, 416, 608]
    assert requests.after[:6].tolist() == [-1, 0, 1, -1, 3, 4]
    assert requests.arrival_s[:3].tolist() == [0.0, 4.0, 4.0]
    first, other = requests.prefix[0], requests.prefix[3]
    assert first[:4] == other[:4] == (0, 1, 2, 3)  # the system prompt, of four blocks
    assert not set(first[4:]) & set(other[4:])
    assert len(first) == (608 + 32) // 16


def test_a_shared_prompt_comes_on_top_of_the_input():
    requests = drawn(concurrency=2, isl=100, shared_tokens=40, length_ratio=1.0)
    assert set(requests.input_tokens) == {140}
    assert list(requests.prefix[0]) == [0, 1]  # whole blocks of 16 tokens


def test_a_conversation_is_a_sequence():
    blocks = Conversation(range(2), range(10, 14))
    assert list(blocks) == [0, 1, 10, 11, 12, 13] and len(blocks) == 6
    for cut in (slice(0, 1), slice(1, 4), slice(3, None), slice(None, 99), slice(5, 2)):
        assert blocks[cut] == tuple(list(blocks)[cut])


def test_a_seed_gives_the_same_requests_and_another_others():
    one, same, other = (drawn(rate=3.0, length_ratio=0.5, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(one.arrival_s, same.arrival_s)
    assert np.array_equal(one.input_tokens, same.input_tokens)
    assert not np.array_equal(one.arrival_s, other.arrival_s)


def test_lengths_stay_when_arrivals_change():
    slow, fast = (drawn(rate=rate, length_ratio=0.5) for rate in (1.0, 9.0))
    assert np.array_equal(slow.input_tokens, fast.input_tokens)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "no load is given"),
        ({"concurrency": 4, "rate": 2.0}, "not concurrency and rate"),
        ({"rate": -1.0}, "rate = -1: give a number above 0"),
        ({"rate": float("nan")}, "rate = nan"),
        ({"batch": 4}, "batch does not apply to simulate"),
        ({"concurrency": 1.5}, "concurrency = 1.5: give a whole number"),
        ({"concurrency": 4, "burstiness": 0.5}, "burstiness applies only to arrivals at a rate"),
        ({"rate": 1.0, "ramp_to": 4.0}, "needs both ramp_to and ramp_s"),
        ({"rate": 1.0, "ramp_to": 4.0, "ramp_s": 9.0, "burstiness": 2.0}, "a ramp has Poisson"),
        ({"concurrency": 4, "isl": 0}, "isl = 0"),
        ({"concurrency": 4, "osl": 10**9}, "osl = 1000000000: give a whole number"),
        ({"concurrency": 4, "length_ratio": 0.0}, "length_ratio = 0: give a number above 0"),
        ({"concurrency": 4, "length_ratio": 0.5, "length_spread": 1.0}, "in different ways"),
        ({"concurrency": 4, "think_s": 3.0}, "give turns above 1"),
        ({"concurrency": 4, "requests": 10**7}, "requests = 10000000"),
        ({"concurrency": 500_000}, "6,500,000 requests are more than"),
        ({"rate": 1.0, "lengths": "absent.csv"}, "absent.csv: no such file"),
        ({"trace": "t.csv", "turns": 2}, "sessions of its own: leave out turns"),
        ({"concurrency": 4, "seed": -1}, "seed = -1"),
    ],
)
def test_a_load_that_cannot_be_is_one_sentence(fields: dict[str, Any], words: str):
    with pytest.raises(InvalidValue, match=words):
        drawn(**fields)


def test_requests_may_be_given_as_they_are():
    given = Requests([0.0, 1.0], [10, 20], [3, 4])
    assert len(drawn(trace=given)) == 2 and len(drawn(trace=given, requests=1)) == 1
