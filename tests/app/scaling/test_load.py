"""The load of a day: of a rate, and of a trace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.question.hours import DAY
from app.question.question import Question
from app.scaling.load import DAY_S, MOST_UNASKED, clock, requests_of, within_reason
from app.simulation.trace_file import Trace
from genz_core.errors import InvalidValue
from genz_core.serving.simulation import Requests

RATE = Question(model="meta-llama/Llama-3.1-8B", rate=0.5)


def per_hour(requests: Requests) -> np.ndarray:
    return np.bincount((requests.arrival_s // 3600).astype(int), minlength=24)


def test_a_day_has_the_requests_of_its_shares_and_the_busiest_hours_have_the_most():
    requests = requests_of(RATE, {}, by_day=True).requests
    assert len(requests) == round(0.5 * sum(DAY) * 3600)
    found = per_hour(requests) / 1800.0
    assert found == pytest.approx(DAY, abs=0.06)
    assert np.all(np.diff(requests.arrival_s) >= 0) and requests.arrival_s[-1] <= DAY_S


def test_a_day_of_its_own_and_a_steady_rate():
    night = (1.0,) * 6 + (0.0,) * 18
    requests = requests_of(replace(RATE, day=night), {}, by_day=True).requests
    assert np.all((requests.arrival_s < 6.6 * 3600) | (requests.arrival_s > 23.4 * 3600))
    steady = requests_of(replace(RATE, requests=500), {}, by_day=False).requests
    assert len(steady) == 500 and steady.arrival_s[-1] == pytest.approx(1000.0, rel=0.15)


def traced(requests: Requests, **more) -> Requests:
    question = Question(model="x", trace="a trace", **more)
    return requests_of(question, {"trace": Trace(requests, "a trace")}, by_day=True).requests


HOUR = Requests(np.arange(1000) * 3.6, np.arange(1000) + 1, np.full(1000, 5))


def test_a_trace_is_served_as_it_is_and_a_day_of_it_is_repeated():
    assert len(traced(HOUR)) == 1000
    day = traced(HOUR, day=(1.0,) * 24)
    assert len(day) == 24_000 and day.arrival_s[-1] < DAY_S
    assert np.all(day.input_tokens[:1000] == HOUR.input_tokens)
    assert np.all(np.diff(day.arrival_s) >= 0)


def test_an_hour_of_a_day_keeps_its_share_of_the_trace():
    shares = (1.0, 0.5, 0.0, *(0.25,) * 21)
    found = per_hour(traced(HOUR, day=shares))
    assert found[0] == 1000 and found[2] == 0
    assert found[1] == pytest.approx(500, abs=80)


def test_sessions_and_blocks_of_a_trace_stay_together_and_copies_share_none():
    sessions = Requests(
        np.array([0.0, 5.0, 1800.0, 5.0]), np.array([10, 20, 30, 40]), np.full(4, 5),
        after=np.array([-1, 0, -1, 2]), prefix=[(1,), (1, 2), (7,), (7, 8)],
    )  # fmt: skip
    day = traced(sessions, day=(0.6,) * 23 + (1.0,))
    first, later = day.after < 0, day.after >= 0
    assert first.sum() == later.sum() > 4
    for row in np.flatnonzero(later):
        before = day.after[row]
        assert day.prefix[row][0] == day.prefix[before][0]
        assert day.input_tokens[row] == day.input_tokens[before] + 10
    starts = [day.prefix[row][0] for row in np.flatnonzero(first)]
    assert len(set(starts)) == len(starts)


def test_what_cannot_be_a_day_is_refused():
    at_once = Requests(np.zeros(3), np.ones(3), np.ones(3))
    with pytest.raises(InvalidValue, match="arrive at once"):
        traced(at_once, day=(1.0,) * 24)
    short = Requests(np.array([0.0, 1e-3]), np.ones(2), np.ones(2))
    with pytest.raises(InvalidValue, match="limit them with requests"):
        traced(short, day=(1.0,) * 24)
    with pytest.raises(InvalidValue, match="24 numbers"):
        traced(HOUR, day=(1.0,) * 23)


def test_a_day_of_too_many_requests_is_cut_unless_it_is_asked_for():
    busy = replace(RATE, rate=20.0)
    cut, note = within_reason(busy)
    assert cut.requests == MOST_UNASKED and "1,104,480 requests" in note and "7:00" in note
    assert tuple(map(float, cut.day)) == DAY[7:] + DAY[:7]
    arrival_s = requests_of(cut, {}, by_day=True).requests.arrival_s
    assert len(arrival_s) == MOST_UNASKED
    early, late = np.histogram(arrival_s, bins=[0.0, 3600.0, 7200.0])[0]
    assert late > 1.2 * early  # the load rises
    for asked in (RATE, replace(busy, day=DAY), replace(busy, requests=500_000)):
        assert within_reason(asked) == (asked, "")


def test_a_time_of_the_day_is_written_as_a_clock_shows_it():
    assert [clock(at) for at in (0.0, 28_800.0, 99.6)] == ["0:00:00", "8:00:00", "0:01:40"]
