"""Cached setups: factors on the hardware, the rent, levers that are shares of time."""

from pathlib import Path

import pytest

from app.dashboard import caches
from app.question.question import Question
from app.scenario import operator_intervals
from app.scenario.levers import PHASES
from app.scenario.setup import Setup
from app.scenario.summary import parts_of, step_of
from hardware_db import user_files


def test_doubled_bandwidth_shortens_decode_and_halves_its_bound():
    plain, wide = caches.priced(Setup()), caches.priced(Setup(Question(bandwidth=2.0)))
    assert wide.bound_tpot_s[0] == pytest.approx(plain.bound_tpot_s[0] / 2)
    assert plain.tpot_s[0] / 2 < wide.tpot_s[0] < plain.tpot_s[0]


def test_a_rent_of_ones_own_takes_the_place_of_the_public_price():
    assert caches.resolved(Setup(Question(price=7.25))).system.price_usd_per_hour == 7.25


def test_other_sizes_and_degrees_look_no_name_up_again():
    plain = caches.resolved(Setup())
    other = Setup(Question(batch=7, isl=300, osl=9, tp=2, offload="kv", expert_imbalance=1.5))
    same = caches.resolved(other)
    assert (same.model, same.system, same.engine) == (plain.model, plain.system, plain.engine)
    assert same.model is plain.model and same.system is plain.system
    assert same.scenario == other.scenario and plain.scenario == Question()
    assert caches.resolved(Setup(Question(weights="fp8"))).model is not plain.model


def test_a_change_of_the_users_files_empties_every_cache(own_data: Path):
    caches.clear_stale_caches()
    before = caches.priced(Setup())
    caches.clear_stale_caches()
    assert caches.priced(Setup()) is before
    for name in ("Ours", "Theirs"):
        user_files.write_system({"include": "h100-sxm5-80gb", "id": name.lower(), "name": name})
        caches.clear_stale_caches()
        after = caches.priced(Setup())
        assert after is not before
        before = after


def test_the_largest_batch_fits_and_the_next_does_not():
    batch, _ = caches.largest(Setup())
    assert caches.priced(Setup(Question(batch=batch))).memory.fits[0]
    assert not caches.priced(Setup(Question(batch=batch + 1))).memory.fits[0]


def test_levers_are_shares_of_time_and_the_best_comes_first():
    levers = caches.levers(Setup())
    assert list(levers) == list(PHASES)
    for changes in levers.values():
        saved = [share for _, share in changes]
        assert len(saved) == 5 and saved == sorted(saved, reverse=True)
        assert 0 < saved[0] < 1 and saved[-1] > -0.01


def test_more_bandwidth_is_what_helps_decode_of_one_request_most():
    assert caches.levers(Setup())["decode"][0][0] == "twice the memory bandwidth"


def test_parts_and_classes_of_a_step_sum_to_its_latency():
    setup = Setup(Question(model="meta-llama/Llama-3.1-70B", tp=4, pp=2, batch=8))
    estimate = caches.priced(setup)
    for phase in PHASES:
        step = step_of(estimate, phase)
        assert sum(parts_of(step).values()) == pytest.approx(float(step.total_s[0]))
        classes = operator_intervals.by_class(step).values()
        assert sum(latency.value for latency in classes) == pytest.approx(float(step.total_s[0]))
