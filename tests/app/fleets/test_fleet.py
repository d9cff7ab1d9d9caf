"""A fleet from its file to the answer: the planner's own figures, reasons, one more machine."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
import ridgeline
from typer.testing import CliRunner

from app.cli import cli
from app.decide import svg
from app.fleets import report
from app.fleets.result import fleet
from genz_core.common.progress import Cancelled
from genz_core.errors import UnknownName

LLAMA = "meta-llama/Llama-3.1-8B"
CHAT = {"name": "chat", "model": LLAMA, "rate": 30, "target": "tpot < 20ms"}
REST = {**CHAT, "name": "rest", "rate": 400, "priority": 2}
SAMPLE = Path(__file__).parents[3] / "app" / "samples" / "fleets" / "two-tenants.yaml"


def asked(*models, machines=None, **more):
    return {
        "machines": machines or [{"system": "h100", "devices": 4, "owned": True}],
        "question": {"engine": "vllm", "simulate": False},
        "models": list(models),
        **more,
    }


@cache
def two():
    return fleet(asked(CHAT, REST)).to_dict()


def test_the_higher_priority_is_served_in_full_and_the_other_has_what_is_left():
    chat, rest = two()["models"]
    assert chat["share"] == 1.0 and chat["why"] == ""
    assert 0.0 < rest["share"] < 1.0
    assert rest["why"].startswith("displaced by the priority of chat: alone it would be served to")


def test_every_device_is_of_one_replica():
    (machine,) = two()["machines"]
    placed = [slot for slots in machine["filled"] for slot in slots]
    assert sum(slot["devices"] for slot in placed) == machine["devices_in_use"] <= 4
    replicas = sum(one["replicas"] for one in two()["deployments"])
    assert len(placed) == replicas


def test_one_more_machine_serves_more():
    (more,) = two()["one_more"]
    assert [gain["name"] for gain in more["gains"]] == ["rest"]
    assert more["gains"][0]["share"] > more["gains"][0]["share_before"]
    assert more["words"].startswith("rest ")


@pytest.mark.parametrize("simulate", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_fleet_of_one_model_has_the_devices_that_plan_says(simulate):
    question = {"engine": "vllm", "simulate": simulate, "target": "tpot < 16ms", "rate": 60}
    one = {"model": LLAMA, **question}
    eight = [{"system": "h100", "devices": 8, "owned": True}]
    found = fleet({"machines": eight, "models": [one]})
    planned = ridgeline.plan(LLAMA, system="h100", devices="1:8", pools="aggregated",
                             rank="devices", **question)  # fmt: skip
    assert found.models[0]["share"] == 1.0
    assert found.models[0]["devices"] == planned.to_dict()["fewest_devices"]["devices"]


def test_what_each_replica_serves_is_in_the_targets_by_plan():
    for one in two()["deployments"]:
        assert one["load_each"] <= one["most_each"] * (1.0 + 1e-9)
        assert one["tpot_s"] <= 0.020


def test_reasons_name_what_is_missing():
    large = {"name": "large", "model": "meta-llama/Llama-3.1-405B-Instruct", "rate": 1}
    fast = {"name": "fast", "model": LLAMA, "rate": 1, "target": "ttft < 1ms"}
    small = fleet(asked(large, fast, machines=[{"system": "l40s", "devices": 2, "owned": True}]))
    whys = {one["name"]: one["why"] for one in small.refusals}
    assert whys["large"].startswith("does not fit: needs ")
    assert whys["fast"].startswith("misses its targets even with a single request: TTFT ")
    assert {one["why"] for one in small.models} == {"cannot run on any of the machines"}


def test_a_budget_and_a_quota_are_kept_and_named():
    rented = [{"system": "h100", "devices": 4, "count": 2, "price": 2.0}]
    found = fleet(asked(REST, machines=rented, budget=8.0))
    assert found.to_dict()["usd_per_hour"] == 8.0
    assert found.models[0]["why"] == "the budget of $8.00 an hour does not pay for more"
    few = fleet(asked({**REST, "devices": 1}, machines=rented))
    assert few.models[0]["devices"] == 1 and "may use (1)" in few.models[0]["why"]


def test_an_unknown_model_is_refused_with_its_entry():
    with pytest.raises(UnknownName, match="model 'chat' of the fleet: unknown model 'llama-9'"):
        fleet(asked({**CHAT, "model": "llama-9"}))


def test_a_fleet_is_cancelled_between_two_models():
    said = []

    def progress(share, what):
        said.append(what)

    with pytest.raises(Cancelled):
        fleet(asked(CHAT, REST), dict, progress, lambda: bool(said))
    assert said == ["chat on h100-sxm5-80gb"]


def test_a_picture_has_a_cell_a_device():
    picture = svg.fleet(two())
    assert picture.count("<rect") == 1 + 4 + 2  # paper, devices, legend


def test_the_document_prints_and_is_json():
    assert "1 of 2 models served in full, on 1 of 1 machines" in report.headline(two())
    assert json.loads(json.dumps(two()))["title"] == "Fleet"


@pytest.mark.slow
def test_the_documented_example_answers():
    named = json.loads(CliRunner().invoke(cli, ["fleet", str(SAMPLE), "--json"]).stdout)
    served = {one["name"]: one["share"] for one in named["models"]}
    assert served["chat"] == served["search"] == served["coding"] == 1.0 > served["nightly"]
    assert all(one["percentiles"].startswith("simulated") for one in named["deployments"])
