"""The suggested measurement loads what it names as the plan loads it."""

import csv

import pytest
from ridgeline import plan

from app.scenario.points_row import parse
from app.scenario.scenario import resolve
from app.scenario.served_rows import served

SAME = {"system": "h200", "engine": "vllm", "simulate": False}


def command(found, option: str) -> list[str]:
    words = found.measurement["command"].split()
    return words[words.index(option) + 1].split(",")


def address(found) -> str:
    return found.measurement["command"].split()[3]


@pytest.fixture(scope="module")
def pooled():
    """Two decode workers behind a prefill pool."""
    return plan("Qwen/Qwen3-32B", rate=40, devices="16", pools="disaggregated",
                target="ttft < 1s", **SAME)  # fmt: skip


def test_with_a_prefill_pool_it_loads_the_whole_deployment(pooled):
    best = pooled.best
    assert best["replicas"] == 2
    open_requests = 40 * best["e2e_s"]
    users = list(map(int, command(pooled, "--concurrency")))
    assert users == [pytest.approx(open_requests * times, abs=1.5) for times in (0.5, 1, 2)]
    assert address(pooled) == "http://localhost:8000", "the proxy in front of both pools"
    assert "the whole deployment (8 x " in pooled.measurement["words"]


def test_the_points_of_a_prefill_pool_are_priced_as_the_deployment_that_was_measured(pooled):
    (_, row, _) = csv.DictReader(pooled.measurement["points"].splitlines())
    found = served(resolve(parse(row).question))
    assert found.devices[0] == pooled.best["devices"]
    assert found.tpot_s[0] == pytest.approx(pooled.best["tpot_s"], rel=0.1)
    assert found.output_tokens_per_s[0] == pytest.approx(40 * 256, rel=0.1)


def test_one_replica_of_several_is_loaded_at_its_own_port_with_its_part_of_the_load():
    found = plan("Qwen/Qwen3-32B", rate=20, devices="4", tp=1, pools="aggregated", **SAME)
    users = int(command(found, "--concurrency")[1])
    assert found.best["replicas"] == 4
    assert users == pytest.approx(20 * found.best["e2e_s"] / 4, abs=0.6)
    assert address(found) == "http://localhost:8001", "on port 8000 is the router of all replicas"
    assert "--port 8001" in found.best["launch"]
    assert "one replica (1 x " in found.measurement["words"]


def test_a_single_replica_answers_at_the_front():
    found = plan("Qwen/Qwen3-32B", rate=1, devices="1", pools="aggregated", **SAME)
    assert address(found) == "http://localhost:8000"
