"""The measured runs behind a figure under load."""

import json
from dataclasses import replace

import numpy as np
import pytest

from app.question.question import Question
from app.scenario.runs_behind import runs_behind
from app.scenario.scenario import resolve
from app.scenario.served_rows import served

MEASURED = Question(
    model="Qwen/Qwen3-32B", system="h100", engine="vllm", tp=2,
    isl=1024, osl=1024, concurrency=32.0,
)  # fmt: skip


def test_their_weights_make_the_correction():
    """The product of the learnt factors, each raised to its weight, is the scale of the steps."""
    resolved = resolve(MEASURED)
    rows = runs_behind(resolved, most=10_000)
    alone = replace(resolved, engine=replace(resolved.engine, neighbours=None))
    times = [served(deployed) for deployed in (resolved, alone)]
    gained = float(times[0].correction.steps[0] / times[1].correction.steps[0])
    told = sum(
        row["weight_steps"] * np.log(row["learned_steps"]) for row in rows if row["weight_steps"]
    )
    assert np.log(gained) == pytest.approx(told, abs=0.01)


def test_a_run_at_the_same_place_weighs_most():
    place = {"system": "h100-sxm5-80gb", "isl": 1024, "osl": 512, "concurrency": 32, "tp": 4}
    first = runs_behind(resolve(replace(MEASURED, tp=4, osl=512, engine_version="0.12.0")))[0]
    assert {name: first[name] for name in place} == place
    assert first["measured_tpot_s"] > 0


def test_where_nobody_measured_there_are_none():
    assert runs_behind(resolve(replace(MEASURED, engine="mlx"))) == []


def test_the_command_prints_them(ridgeline):
    told = ridgeline(
        "serve", "Qwen/Qwen3-32B", "--system", "h100", "--tp", "2", "--concurrency", "32",
        "--explain", "--json",
    )  # fmt: skip
    assert json.loads(told.stdout)[0]["runs"][0]["weight_steps"]
