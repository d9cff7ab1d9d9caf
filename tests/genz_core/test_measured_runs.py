"""Measured runs correct near predictions, have less effect far away, and outliers have less
weight.
"""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genz_core.engine import EngineProfile
from genz_core.measured_runs import NEAR, SHARED, SIZES, Kernel, MeasuredRuns, RunFacts
from genz_core.steps.step_correction import taught

HERE = RunFacts("fp8", "h100-sxm5-80gb", "hopper", "0.9.0")
ELSEWHERE = RunFacts("bf16", "a100-sxm4-80gb", "ampere", "0.8.0")
KERNEL = Kernel(
    dict.fromkeys(SHARED, 0.1), dict.fromkeys(NEAR, 0.1), (1.0,) * len(SIZES), noise=0.02
)
BESIDE = {"isl": 1024, "osl": 1024, "concurrency": 64, "tp": 2, "pp": 1, "dp": 1, "ep": 1}


def sizes(*changes: dict[str, float]) -> np.ndarray:
    return np.array([[({**BESIDE, **change})[name] for name in SIZES] for change in changes])


def runs(logs: list[float], at: np.ndarray, facts: list[RunFacts] | None = None) -> MeasuredRuns:
    return MeasuredRuns(
        names=tuple(f"run {number}" for number in range(len(logs))),
        facts=tuple(facts or [HERE] * len(logs)),
        sizes=np.log(at),
        latents={"steps": np.array(logs)},
        kernels={"steps": KERNEL},
    )


#: Variance of a load whose only uncertainty is noise, and of an unknown load.
LEAST, MOST = KERNEL.noise**2, KERNEL.variance + KERNEL.noise**2
LADDER = sizes(*({"concurrency": users} for users in (4, 16, 64, 256)))


def test_a_run_that_was_measured_is_predicted_as_it_was_within_its_noise():
    known = runs([0.1, 0.15, 0.2, 0.25], LADDER)
    found = known.correction("steps", HERE, LADDER)
    assert found.log == pytest.approx([0.1, 0.15, 0.2, 0.25], abs=0.02)
    assert np.all(found.variance < 4 * LEAST)


def test_what_was_solved_does_not_travel_with_the_runs():
    known = runs([0.1, 0.15, 0.2, 0.25], LADDER)
    fresh = pickle.dumps(known)
    found = known.correction("steps", HERE, LADDER)
    assert pickle.dumps(known) == fresh
    again = pickle.loads(fresh).correction("steps", HERE, LADDER)
    assert np.array_equal(again.log, found.log)
    assert np.array_equal(again.variance, found.variance)


def test_between_two_runs_lies_what_they_say():
    known = runs([0.1, 0.2], LADDER[1:3])
    (middle,) = known.correction("steps", HERE, sizes({"concurrency": 32})).log
    assert 0.1 < middle < 0.2


def test_what_shares_less_is_corrected_less_and_is_less_certain():
    known = runs([0.2, 0.2, 0.2, 0.2], LADDER)
    kinds = (
        HERE,
        RunFacts("fp8", "h100-sxm5-80gb", "hopper", "0.9.1"),
        RunFacts("fp8", "h200-sxm-141gb", "hopper"),
        RunFacts("bf16", "b200-sxm-180gb", "blackwell"),
    )
    found = [known.correction("steps", kind, LADDER[2:3]) for kind in kinds]
    logs, spread = ([float(getattr(f, name)[0]) for f in found] for name in ("log", "variance"))
    assert logs == sorted(logs, reverse=True) and logs[-1] > 0
    assert spread == sorted(spread)


def test_at_ten_times_the_longest_measured_prompt_nine_tenths_are_gone():
    ladder = sizes(*({"isl": 4.0**power} for power in range(1, 5)))
    known = runs([0.2, 0.2, 0.2, 0.2], ladder)
    beyond = sizes(*({"isl": 256 * times} for times in (1, 2, 5, 10, 100)))
    found = known.correction("steps", HERE, beyond)
    shares = found.log / found.log[0]
    assert np.all(np.diff(shares) < 0) and np.all(np.diff(found.variance) > 0)
    assert shares[1] > 0.7 and shares[3] < 0.1 and shares[4] < 1e-4
    assert found.variance[4] == pytest.approx(MOST)


@pytest.mark.parametrize("size", ["concurrency", "osl"])
def test_beyond_the_users_and_answers_of_all_runs_a_correction_stays_and_becomes_unsure(size):
    """A correction that decayed with users would slow the steps of more users, and throughput would
    fall; the first token of a single user is the same for every answer length.
    """
    ladder = sizes(*({size: 4.0**power} for power in range(1, 5)))
    lengths = tuple(np.inf if name == size else 1.0 for name in SIZES)
    known = runs([0.2, 0.2, 0.2, 0.2], ladder)
    known = replace(known, kernels={"steps": replace(KERNEL, lengths=lengths)})
    beyond = sizes(*({size: 256 * times} for times in (1, 2, 5, 10, 100)))
    found = known.correction("steps", HERE, beyond)
    np.testing.assert_allclose(found.log, found.log[0])
    assert np.all(np.diff(found.variance) > 0)
    assert found.variance[4] == pytest.approx(MOST, rel=1e-3)


def test_drafts_that_no_run_has_count_as_none():
    known = runs([0.2], LADDER[:1])
    drafting = replace(HERE, drafts="3")
    plain, drafted = (known.correction("steps", f, LADDER[:1]).log for f in (HERE, drafting))
    assert drafted == pytest.approx(plain)


def test_an_unknown_version_is_like_no_other_not_like_another_unknown_one():
    unknown = RunFacts("fp8", "h100-sxm5-80gb", "hopper")
    known = runs([0.2], LADDER[:1], [unknown])
    same = known.correction("steps", unknown, LADDER[:1]).log
    versioned = runs([0.2], LADDER[:1]).correction("steps", HERE, LADDER[:1]).log
    assert same[0] < versioned[0]


def test_a_run_that_contradicts_its_neighbours_weighs_little():
    logs = [-0.1] * 5 + [0.25] + [-0.1] * 4
    users = sizes(*({"concurrency": 8 * number} for number in range(1, 11)))
    known = runs(logs, users)
    weights = known.weights("steps")
    assert weights[5] < 0.5 * np.delete(weights, 5).min()
    (found,) = known.correction("steps", HERE, sizes({"concurrency": 60})).log
    assert found == pytest.approx(-0.1, abs=0.05)


def test_a_run_far_from_physics_among_others_teaches_nothing():
    """The file may name something other than what ran."""
    users = sizes(*({"concurrency": 8 * number} for number in range(1, 5)))
    with_it = runs([0.1, 0.1, 0.1, 0.6], users).correction("steps", HERE, LADDER[:1])
    without = runs([0.1, 0.1, 0.1], users[:3]).correction("steps", HERE, LADDER[:1])
    assert with_it.log == pytest.approx(without.log) and with_it.weights[0, 3] == 0


def test_runs_far_from_physics_teach_their_own_recipe_and_release_alone():
    newer = replace(HERE, version="0.9.1")
    known = runs([0.6, 0.62, 0.64, 0.66], LADDER)
    (own,) = known.correction("steps", HERE, LADDER[1:2]).log
    (other,) = known.correction("steps", newer, LADDER[1:2]).log
    assert own == pytest.approx(0.62, abs=0.03) and other < 0.3 * own
    near = runs([0.2, 0.2, 0.2, 0.2], LADDER)
    assert near.correction("steps", newer, LADDER[1:2]).log[0] > 0.6 * 0.2


def test_runs_that_do_not_teach_something_say_nothing_of_it():
    known = runs([0.2, np.nan], LADDER[:2])
    alone = runs([0.2], LADDER[:1])
    at = LADDER[:1]
    both, one = (r.correction("steps", HERE, at) for r in (known, alone))
    assert both.log == pytest.approx(one.log) and both.variance == pytest.approx(one.variance)
    assert both.weights[0, 1] == 0


@given(
    st.lists(st.floats(-0.6, 0.6), min_size=1, max_size=8),
    st.lists(st.floats(1, 1e6), min_size=3, max_size=3),
)
def test_laws_of_a_correction(logs: list[float], at: list[float]):
    users = sizes(*({"concurrency": 2.0**number} for number in range(len(logs))))
    known = runs(logs, users, [HERE, ELSEWHERE][: len(logs)] + [HERE] * max(len(logs) - 2, 0))
    places = sizes(*({"isl": size} for size in at))
    found = known.correction("steps", HERE, places)
    most = known.variance("steps", HERE) * (1.0 + 1e-12)
    assert np.all((found.variance >= LEAST) & (found.variance <= most))
    assert found.log == pytest.approx(found.weights @ np.array(logs), abs=1e-12)
    alone = [known.correction("steps", HERE, places[n : n + 1]).log[0] for n in range(3)]
    assert found.log == pytest.approx(alone, abs=1e-12)


def test_many_configurations_are_corrected_as_one_by_one():
    known = runs([0.2, 0.3], LADDER[:2])
    places = sizes(*({"isl": float(size)} for size in range(1, 5001)))
    found = known.correction("steps", HERE, places)
    assert found.log.shape == (5000,) and found.weights.shape == (5000, 2)
    assert found.log[4500] == pytest.approx(
        known.correction("steps", HERE, places[4500:4501]).log[0]
    )


def test_equal_configurations_are_corrected_alike_to_the_last_bit():
    users = sizes(*({"concurrency": float(number)} for number in range(1, 130)))
    known = runs(np.random.default_rng(0).normal(0.1, 0.1, 129).tolist(), users)
    for count in (2, 3, 7, 64):
        found = known.expected("steps", HERE, np.repeat(LADDER[1:2], count, axis=0))
        assert np.all(found == found[0])


def test_a_price_and_its_evidence_expect_the_same():
    known = runs([0.2, 0.3, 0.1], LADDER[:3])
    found = known.correction("steps", HERE, LADDER).log
    assert known.expected("steps", HERE, LADDER) == pytest.approx(found, abs=1e-12)


def test_picked_runs_are_those_alone():
    known = runs([0.2, 0.3, 0.4], LADDER[:3])
    picked = known.picked(np.array([True, False, True]))
    assert picked.names == ("run 0", "run 2") and picked.latents["steps"].tolist() == [0.2, 0.4]
    assert known.count(HERE) == 3 and known.count(ELSEWHERE) == 0


def test_the_wait_of_a_cached_prompt_alone_is_expected_twice(model, system, monkeypatch):
    """Of the whole prompt and of what is left to read; without cached tokens these are one."""
    asked = []
    zero = lambda self, latent, facts, at: asked.append(latent) or np.zeros(len(at))  # noqa: E731
    monkeypatch.setattr(MeasuredRuns, "expected", zero)
    engine = EngineProfile(neighbours=runs([0.1, 0.15, 0.2, 0.25], LADDER))
    taught(engine, model, system, LADDER, LADDER[:, 0])
    assert sorted(asked) == ["steps", "wait"]
    asked.clear()
    taught(engine, model, system, LADDER, LADDER[:, 0] / 2.0)
    assert sorted(asked) == ["steps", "wait", "wait"]
