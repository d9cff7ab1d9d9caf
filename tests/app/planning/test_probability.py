"""Probability of meeting targets: from the interval, monotone, and never above that of one
target.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.planning.answer import answer
from app.planning.candidates import joined
from app.planning.document import deployment_row, document
from app.planning.families import Family
from app.planning.plan_text import chance, sentences
from app.planning.probability import meets
from app.planning.search import search
from app.planning.targets import parse_targets
from hardware_db.intervals import Interval, probability_below
from tests.app.planning.asking import asked

factors = st.floats(1.001, 3.0)


@given(factors, factors)
def test_a_tenth_lies_beyond_either_end_of_an_interval(below, above):
    interval = Interval(1.0 / below, above, 100)
    low = probability_below(math.log(interval.low), interval)
    high = probability_below(math.log(interval.high), interval)
    assert low == pytest.approx(0.1, abs=1e-6)
    assert high == pytest.approx(0.9, abs=1e-6)


@given(factors, factors, st.floats(-2.0, 2.0), st.floats(0.0, 1.0))
def test_an_easier_target_is_as_likely_at_least(below, above, slack, easier):
    interval = Interval(1.0 / below, above, 100)
    assert probability_below(slack + easier, interval) >= probability_below(slack, interval)


@pytest.fixture(scope="module")
def found():
    given = {"system": "h200", "engine": "vllm", "devices": (1, 16), "pools": "aggregated"}
    return search(asked("Qwen/Qwen3-32B", rate=8.0, simulate=False, **given))


def chances(found, text):
    return meets(found.candidates, parse_targets(text), found.query.question)


def test_the_chances_of_a_candidate_ask_no_family_but_its_own(found, monkeypatch):
    asked_of, evidence = [], Family.evidence
    monkeypatch.setattr(
        Family, "evidence", lambda self, columns: asked_of.append(self) or evidence(self, columns)
    )
    twice = joined([found.candidates, found.candidates])
    last = np.array([len(twice) - 1])
    meets(twice.picked(last), (), found.query.question)
    assert [one is twice.of(last[0]) for one in asked_of] == [True]


def test_two_targets_are_no_likelier_than_either(found):
    both = chances(found, "ttft < 200ms, tpot < 30ms")
    stated = ~np.isnan(both)
    assert stated.any()
    for one in ("ttft < 200ms", "tpot < 30ms"):
        assert np.all(both[stated] <= chances(found, one)[stated] + 1e-12)
    assert np.all((both[stated] >= 0.0) & (both[stated] <= 1.0))


@pytest.mark.parametrize("pools", ["aggregated", "disaggregated"])
def test_a_kind_of_device_without_runs_has_no_validated_probability(pools):
    given = {"system": "cerebras-wse-3", "engine": "generic", "devices": (1, 2), "pools": pools}
    found = search(asked("Qwen/Qwen3-8B", rate=1.0, simulate=False, **given))
    assert found.candidates.families
    assert not any(family.validated for family in found.candidates.families)
    assert np.isnan(chances(found, "ttft < 2s")).all()


def test_degrees_that_nobody_measured_have_no_probability(found):
    loose, stages = chances(found, "ttft < 1000s, tpot < 100s"), found.candidates.columns["pp"]
    ran = found.candidates.status == "ok"
    assert np.all(np.isnan(loose[ran & (stages > 1)])) and (ran & (stages > 1)).any()
    assert not np.isnan(loose[ran & (stages == 1)]).any()
    at = int(np.flatnonzero(ran & (stages > 1))[0])
    row = deployment_row(found.candidates, at)
    assert row["ttft_low_s"] is None and row["tpot_high_s"] is None
    assert row["not_validated"] == "ttft_s tpot_s"
    assert row["beyond_measurements"] == ["pipeline parallelism"]


@pytest.mark.parametrize(
    ("probability", "said"),
    [(0.43, "43 %"), (0.95, "95 %"), (0.951, "> 95 %"), (0.99999, "> 95 %"), (None, None)],
)
def test_above_95_percent_a_probability_is_said_no_more_exactly(probability, said):
    plan = {"probability": probability, "probability_validated": True}
    assert chance(plan) == (said or "not validated")
    without_targets = chance({**plan, "margins": {}})
    assert without_targets == ("not validated" if probability is None else "–")


def test_what_cannot_run_meets_nothing_and_a_loose_target_is_sure_where_load_is_light(found):
    loose = chances(found, "ttft < 1000s, tpot < 100s")
    ran = found.candidates.status == "ok"
    assert np.all(loose[~ran] == 0.0)
    light = ran & (found.candidates.columns["utilisation"] < 0.3) & ~np.isnan(loose)
    assert np.all(loose[light] > 0.99)


def test_devices_are_certain(found):
    few = chances(found, "devices < 4")
    assert np.all(few[found.candidates.columns["devices"] > 4] == 0.0)


@pytest.mark.parametrize(("bandwidth", "told"), [(2.0, True), (1.0, False)])
def test_without_measurements_only_a_simulation_tells_percentiles(bandwidth, told):
    question = asked(
        "Qwen/Qwen3-32B", system="h100", engine="vllm", devices=(1, 2), concurrency=4,
        target="tpot_p99 < 500ms", bandwidth=bandwidth, pools="aggregated", simulate=False,
    )  # fmt: skip
    named = document(answer(question))
    assert bool(named["plans"]) != told
    assert (named["undecided"] == named["deployments"]) == told
    assert ("simulate them to find out" in "\n".join(sentences(named))) == told
    assert not told or not named["changes"]
