"""The search against the simulator: few runs, a justified end, and what it learns."""

from __future__ import annotations

import math

import numpy as np
import pytest

from app.question.query import ask
from app.tuning.answer import answer
from app.tuning.loop import tune
from app.tuning.next_setting import choose
from app.tuning.outcome import Outcome
from app.tuning.settings_model import beliefs, noise, starts
from app.tuning.space import space, words
from app.tuning.study import Study
from genz_core.common.progress import never, silent
from genz_core.errors import InvalidValue
from tests.app.tuning.spaces import draws
from tests.draws import cases, seed

GIVEN = {
    "model": "meta-llama/Llama-3.1-8B", "system": "h100", "engine": "vllm", "concurrency": 32,
    "burst_start": True, "requests": 64, "osl": 64, "max_num_seqs": "4,8,16,32",
    "max_num_batched_tokens": "512,2048", "kv": "checkpoint,fp8",
}  # fmt: skip


def asked(**changes):
    return ask("tune", {**GIVEN, **changes})


def thirds(found) -> bool:
    needed = np.median([one.needed() for one in found])
    return bool(needed <= np.median([one.blind for one in found]) / 3.0)


@pytest.mark.slow
@pytest.mark.draws
def test_a_search_needs_a_third_of_the_runs_of_a_blind_one():
    assert thirds(draws(cases(1), seed(0)))


@pytest.mark.slow
@pytest.mark.draws
def test_a_search_needs_a_third_of_the_runs_of_a_blind_one_over_twenty_spaces():
    found = draws(cases(20), seed(0))
    assert thirds(found)
    ends = [one for one in found if one.needed() <= len(one.search().records)]
    assert len(ends) >= 0.8 * len(found), "a search that stops has found it"


@pytest.mark.parametrize(("load", "tokens"), [({}, 64), ({"samples": 4}, 256),
                                              ({"length_ratio": 0.5}, 48)])  # fmt: skip
def test_a_rate_of_requests_is_that_of_tokens_over_those_that_a_request_wants(load, tokens):
    goals = ("output_tokens_per_s", "requests_per_s")
    written, answered = (space(asked(**load), goal).expected[goal].log for goal in goals)
    assert np.exp(written - answered) == pytest.approx(tokens)


def test_a_run_corrects_all_settings_and_its_neighbours_most():
    found = space(asked(), "output_tokens_per_s")
    before = beliefs(found, ())["output_tokens_per_s"]
    slow = Outcome("measured", {"output_tokens_per_s": 0.85 * math.exp(before.log[0])})
    after = beliefs(found, [(0, slow)])["output_tokens_per_s"]
    change = after.log - before.log
    assert np.all(change < -0.02), "one machine is slower at every setting"
    assert change[0] == pytest.approx(math.log(0.85), abs=0.05)
    assert np.all(after.deviation < before.deviation)
    assert after.deviation[0] < 0.05, "hardly more than that of a repeated run"
    far = int(np.argmax(np.linalg.norm(found.features - found.features[0], axis=1)))
    assert after.deviation[far] > after.deviation[0]


def test_a_failed_start_is_told_of_its_neighbours_and_not_run_again():
    found = space(asked(), "output_tokens_per_s")
    first = choose(found, (), 0.05, 0.8).proposal
    failed = [(first.at, Outcome("failed", why="out of memory"))]
    likely = starts(found, failed)
    distance = np.linalg.norm(found.features - found.features[first.at], axis=1)
    assert np.argmin(likely) == first.at
    assert likely[np.argmax(distance)] > likely[np.argsort(distance)[1]]
    following = choose(found, failed, 0.05, 0.8).proposal
    assert following.at != first.at


def test_a_search_ends_where_the_interval_says_that_nothing_is_better_and_says_so():
    question = asked()
    done = answer(question, runs=16, dry_run=True)
    assert "better than run" in done.stop and done.choice.reach <= 0.05 + 1e-9
    loose = answer(question, runs=16, within=50.0, dry_run=True)
    assert len(loose.records) <= len(done.records)
    spent = answer(question, runs=1, within=0.0, level=99.0, dry_run=True)
    assert len(spent.records) == 1 and "budget of 1" in spent.stop


def test_targets_are_met_by_the_best():
    done = answer(asked(target="tpot < 10ms"), dry_run=True)
    assert done.best.outcome.figures["tpot"] <= 0.010
    none = answer(asked(target="tpot < 100us"), dry_run=True)
    assert none.best is None and "meet the targets" in none.stop


def test_less_is_better_of_a_latency():
    done = answer(asked(), goal="tpot", dry_run=True)
    figures = [one.outcome.figures["tpot"] for one in done.records]
    assert done.best.outcome.figures["tpot"] == min(figures)


def test_a_search_that_is_cancelled_keeps_what_it_has_run():
    found = space(asked(), "output_tokens_per_s")
    study = Study()

    def runner(setting, folder, progress, cancelled):
        return Outcome("measured", {"output_tokens_per_s": 100.0})

    done = tune(found, runner, study, 10, cancelled=lambda: len(study.records) == 1)
    assert done.stop == "cancelled" and len(done.records) == 1


@pytest.mark.parametrize(
    ("changes", "more", "said"),
    [
        ({"max_num_seqs": 8, "max_num_batched_tokens": 512, "kv": "fp8"}, {}, "nothing to tune"),
        ({}, {"goal": "usd_per_mtok"}, "not a figure that a benchmark client measures"),
        ({}, {"goal": "speed"}, "no figure 'speed'"),
        ({"target": "usd_per_hour < 3"}, {}, "not a figure that a benchmark client measures"),
        ({"model": "meta-llama/Llama-3.3-70B-Instruct"}, {}, "none of the 16 settings can run"),
        ({}, {"measured": [{"setting": {"max_num_seqs": 5}, "figures": {}}]}, "has no output"),
        (
            {},
            {"measured": [{"setting": {"max_num_seqs": 5}, "status": "failed"}]},
            "not a setting of",
        ),
        ({}, {"measured": [{"figures": {"ttft": 1}}]}, "a measured run is"),
    ],
)
def test_what_cannot_be_searched_is_refused_in_a_sentence(changes, more, said):
    with pytest.raises(InvalidValue, match=said):
        answer(asked(**changes), **more)


def test_runs_made_elsewhere_teach_what_to_run_next():
    question = asked()
    found = space(question, "output_tokens_per_s")
    first = answer(question)
    assert first.stop == "" and first.best is None
    setting = dict(found.settings[first.choice.proposal.at])
    told = [{"setting": setting, "figures": {"output_tokens_per_s": 500.0}}]
    second = answer(question, measured=told)
    assert second.best.setting == setting
    assert found.settings[second.choice.proposal.at] != setting
    assert second.choice.proposal.predicted < first.choice.proposal.predicted
    assert "kv fp8" in words(setting)


def test_the_simulated_server_is_not_the_prediction():
    from app.tuning.simulated_server import SimulatedServer, hidden_moves

    question = asked()
    found = space(question, "output_tokens_per_s")
    same, other = (
        SimulatedServer(question, moves)(found.settings[3], None, silent, never)
        for moves in (0.0 * hidden_moves(1), hidden_moves(1))
    )
    name = "output_tokens_per_s"
    assert abs(math.log(same.figures[name] / other.figures[name])) > 0.01


def test_runs_of_one_setting_say_how_far_two_runs_differ():
    found = space(asked(), "output_tokens_per_s")
    value = math.exp(beliefs(found, ())["output_tokens_per_s"].log[0])

    def after(*factors: float):
        runs = [(0, Outcome("measured", {"output_tokens_per_s": value * one})) for one in factors]
        return beliefs(found, runs)["output_tokens_per_s"].deviation[0], noise(found, runs)

    alike, apart = after(1.0, 1.001, 0.999, 1.0), after(1.0, 1.15, 0.85, 1.0)
    assert alike[0] < apart[0] / 2.0
    assert alike[1] < 0.001 and apart[1] == pytest.approx(0.12, abs=0.02)
    assert math.isnan(after(1.0)[1])
