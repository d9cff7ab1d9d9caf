"""The measured runs behind a figure under load."""

import json
from dataclasses import replace

import numpy as np
import pytest

from app.scenario.runs_behind import runs_behind
from app.scenario.scenario import Scenario, resolve
from genz_core.serving import Traffic, serve

MEASURED = Scenario(model="Qwen/Qwen3-32B", system="h100", engine="vllm", tp=2)
LOAD = Traffic(isl=1024, osl=1024, concurrency=32.0)


def test_their_weights_make_the_correction():
    """The product of measured over physics, each to its weight, is what the prediction gains."""
    resolved = resolve(MEASURED)
    rows = runs_behind(resolved, LOAD, most=10_000)
    alone = replace(resolved, engine=replace(resolved.engine, neighbours=None))
    times = [
        serve(r.model, r.system, LOAD, MEASURED.parallelism, r.engine) for r in (resolved, alone)
    ]
    gained = float(times[0].tpot_scale[0] / times[1].tpot_scale[0])
    told = sum(row["weight_tpot_s"] * np.log(row["of_physics_tpot_s"]) for row in rows)
    assert np.log(gained) == pytest.approx(told, abs=0.01)


def test_a_run_at_the_same_place_weighs_most():
    place = {"system": "h100-sxm5-80gb", "isl": 1024, "osl": 512, "concurrency": 32, "tp": 4}
    scenario = replace(MEASURED, tp=4, engine_version="0.12.0")
    first = runs_behind(resolve(scenario), Traffic(isl=1024, osl=512, concurrency=32.0))[0]
    assert {name: first[name] for name in place} == place
    assert first["measured_tpot_s"] > 0


def test_where_nobody_measured_there_are_none():
    assert runs_behind(resolve(replace(MEASURED, engine="mlx")), LOAD) == []


def test_the_command_prints_them(ridgeline):
    told = ridgeline(
        "serve", "Qwen/Qwen3-32B", "--system", "h100", "--tp", "2", "--concurrency", "32",
        "--explain", "--json",
    )  # fmt: skip
    assert json.loads(told.stdout)[0]["runs"][0]["weight_tpot_s"]
