"""Decode steps beyond the largest captured graph name the limit where it costs something."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from app.question.question import Question
from app.scenario import served_rows
from app.scenario.scenario import estimate_resolved, resolve
from app.scenario.summary import facts

BASE = Question(
    model="meta-llama/Llama-3.1-8B", system="h100-sxm5-80gb", tp=8, engine="vllm", isl=16, osl=128
)


def alone(question: Question) -> str:
    resolved = resolve(question)
    [row] = facts(resolved, estimate_resolved(resolved)).rows()
    return str(row["message"])


def under_load(question: Question) -> str:
    resolved, users = resolve(question), np.array([float(question.concurrency)])
    row = served_rows.table(resolved, served_rows.served(resolved), "concurrency", users).row()
    return str(row["message"])


@pytest.mark.parametrize(
    ("given", "limit", "option"),
    [
        ({}, "512", "--max-cudagraph-capture-size 600"),
        ({"engine_version": "0.19"}, "512", "--max-cudagraph-capture-size 600"),
        ({"engine_version": "0.10"}, "512", "--cuda-graph-sizes 600"),
    ],
)
def test_a_step_beyond_names_the_limit_and_the_option_that_raises_it(given, limit, option):
    for said in (
        alone(replace(BASE, batch=600, **given)),
        under_load(replace(BASE, concurrency=600, **given)),
    ):
        assert "a decode step has about 600 tokens" in said
        assert f"more than the {limit} that vllm captures as a graph by default" in said
        assert f"start the server with {option}" in said


@pytest.mark.parametrize(
    "given",
    [
        {"batch": 512},
        {"batch": 600, "engine": "sglang"},
        {"batch": 600, "system": "b200-sxm-180gb"},
        {"batch": 600, "isl": 16_000},  # the device takes longer than the launches
        {"batch": 600, "osl": 1},
        {"batch": 600, "model": "openai/gpt-oss-20b"},
        {"batch": 1024, "dp": 2, "tp": 4},
    ],
)
def test_a_captured_step_or_one_that_hides_its_launches_says_nothing(given):
    assert "as a graph" not in alone(replace(BASE, **given))
