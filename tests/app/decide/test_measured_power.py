"""Measured power of stored runs replaces the model's if a run is close to the load."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from app.cli import cli
from app.decide import economics
from app.decide.account import Account, with_measured
from app.decide.measured_power import MeasuredPower, measured_powers, nearest
from app.measuring import run_store
from app.question.question import Question
from app.scenario.scenario import resolve
from genz_core.types import Workload
from profilers.runs.store import Store
from profilers.schema import OPERATOR_COLUMNS, DeviceInfo, Measurement, table

SCENARIO = Question(model="Qwen/Qwen3-8B", engine="vllm", concurrency=16, isl=512, osl=128)


def account(**changed):
    return Account(resolve(replace(SCENARIO, **changed)))


def run(batch=16.0, power=431.5, model="Qwen/Qwen3-8B", system="NVIDIA H100 80GB HBM3"):
    return Measurement(
        source="live", operators=table(OPERATOR_COLUMNS, {}, 0), system=DeviceInfo(0, system),
        model=model, engine="hf", workload=Workload(batch, 512, 128),
        facts={} if power is None else {"power_w_mean": power, "power_w_max": 700.0},
    )  # fmt: skip


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "runs")


def test_a_near_run_of_the_same_model_and_system_gives_the_power(store):
    identity = store.save(run())
    found = with_measured(account(), [store])
    assert found.question.power == 431.5 and identity[:8] in found.measured_by
    energy = economics.document(found)["energy"]
    assert energy["power_w"] == 431.5 and energy["measured_by"] == found.measured_by
    assert sum(energy["by_part_w"].values()) == pytest.approx(431.5)


@pytest.mark.parametrize(
    "other",
    [run(batch=64.0), run(model="Qwen/Qwen3-4B"), run(system="NVIDIA A100-SXM4-80GB"),
     run(power=None), run(power=float("nan")), run(system="Toy 1")],
)  # fmt: skip
def test_a_run_of_something_else_says_nothing(store, other):
    store.save(other)
    plain = account()
    assert with_measured(plain, [store]) == plain


def test_what_the_user_states_stands_before_any_run(store):
    store.save(run())
    stated = account(power=300.0)
    assert with_measured(stated, [store]) == stated


def test_the_nearest_batch_counts():
    found = [MeasuredPower(str(at), 100.0 * at, batch) for at, batch in enumerate((9, 14, 30), 1)]
    assert nearest(found, 16.0) == found[1]
    assert nearest(found, 100.0) is None and nearest([], 16.0) is None


def test_a_damaged_run_is_passed_over(store):
    identity = store.save(run())
    (store.path(identity) / "operators.parquet").write_bytes(b"nothing")
    assert measured_powers(resolve(SCENARIO), [store]) == []


def test_the_command_takes_the_run_and_can_be_told_not_to(store, monkeypatch):
    store.save(run())
    monkeypatch.setattr(run_store, "stores", lambda: [store])
    asked = ["economics", "Qwen/Qwen3-8B", "--concurrency", "16", "--isl", "512", "--osl", "128"]
    with_run = json.loads(CliRunner().invoke(cli, [*asked, "--json"]).stdout)["energy"]
    without = CliRunner().invoke(cli, [*asked, "--json", "--no-kept-runs"]).stdout
    assert with_run["measured"] and not json.loads(without)["energy"]["measured"]
    words = CliRunner().invoke(cli, asked).stdout
    assert "measured (run " in words and "under a power cap of" in words


@pytest.mark.parametrize("system", ["h100", "l4"])
def test_the_parts_of_the_power_add_up_to_it(system):
    energy = economics.document(account(system=system))["energy"]
    assert sum(energy["by_part_w"].values()) == pytest.approx(energy["power_w"])
    assert min(energy["by_part_w"].values()) >= 0.0
