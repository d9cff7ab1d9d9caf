"""Redundant experts as choices of a plan: the degrees that they make possible, and their price."""

import pytest

from app.planning import aggregated, disaggregated
from app.planning.families import families
from app.question.query import ask
from genz_core.errors import InvalidValue
from tests.app.planning.asking import plan

MODEL = "deepseek-ai/DeepSeek-V3"
GIVEN = {
    "system": "gb200", "engine": "sglang", "concurrency": 1024, "isl": 1024, "osl": 256,
    "tp": 1, "pp": 1, "pools": "aggregated", "rank": "output_tokens_per_s",
}  # fmt: skip


def found(**more):
    return families(ask("plan", {"model": MODEL, **GIVEN, **more}))[0]


def test_every_number_of_copies_is_a_family_and_none_is_the_default():
    assert [family.copies for family in found()] == [0]
    assert [family.copies for family in found(redundant_experts="0,32")] == [0, 32]
    assert "32 redundant experts" in str(found(redundant_experts=32)[0])


def test_copies_open_degrees_that_divide_them_and_the_models_experts():
    asked = ask("plan", {"model": MODEL, **GIVEN, "dp": 48, "devices": "48", "redundant_experts":
                         "0,32"})  # fmt: skip
    plain, copied = families(asked)[0]
    none, some = (aggregated.price(one, asked).columns["ep"] for one in (plain, copied))
    assert 48.0 not in none  # 256 experts
    assert 48.0 in some  # 288


def test_a_copy_that_balances_nothing_is_read_and_held_for_nothing():
    asked = ask("plan", {"model": MODEL, **GIVEN, "dp": 32, "ep": 32, "devices": "32",
                         "redundant_experts": "0,32"})  # fmt: skip
    plain, copied = (aggregated.price(one, asked).columns for one in families(asked)[0])
    assert (copied["tpot_s"] >= plain["tpot_s"]).all()
    assert copied["tpot_s"].max() > plain["tpot_s"].min()


def test_a_model_without_experts_has_no_copies():
    dense = {"model": "Qwen/Qwen3-32B", "system": "h100", "rate": 1.0}
    with pytest.raises(InvalidValue, match="no experts"):
        families(ask("plan", {**dense, "redundant_experts": 32}))


def test_the_plan_says_how_many_copies_it_has_and_the_launch_line_tells_the_engine():
    best = plan(MODEL, **GIVEN, dp=48, devices="48", redundant_experts="0,32", simulate=False).best
    assert best["redundant_experts"] == 32 and best["ep"] == 48
    said = best["launch"] + " ".join(best["launch_notes"])
    assert "redundant" in said and "32" in said


def test_copies_are_those_of_the_workers_that_decode():
    asked = ask("plan", {"model": MODEL, **GIVEN, "redundant_experts": "0,32"})
    both = list(disaggregated.pairs(families(asked)[0], asked))
    assert [one.copies for one in both] == [0, 32]
    assert all(one.prefill.scenario.redundant_experts == 0 for one in both)
