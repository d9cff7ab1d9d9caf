"""A fleet's file: what is read of it, and what is refused by name."""

from __future__ import annotations

import pytest

from app.fleets.fleet_question import fleet_question
from genz_core.errors import RidgelineError

LLAMA = "meta-llama/Llama-3.1-8B"
H100 = {"system": "h100"}


def fleet(machine=None, model=None, **more):
    return {
        "machines": [{**H100, **(machine or {})}],
        "models": [{"model": LLAMA, "rate": 2, **(model or {})}],
        **more,
    }


def test_what_is_not_said_has_its_default():
    read = fleet_question(fleet())
    (machine,), (model,) = read.machines, read.models
    assert (machine.devices, machine.count, machine.owned) == (8, 1, False)
    assert machine.usd_per_device_hour == machine.system.price_usd_per_hour
    assert (model.name, model.priority, model.load, model.unit) == (LLAMA, 1, 2.0, "requests/s")
    assert model.most_devices is None and read.budget is None


def test_a_model_takes_what_all_share_and_its_own_wins():
    read = fleet_question(fleet(model={"osl": 64}, question={"osl": 512, "isl": 300}))
    assert (read.models[0].query.question.isl, read.models[0].query.question.osl) == (300, 64)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "a fleet needs machines"),
        ({"machine": []}, "'machine' is not a key of a fleet: did you mean machines?"),
        (fleet({"cont": 2}), "machine 'h100' of the fleet: 'cont' is not a key of a machine: did"),
        (fleet({"system": "h1000"}), "near: "),
        (fleet({"devices": 0}), "devices = 0: give a whole number"),
        (fleet({"owned": True, "price": 2}), "owned machines have no rent"),
        (fleet({"system": ""}), "it has no system"),
        (fleet(model={"name": "a", "rank": "ttft"}), "model 'a' of the fleet: rank does not apply"),
        (fleet(model={"tagret": "tpot < 1s"}), "'tagret' is not a parameter: did you mean target"),
        (fleet(model={"priority": 0}), "priority = 0: give a whole number from 1"),
        (
            fleet(model={"target": "usd_per_mtok < 1"}),
            "targets of a fleet's models must be request latencies",
        ),
        (fleet(model={"rate": None, "concurrency": 4}), "give a target on ttft or e2e"),
        (fleet(model={"concurrency": 4}), "not concurrency and rate"),
        (
            fleet(model={"pools": "disaggregated"}),
            "each replica of a fleet does both prefill and decode",
        ),
        (fleet(model={"system": "h200"}), "no machine has it; the machines have h100-sxm5-80gb"),
        (fleet(budget=-1), "budget = -1: give a number from 0"),
        ({**fleet(), "models": ["chat"]}, "'chat' is not an entry with keys"),
        (
            {**fleet(), "models": [{"model": LLAMA, "rate": 1}] * 2},
            "appears twice; give each its own name",
        ),
        ({**fleet(), "machines": [H100] * 51}, "51 entries; give at most 50"),
    ],
)
def test_invalid_fleets_are_refused_in_one_sentence(given, words):
    with pytest.raises(RidgelineError) as refused:
        fleet_question(given)
    assert words in str(refused.value) and "\n" not in str(refused.value)
