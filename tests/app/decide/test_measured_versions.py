"""Versions of an engine: the measurements of each, and a separate prediction per era."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.decide import comparison
from app.decide.measured_versions import measured_of, measured_versions, usual_versions
from app.question.question import Question
from app.scenario.scenario import resolve
from app.scenario.setup import Setup, resolve_setup
from hardware_db.tables import table

BASE = Question(
    model="openai/gpt-oss-120b", system="h100-sxm5-80gb", engine="vllm", tp=4, concurrency=32
)


def test_versions_are_those_of_the_measured_runs_and_eras_oldest_first():
    found = measured_versions("vllm")
    numbers = [tuple(map(int, one.split("."))) for one in found if one[0].isdigit()]
    assert numbers == sorted(numbers)
    runs = {row["version"] for row in table("engines", "runs") if row["engine"] == "vllm"}
    assert runs - {""} <= set(found) and "0.7" in found


def test_runs_are_counted_once_and_never_more_here_than_in_all():
    resolved = resolve(BASE)
    rows = measured_of(resolved, measured_versions("vllm"))
    assert sum(row["runs"] for row in rows) == sum(
        row["engine"] == "vllm" and bool(row["version"]) for row in table("engines", "runs")
    )
    assert all(row["on this system"] <= row["of this model"] <= row["runs"] for row in rows)
    assert any(row["on this system"] and row["TPOT measured / predicted"] > 0 for row in rows)
    assert all(
        row["TPOT measured / predicted"] is None for row in rows if not row["on this system"]
    )


def test_the_usual_versions_are_those_of_the_model_where_there_are_any():
    rows = measured_of(resolve(BASE), usual_versions(resolve(BASE)))
    assert rows and all(row["of this model"] for row in rows)
    assert usual_versions(resolve(replace(BASE, model="openai-community/gpt2", tp=1)))


@pytest.mark.parametrize("old", ["0.5.0", "0.6.3"])
def test_an_older_era_is_predicted_otherwise(old):
    both = comparison.setups(Setup(BASE), "engine_version", [old, "0.19.0"])
    tpot = [comparison.figures(resolve_setup(one))["tpot_s"].value for one in both.values()]
    assert tpot[0] != pytest.approx(tpot[1], rel=0.001)


def test_another_engine_does_not_take_the_version_along():
    base = Setup(replace(BASE, engine_version="0.6.3"))
    assert comparison.setups(base, "engine", ["sglang"])["sglang"].scenario.engine_version == ""
