"""A prefill pool as a question: its workers, the transfer of the cache, balance, invalid pools."""

from __future__ import annotations

from typing import Any

import pytest

import hardware_db
from app.question.query import ask
from app.question.question import Question
from app.scenario.pools import Prefill, beside, stated_link
from app.scenario.scenario import resolve
from app.simulation.result import Simulated, simulate
from genz_core.deployment import as_server, bulk_format
from genz_core.errors import (
    InvalidParallelism,
    InvalidValue,
    MissingSpec,
    OutOfMemory,
    UnknownPrecision,
    UnknownSystem,
)

LLAMA = "meta-llama/Llama-3.1-8B"


def prefill(**fields: Any) -> Prefill:
    standard = {"model": LLAMA, "system": "h100", "engine": "vllm", "concurrency": 4}
    found = beside(resolve(ask("simulate", {**standard, **fields}).question))
    assert found is not None
    return found


def simulated(**keywords: Any) -> Simulated:
    load = {"model": LLAMA, "system": "h100", "concurrency": 4, "isl": 128, "osl": 32}
    return simulate(ask("simulate", {**load, **keywords}))


def test_there_is_no_pool_unless_asked():
    assert beside(resolve(Question(model=LLAMA))) is None


def test_a_named_system_is_one_worker_and_a_number_is_of_the_same_system():
    assert prefill(prefill_system="b200").workers == 1
    same = prefill(prefill_workers=2, prefill_tp=4, replicas=2)
    assert same.resolved.system.slug == "h100-sxm5-80gb" and same.devices == 8


def test_the_engine_is_as_measured_on_the_system_of_each_pool():
    other = prefill(prefill_system="b200").resolved
    alone = resolve(Question(model=LLAMA, system="b200", engine="vllm"))
    assert other.engine == as_server(alone.engine, alone.system)


def test_weights_may_differ_and_the_cache_does_not():
    pool = prefill(weights="fp8", prefill_workers=1, prefill_weights="bf16").resolved
    decode = resolve(Question(model=LLAMA, system="h100", engine="vllm", weights="fp8"))
    assert (bulk_format(decode.model), bulk_format(pool.model)) == ("fp8", "bf16")
    assert pool.model.precision.kv == decode.model.precision.kv


@pytest.mark.parametrize(
    ("prefill_system", "decode_system", "devices", "link"),
    [
        ("h100", "h100", 8, "NVLink 4"),
        ("h100", "h100", 16, "InfiniBand NDR 400 Gb/s"),
        ("gb200-nvl72", "gb200-nvl72", 64, "NVLink 5"),
        ("h100", "b200", 2, "InfiniBand NDR 400 Gb/s"),
        ("b300", "l4", 2, "Ethernet 100 Gb/s"),
    ],
)
def test_the_cache_takes_the_link_that_the_systems_state(
    prefill_system, decode_system, devices, link
):
    systems = (hardware_db.load(prefill_system), hardware_db.load(decode_system))
    assert stated_link(*systems, devices).name == link


@pytest.mark.parametrize(
    ("fields", "bytes_per_s", "latency_s"),
    [
        ({}, 450e9, 1.5e-6),
        ({"transfer_gbps": 400}, 50e9, 0.0),
        ({"transfer_latency_us": 20}, 450e9, 20e-6),
        ({"transfer_gbps": 100, "transfer_latency_us": 5, "layer_wise": True}, 12.5e9, 5e-6),
    ],
)
def test_rate_and_latency_of_the_way_may_be_stated(fields, bytes_per_s, latency_s):
    found = prefill(prefill_workers=1, **fields)
    assert found.transfer.bytes_per_s == bytes_per_s
    assert found.transfer.latency_s == pytest.approx(latency_s)
    assert found.transfer.layer_wise == fields.get("layer_wise", False)
    assert ("layer by layer" in found.way) == found.transfer.layer_wise


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"prefill_tp": 2}, InvalidValue, "prefill_tp without a prefill pool"),
        ({"transfer_gbps": 400}, InvalidValue, "transfer_gbps without a prefill pool"),
        ({"layer_wise": True}, InvalidValue, "without a prefill pool"),
        ({"prefill_workers": -1}, InvalidValue, "prefill_workers = -1"),
        ({"prefill_workers": 1, "prefill_tp": 0}, InvalidValue, "prefill_tp = 0"),
        ({"prefill_workers": 1, "prefill_tp": 3}, InvalidParallelism, "prefill pool: tp 3"),
        ({"prefill_workers": 1, "transfer_gbps": -1}, InvalidValue, "transfer_gbps = -1"),
        ({"prefill_workers": 1, "transfer_gbps": float("nan")}, InvalidValue, "= nan"),
        ({"prefill_workers": 1, "transfer_latency_us": -1}, InvalidValue, "latency_us = -1"),
        ({"prefill_system": "h1000"}, UnknownSystem, "h1000"),
        ({"prefill_workers": 1, "prefill_weights": "fp9"}, UnknownPrecision, "fp9"),
        (
            {"prefill_system": "rtx-4090"},
            MissingSpec,
            "has no known link that reaches another system .* give transfer_gbps",
        ),
        ({"prefill_system": "m4-10core"}, MissingSpec, "its links: none"),
    ],
)
def test_invalid_prefill_pools_are_refused_in_one_sentence(fields, error, words):
    with pytest.raises(error, match=words):
        prefill(**fields)


def test_weights_that_do_not_fit_name_the_pool():
    with pytest.raises(OutOfMemory, match="prefill pool: "):
        simulated(prefill_system="l4", prefill_weights="fp32", transfer_gbps=100)


def test_a_pool_reads_and_the_balance_is_told():
    answer = simulated(prefill_system="b200", prefill_workers=2, speculation="ngram",
                       acceptance=0.5)  # fmt: skip
    named = answer.to_dict()
    assert named["devices"] == 3 and named["prefill"]["workers"] == 2
    balance = answer.run.balance
    assert named["prefill"]["workers_per_decode_worker"] == balance.prefill_per_decode > 0
    assert f"{balance.prefill_per_decode:.3g} prefill workers match one decode" in named["message"]
    assert "over InfiniBand NDR 400 Gb/s (50.0 GB/s a device" in named["message"]


def test_a_slow_way_is_waited_for():
    fast, slow = (simulated(prefill_workers=1, transfer_gbps=rate) for rate in (1000, 1))
    assert slow.e2e_mean_s > fast.e2e_mean_s + 0.05


def test_answers_of_one_token_have_no_balance():
    answer = simulated(prefill_workers=1, osl=1)
    assert answer.run.balance is None and answer.ended == 40


def test_a_worker_that_only_reads_makes_a_prompt_wait_as_the_same_server_does():
    """Tokeniser, scheduler and network as learnt from runs of one user there; zero if scaled."""
    load = {"model": "Qwen/Qwen3-32B", "system": "h100", "engine": "sglang", "tp": 2}
    load |= {"isl": 1024, "osl": 64, "requests": 8}
    alone = simulate(ask("simulate", {**load, "concurrency": 1})).run.options
    pools = {**load, "prefill_workers": 1, "prefill_tp": 2, "concurrency": 4}
    learned, physics = (
        simulate(ask("simulate", {**pools, **more})).run.options for more in ({}, {"step_scale": 1})
    )
    assert alone.wait_s > 0.005
    assert learned.wait_s == pytest.approx(alone.wait_s)
    assert physics.wait_s == 0.0
