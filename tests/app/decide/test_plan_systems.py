"""One row per system, the cheapest first: the same as a search on that system alone."""

from __future__ import annotations

import numpy as np
import pytest
import ridgeline

import hardware_db
import model_registry
from app.decide import plan_query, plan_systems
from app.decide.plan_query import Searched
from app.planning import percentiles, space
from app.question.question import Question
from app.scenario.gate import experts_of
from app.scenario.setup import Setup

SYSTEMS = ("h100-sxm5-80gb", "h200-sxm-141gb", "l4")
LOAD = {"rate": 4.0, "isl": 1024, "osl": 256, "devices": "1:4", "engine": "vllm"}


def rows(target: str) -> list[dict]:
    question = Question(
        model="Qwen/Qwen3-32B", target=(target,), pools=("aggregated",), **LOAD
    )  # fmt: skip
    asked = Searched(Setup(question), (("system", SYSTEMS),))
    return plan_query.planned(asked, plan_query.price(asked)).systems


@pytest.mark.slow
def test_each_row_is_the_best_of_a_plan_on_that_system_alone():
    found = rows("tpot < 60ms")
    assert {row["system"] for row in found} == set(SYSTEMS)
    for row in found:
        alone = ridgeline.plan(
            "Qwen/Qwen3-32B", systems=row["system"], target="tpot < 60ms", pools="aggregated",
            top=1, **LOAD,
        )  # fmt: skip
        if row["lacks"]:
            assert alone.best is None
            continue
        for name in ("devices", "tp", "replicas", "usd_per_mtok", "tpot_p99_s"):
            assert row[name] == pytest.approx(alone.best[name]), name


def test_what_meets_the_targets_stands_first_and_what_does_not_says_what_it_lacks():
    found = rows("tpot < 30ms")
    lacking = [bool(row["lacks"]) for row in found]
    assert lacking == sorted(lacking) and any(lacking) and not all(lacking)
    worth = [row["usd_per_mtok"] / row["probability"] for row in found if not row["lacks"]]
    assert worth == sorted(worth)
    for row in found:
        assert list(plan_systems.words(row))[1] == "Meets all targets"
        verdict = plan_systems.words(row)["Meets all targets"]
        assert verdict.startswith("no: ") == bool(row["lacks"])
    alone = {**found[0], "probability": None}
    assert plan_systems.words(alone)["Meets all targets"] == "yes, not validated"
    assert plan_systems.words({**found[0], "margins": {}})["Meets all targets"] == "no targets"


def test_what_nothing_validates_is_taken_as_even_and_not_as_sure():
    from app.planning.ranking import Ranking
    from app.planning.targets import FIGURES, parse_targets

    ranking = Ranking(FIGURES["usd_per_mtok"], tuple(parse_targets("tpot < 60ms")))
    unknown, likely = ranking.expectation(np.array([1.4, 1.8]), np.array([np.nan, 0.99]))
    assert unknown == pytest.approx(2.8) and likely < unknown


def test_a_system_on_which_nothing_can_be_tried_has_a_row_where_no_price_is_known():
    question = Question(
        model="Qwen/Qwen3-8B", pools=("disaggregated",), **{**LOAD, "devices": "1"}
    )  # two pools on one device
    searched = Searched(Setup(question), (("system", ("h20-96gb",)),))
    [row] = plan_query.planned(searched, plan_query.price(searched)).systems
    assert plan_systems.words(row)["Meets all targets"].startswith("no: too few devices")


def test_a_deployment_is_simulated_once_a_draw_for_the_plans_and_for_its_systems_row(monkeypatch):
    done = []
    run = percentiles.run

    def counted(resolved, objects):
        done.append((resolved.system.slug, resolved.scenario))
        return run(resolved, objects)

    monkeypatch.setattr(percentiles, "run", counted)
    assert len(rows("tpot < 60ms")) == len(SYSTEMS)
    assert done and len(set(done)) == len(done)
    done.clear()
    question = Question(model="Qwen/Qwen3-32B", target=("tpot < 60ms",), **LOAD)
    asked = Searched(Setup(question), (("system", SYSTEMS),)).in_closed_form
    plan_query.planned(asked, plan_query.price(asked.untargeted))
    assert not done, "nothing is simulated for the closed form"


def test_what_is_priced_at_once_is_decided_by_a_count_that_no_system_exceeds():
    for model in ("Qwen/Qwen3-8B", "Qwen/Qwen3-235B-A22B", "deepseek-ai/DeepSeek-V3"):
        known = model_registry.load(model)
        for devices in ("1", "1:8", "1:64"):
            query = Searched(Setup(Question(model=model, devices=devices))).query()
            most = space.most_shapes(experts_of(known), query)
            for name in (*SYSTEMS, "gb200-nvl72"):
                system = hardware_db.load(name)
                assert 0 < space.shapes(known, system, query).shape[1] <= most
