"""Replicas that follow a load, and how many are enough: figures, sentences, refusals."""

from __future__ import annotations

import json
import math
from functools import cache

import numpy as np
import pytest

from app.question.extras import EXTRAS, extras_of, read_extras
from app.question.query import ask
from app.scaling import availability as enough
from app.scaling import losses
from app.scaling.capacity import busiest_rate, with_targets
from app.scaling.fleet_run import mean_between
from app.scaling.scale import scale, sentences
from app.scenario import results
from app.simulation.run import targets_of
from genz_core.common.progress import Cancelled
from genz_core.errors import InvalidValue
from genz_core.serving.simulation.replica_set import ReplicaSetCourse
from hardware_db import startup
from tests import draws

MODEL = "meta-llama/Llama-3.1-8B"
#: Long answers, so that one replica serves less than a request a second within the targets.
LOAD = {
    "model": MODEL, "system": "h100", "engine": "vllm", "isl": 60_000, "osl": 500,
    "ttft_target_s": 9.0, "tpot_target_s": 0.025,
}  # fmt: skip
BUSY = (0.0,) * 20 + (0.2, 1.0, 1.0, 0.1)


def extras(verb: str, **given):
    return read_extras(extras_of(verb), given)[0]


@cache
def followed(**more):
    given = {**LOAD, "rate": 0.25, "day": BUSY, "seed": 3}
    return scale(ask("scale", given), **extras("scale", mtbf_h=0, **more))


def test_replicas_follow_the_load_at_less_cost_and_longer_tails():
    found = followed()
    here, fixed = found.following.figures(), found.fixed.figures()
    assert here["starts"] > 0 and here["most_replicas"] > 1
    assert here["replica_hours"] < 0.5 * fixed["replica_hours"]
    assert here["usd"] == pytest.approx(
        fixed["usd"] * here["replica_hours"] / fixed["replica_hours"]
    )
    assert here["ttft_p99_s"] > fixed["ttft_p99_s"]
    assert fixed["replica_hours"] == pytest.approx(24.0 * found.fixed.plan.initial, rel=0.01)


def test_the_document_is_json_and_its_windows_are_the_hours():
    named = json.loads(json.dumps(followed().to_dict()))
    assert [row["start_s"] for row in named["windows"]] == [3600.0 * at for at in range(24)]
    served = [row["requests_per_s"] for row in named["windows"]]
    assert served[1:19] == [0.0] * 18 and max(served) == pytest.approx(0.22, rel=0.15)
    hours = sum(row["replicas"] for row in named["windows"])
    assert hours == pytest.approx(named["following"]["replica_hours"], rel=0.01)
    assert named["suffering"] and all(row["times"] > 1.1 for row in named["suffering"])
    assert named["startup_s"] == pytest.approx(sum(part["seconds"] for part in named["startup"]))
    assert any("against" in sentence for sentence in named["sentences"])


def test_a_longer_start_makes_the_tail_longer():
    slow = followed(startup_s=600.0)
    assert slow.start.seconds == 600.0
    assert slow.following.good_share < followed().following.good_share


@pytest.mark.slow
def test_keda_goes_to_zero_in_the_night():
    found = followed(policy="keda", min_replicas=0)
    night = found.to_dict()["windows"][2]
    assert night["replicas"] == 0.0
    assert (
        found.following.figures()["replica_hours"] < followed().following.figures()["replica_hours"]
    )
    assert found.following.course.held > 0


@pytest.mark.slow
@pytest.mark.parametrize("predictor", ["constant", "kalman"])
def test_the_planner_sizes_by_the_rate_of_a_replica(predictor: str):
    found = followed(policy="dynamo", predictor=predictor)
    rate = found.following.deployed.capacity.mean.requests_per_s
    assert found.following.course.wanted.max() >= math.floor(0.22 / rate)


def test_losses_are_counted_and_their_requests_go_on():
    given = {**LOAD, "rate": 0.25, "requests": 300, "seed": 1}
    found = scale(ask("scale", given), **extras("scale", mtbf_h=0.2))
    assert found.following.figures()["losses"] > 0
    assert found.following.simulation.ended.all()
    assert "losses" in " ".join(sentences(found))


def test_a_fixed_number_that_was_given_is_the_other_way():
    given = {**LOAD, "rate": 1.0, "requests": 300, "replicas": 5}
    assert scale(ask("scale", given), **extras("scale")).fixed.plan.initial == 5


def test_progress_is_told_and_a_run_can_be_ended():
    told, pieces = [], []
    given = ask("scale", {**LOAD, "rate": 0.25, "requests": 1100})

    def progress(share: float, what: str) -> None:
        told.append(share)
        pieces.append(what.partition(": ")[0])

    scale(given, progress, **extras("scale"))
    assert told == sorted(told) and told[-1] > 0.5
    assert list(dict.fromkeys(pieces)) == ["autoscaled", "fixed replicas"]  # each counts from 0
    with pytest.raises(Cancelled):
        scale(given, cancelled=lambda: True, **extras("scale"))


REFUSED = {
    "min_replicas": ({"min_replicas": 5, "max_replicas": 2}, "min_replicas = 5 is more than"),
    "zero": ({"min_replicas": 0}, "Kubernetes HPA needs at least one; choose keda"),
    "metric": ({"metric": "kv_use"}, "give its metric_target"),
    "cooldown": ({"cooldown_s": 10}, "cooldown_s does not apply to Kubernetes HPA"),
    "tolerance": ({"policy": "dynamo", "tolerance": 5}, "tolerance does not apply to Dynamo"),
    "predictor": ({"predictor": "kalman"}, "choose dynamo"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_autoscaler_settings_are_refused_in_a_sentence(name: str):
    more, words = REFUSED[name]
    with pytest.raises(InvalidValue, match=words):
        scale(ask("scale", {**LOAD, "rate": 1.0, "requests": 10}), **extras("scale", **more))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"policy": "arima"}, "choose hpa, keda, dynamo"),
        ({"weights_from": "tape"}, "choose disk"),
        ({"startup_s": -1}, "startup_s"),
        ({"max_replicas": 0}, "max_replicas"),
    ],
)
def test_extras_that_cannot_be_are_refused(given, words: str):
    with pytest.raises(InvalidValue, match=words):
        extras("scale", **given)


def test_a_target_on_a_latency_limits_each_request_and_is_judged_on_the_whole_load():
    load = {name: value for name, value in LOAD.items() if name != "tpot_target_s"}
    target = ("tpot_p99 < 25ms", "ttft < 3600s", "usd_per_mtok < 1e9", "joules_per_token < 1")
    given = {**load, "rate": 0.25, "day": BUSY, "seed": 3}
    found = scale(ask("scale", {**given, "target": target}), **extras("scale", mtbf_h=0))
    limited, said = followed(), sentences(found)
    assert found.following.deployed.targets == {"ttft_s": 9.0, "tpot_s": 0.025}
    assert found.rows == limited.rows
    tail = found.following.figures()["tpot_p99_s"]
    verdict = "meets" if tail <= 0.025 else "misses"
    assert any(one.startswith("Kubernetes") and f"{verdict} its target (< 25.0 ms)" in one
               for one in said)  # fmt: skip
    assert sum("Mean TTFT is" in one for one in said) == 2
    assert sum("$ per Mtok out is" in one for one in said) == 2
    assert sum("the target joules_per_token < 1 J is not judged here" in one for one in said) == 1


def test_without_targets_the_planner_of_dynamo_gives_the_limits_of_each_request():
    question = ask("scale", {"model": MODEL, "rate": 1.0, "target": "usd_per_mtok < 1"}).question
    assert targets_of(with_targets(question)) == {"ttft_s": 0.5, "tpot_s": 0.05}
    stated = ask("scale", {"model": MODEL, "rate": 1.0, "target": "ttft < 1s"}).question
    assert targets_of(with_targets(stated)) == {"ttft_s": 1.0}


def test_targets_that_one_request_misses_are_refused_with_what_to_do():
    given = {**LOAD, "rate": 1.0, "requests": 10, "tpot_target_s": 1e-4}
    with pytest.raises(InvalidValue, match=r"one request alone .* looser targets"):
        scale(ask("scale", given), **extras("scale"))


@pytest.mark.parametrize("name", ["concurrency", "ramp_to", "prefill_workers", "batch"])
def test_loads_and_pools_that_mean_nothing_are_refused_by_name(name: str):
    with pytest.raises(InvalidValue, match=name):
        ask("scale", {**LOAD, "rate": 1.0, name: 2})


# ------------------------------------------------------------------------------- availability


@cache
def available(**more):
    given = {**LOAD, "rate": 0.25, "requests": 200}
    return enough.availability(ask("availability", given), **extras("availability", **more))


def test_the_fewest_replicas_keep_the_share_and_one_fewer_does_not():
    found = available(share=99.0)
    assert found.tried.share(found.bare) >= 0.99 > found.tried.share(found.bare - 1)
    assert found.to_dict()["replicas_with_lost"] == found.bare + 1
    assert found.average >= found.bare


def test_more_losses_need_more_replicas_and_never_fewer():
    rare, often = available(share=99.0, mtbf_h=50_000), available(share=99.0, mtbf_h=2)
    assert often.gone > rare.gone
    assert (often.average or math.inf) > rare.average
    assert available(share=99.0, mtbf_h=0).average == rare.bare


def test_losses_so_frequent_that_no_number_is_enough_are_told():
    found = available(share=99.9, mtbf_h=0.1)
    assert found.average is None and "no number is enough" in repr(found)
    assert json.loads(json.dumps(found.to_dict()))["replicas_on_average"] is None


def test_too_few_replicas_for_the_losses_are_told():
    bare = available(share=99.0).bare
    found = available(share=99.0, mtbf_h=2, max_replicas=bare)
    assert found.average is None
    assert f"{bare} replicas are not enough, because each is gone 5.0" in repr(found)


def test_too_few_replicas_are_refused_with_what_they_reach():
    with pytest.raises(InvalidValue, match="raise max_replicas"):
        available(share=99.0, max_replicas=1)


@pytest.mark.draws
def test_chances_are_binomial_and_the_expected_share_is_their_mean():
    chance = np.random.default_rng(draws.seed(5))
    for _ in range(draws.cases(50)):
        replicas, gone = int(chance.integers(1, 9)), float(chance.uniform(0.0, 0.4))
        up = chance.random((20_000, replicas)) >= gone
        counts = np.bincount(up.sum(axis=1), minlength=replicas + 1)[::-1] / 20_000
        assert enough.chances(replicas, gone) == pytest.approx(counts, abs=0.02)
        assert sum(enough.chances(replicas, gone)) == pytest.approx(1.0)
    assert sum(enough.chances(10_000, 0.01)) == pytest.approx(1.0)


@pytest.mark.draws
def test_more_replicas_and_rarer_losses_never_lower_the_expected_share():
    """Of shares that rise with the replicas that serve, as the simulator's do."""

    class Known:
        def __init__(self, shares):
            self.shares = shares

        def share(self, replicas: int) -> float:
            return float(self.shares[replicas])

        def run(self, replicas: int):
            raise AssertionError("no losses cut requests off here")

    chance = np.random.default_rng(draws.seed(6))
    for _ in range(draws.cases(50)):
        known = Known(np.concatenate([[0.0], np.sort(chance.random(12))]))
        gone, rarer = np.sort(chance.uniform(0.0, 0.5, 2))[::-1]
        shares = [enough.expected(known, n, gone, math.inf) for n in range(1, 12)]
        assert np.all(np.diff(shares) >= -1e-8)
        for n in (2, 7):
            rare = enough.expected(known, n, rarer, math.inf)
            assert rare >= enough.expected(known, n, gone, math.inf) - 1e-8


# ------------------------------------------------------------------------------- parts


def test_losses_of_more_places_are_those_of_fewer_and_their_own():
    few, more = losses.drawn(100.0, 2, 1000.0, 7), losses.drawn(100.0, 4, 1000.0, 7)
    assert [one for one in more if one[1] < 2] == few
    assert len(more) == pytest.approx(40, abs=20) and more == sorted(more)
    assert losses.drawn(math.inf, 4, 1000.0, 7) == []


def test_a_replica_of_more_devices_is_lost_as_often_as_any_of_them():
    question = ask("availability", {**LOAD, "rate": 1.0, "tp": 4}).question
    published = startup.of_loss("device_mtbf_s").value
    assert published / 3600.0 == pytest.approx(16_384 * 54 * 24 / 419, rel=1e-3)
    assert losses.mtbf_s(question, None) == pytest.approx(published / 4.0)
    assert losses.mtbf_s(question, 1000.0) == pytest.approx(900_000.0)
    assert losses.mtbf_s(question, 0.0) == math.inf


def test_every_store_and_default_of_the_declaration_is_in_the_table():
    declared = {one.name: one for one in EXTRAS["scale"]}
    assert declared["weights_from"].choices == startup.stores()
    noticed = startup.of_loss("notice_s").value + startup.of_loss("evict_s").value
    assert declared["replace_s"].default == noticed


def test_the_capacity_of_a_replica_meets_the_targets_by_the_closed_form():
    found = followed().following.deployed
    open_ = found.capacity.mean.open
    given = {name: value for name, value in LOAD.items() if "target" not in name}
    one, next_ = (
        results.serve(ask("serve", {**given, "concurrency": users})) for users in (open_, 2 * open_)
    )
    assert one.ttft_s <= 9.0 and one.tpot_s <= 0.025
    assert next_.ttft_s > 9.0 or next_.tpot_s > 0.025


def test_the_busiest_hour_is_that_with_the_most_requests():
    assert busiest_rate(np.array([0.0, 10.0, 20.0])) == pytest.approx(3 / 20.0)
    hours = np.concatenate([np.linspace(0, 3599, 36), np.linspace(3601, 7199, 360)])
    assert busiest_rate(hours) == pytest.approx(0.1)


def test_the_mean_of_replicas_between_two_times_weighs_each_number_by_its_time():
    none = np.zeros(0)
    course = ReplicaSetCourse(
        np.array([0.0, 10.0, 30.0]), none, none, np.array([2.0, 4.0, 0.0]), 0.0, 0, 0, 0, 0
    )
    assert mean_between(course, course.there, 0.0, 40.0) == pytest.approx((20 + 80 + 0) / 40)
    assert mean_between(course, course.there, 5.0, 15.0) == pytest.approx(3.0)
