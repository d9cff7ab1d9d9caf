"""Disaggregated serving in closed form: transferred bytes, rates, balance, and the simulator's
results.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

import hardware_db
from genz_core.deployment import deploy
from genz_core.engine import EngineProfile, Recipe
from genz_core.errors import InvalidValue
from genz_core.models.acceptance import Acceptance
from genz_core.models.speculative import SpeculativeModel
from genz_core.serving import Traffic
from genz_core.serving.disaggregation import (
    Disaggregation,
    ServingPool,
    Transfer,
    answers_per_s,
    balance,
    cache_bytes,
    decode_step_s,
    most_running,
    prompt_s,
    prompts_per_s,
)
from genz_core.serving.options import Options
from genz_core.serving.series import serve_pools
from genz_core.serving.simulation import Requests, Simulation, simulate
from genz_core.types import Parallelism
from model_registry.drafts import speculation
from tests.model_registry.shared_models import built

ENGINE = EngineProfile()


def pool(name: str, system: str, workers: int = 1, **degrees: int) -> ServingPool:
    deployed = deploy(built(name), hardware_db.load(system), ENGINE)
    return ServingPool(deployed, Parallelism(**degrees), workers)


@dataclass(frozen=True)
class Loop:
    """A closed loop through both pools in closed form."""

    requests_per_s: float
    running: float
    ttft_s: float
    tpot_s: float


def closed_loop(apart: Disaggregation, decode: ServingPool, isl: int, osl: int, users: int) -> Loop:
    found = serve_pools(apart, decode, Traffic(isl, osl, concurrency=users))
    rate = float(found.output_tokens_per_s[0] / found.osl[0])
    return Loop(rate, *(float(getattr(found, n)[0]) for n in ("running", "ttft_s", "tpot_s")))


DENSE, LATENT = "meta-llama/Llama-3.1-8B", "deepseek-ai/DeepSeek-V3"


# ------------------------------------------------------------------------------- the transfer


def test_the_cache_of_a_prompt_is_that_of_its_tokens():
    """Llama-3.1-8B: 32 layers x 2 x 8 heads x 128 x 2 bytes per token; with tp 2 half of it."""
    assert cache_bytes(pool(DENSE, "h100"), 1600.0)[0] == pytest.approx(1600 * 131072)
    assert cache_bytes(pool(DENSE, "h100", tp=2), 1600.0)[0] == pytest.approx(1600 * 65536)


def test_the_fuller_end_decides():
    transfer = Transfer(50e9, 1e-3)
    split, whole = pool(DENSE, "h100", tp=4), pool(DENSE, "h100")
    ways = [
        Disaggregation(first, transfer).busy_s(second, 1600.0)[0]
        for first, second in ((split, whole), (whole, split), (split, split))
    ]
    assert ways[0] == ways[1] == pytest.approx(1600 * 131072 / 50e9)
    assert ways[2] == pytest.approx(1600 * 131072 / 4 / 50e9)


@pytest.mark.parametrize("tokens", [100.0, 2000.0, 16_000.0])
def test_layer_by_layer_leaves_a_layer_or_what_the_link_could_not_carry(tokens):
    decode = pool(DENSE, "h100")
    for rate in (1e8, 1e9, 400e9):
        whole, layered = (
            Disaggregation(pool(DENSE, "h100"), Transfer(rate, layer_wise=on)).busy_s(
                decode, tokens
            )
            for on in (False, True)
        )
        assert whole / 32 - 1e-12 <= layered <= whole
        assert layered == pytest.approx(
            max(whole / 32, whole - prompt_s(decode, tokens) * 31 / 32), abs=1e-12
        )


# ------------------------------------------------------------------------------- rates


def test_a_prompt_longer_than_a_chunk_takes_several_steps():
    short, long = (float(prompt_s(pool(DENSE, "h100"), isl)[0]) for isl in (8192.0, 16384.0))
    assert 2 * short < long < 3 * short


def test_short_prompts_share_a_step():
    worker = pool(DENSE, "h100")
    alone = 1.0 / float(prompt_s(worker, 128.0)[0])
    assert prompts_per_s(worker, 128.0) > 2.5 * alone
    single = replace(worker, options=Options(max_num_batched_tokens=128))
    assert prompts_per_s(single, 128.0) == pytest.approx(alone)


def test_ranks_read_prompts_of_their_own():
    one, eight = (pool(LATENT, "b200", tp=8, ep=8), pool(LATENT, "b200", dp=8, ep=8))
    assert prompts_per_s(eight, 1024.0) > prompts_per_s(one, 1024.0)


def test_answers_per_second_are_littles_law():
    worker, running = pool(DENSE, "h100"), 64.0
    step = decode_step_s(worker, 1000.0, 101.0, running)
    assert answers_per_s(worker, 1000.0, 101.0, running) * (100 * step) == pytest.approx(running)


def test_more_memory_or_fewer_sequences_decide_what_runs():
    worker = pool(DENSE, "h100")
    assert most_running(worker, 1000.0, 1000.0) > most_running(worker, 8000.0, 1000.0) > 1
    few = replace(worker, options=Options(max_num_seqs=7))
    assert most_running(few, 1000.0, 1000.0) == 7
    half = replace(worker, options=Options(memory_fraction=0.5))
    assert most_running(half, 1000.0, 1000.0) < most_running(worker, 1000.0, 1000.0)


def test_a_measured_step_scales_both_pools():
    worker = pool(DENSE, "h100")
    slower = replace(worker, options=Options(step_scale=2.0))
    assert prompt_s(slower, 1000.0) == pytest.approx(2 * prompt_s(worker, 1000.0))
    steps = (decode_step_s(one, 1000.0, 101.0, 8.0) for one in (slower, worker))
    assert next(steps) == pytest.approx(2 * next(steps))
    recipe = replace(ENGINE, recipe=Recipe(tpot_scale=1.25))
    learnt = ServingPool(replace(worker.deployed, engine=recipe))
    assert learnt.step_scale == 1.25 and worker.step_scale == 1.0


def test_drafts_shorten_answers():
    worker = pool(DENSE, "h100")
    drafts = speculation(built(DENSE), "eagle", Acceptance.of_rate(0.8, 3))
    model = SpeculativeModel(built(DENSE), drafts)
    drafting = replace(worker, deployed=deploy(model, hardware_db.load("h100"), ENGINE))
    faster = answers_per_s(drafting, 1000.0, 500.0, 8.0) / answers_per_s(worker, 1000.0, 500.0, 8.0)
    assert 1.5 < faster[0] < drafts.acceptance.tokens_per_step


# ------------------------------------------------------------------------------- balance


def test_pools_in_balance_are_both_full():
    prefill, decode = pool(DENSE, "h100", 3), pool(DENSE, "h100", 5)
    found = balance(Disaggregation(prefill, Transfer(50e9)), decode, 8000.0, 100.0)
    matched = found.prefill_per_decode * found.decode_workers
    assert matched * found.prompts_per_s == pytest.approx(5 * found.answers_per_s)
    assert found.requests_per_s == min(3 * found.prompts_per_s, 5 * found.answers_per_s)
    assert found.slower == "prefill" and matched > 3


def test_pools_of_two_models_have_no_balance():
    apart = Disaggregation(pool(DENSE, "h100"), Transfer(50e9))
    with pytest.raises(InvalidValue, match="both pools need the same model"):
        balance(apart, pool("meta-llama/Llama-3.2-1B", "h100"), 1000.0, 100.0)


# ------------------------------------------------------------------------------- the simulator


@dataclass(frozen=True)
class Case:
    """Both pools and a closed loop of users through them."""

    prefill: ServingPool
    decode: ServingPool
    isl: int
    osl: int
    users: int

    def simulated(self, transfer: Transfer, waves: int = 6) -> Simulation:
        count = waves * self.users
        generator = np.random.default_rng(0)
        output = generator.integers(int(0.8 * self.osl), int(1.2 * self.osl) + 1, count)
        load = Requests(np.zeros(count), np.full(count, float(self.isl)), output)
        return simulate(
            self.decode.deployed.model,
            self.decode.deployed.system,
            load,
            self.decode.parallelism,
            ENGINE,
            concurrency=self.users,
            replicas=self.decode.workers,
            disaggregation=Disaggregation(self.prefill, transfer),
        )


CASES = {
    "one to one": Case(pool(DENSE, "h100"), pool(DENSE, "h100"), 1000, 200, 64),
    "prefill decides": Case(pool(DENSE, "h100"), pool(DENSE, "h100", 2), 6000, 50, 64),
    "two kinds of devices": Case(
        pool("meta-llama/Llama-3.1-70B", "h100", 2, tp=4),
        pool("meta-llama/Llama-3.1-70B", "h200", 1, tp=4),
        4000, 300, 32,
    ),
    "experts over ranks": Case(
        pool(LATENT, "b200", 1, tp=8, ep=8), pool(LATENT, "b200", 1, dp=8, ep=8), 2000, 200, 128
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_closed_form_is_near_the_simulator(case):
    """Throughput and TPOT of a closed loop, after its first wave has spread."""
    case, transfer = CASES[case], Transfer(50e9, 1e-3)
    run = case.simulated(transfer)
    apart = Disaggregation(case.prefill, transfer)
    closed = closed_loop(apart, case.decode, case.isl, case.osl, case.users)
    ends = np.sort(run.arrival_s + run.e2e_s)
    inside = ends[case.users : -case.users]
    rate = (len(inside) - 1) / (inside[-1] - inside[0])
    assert closed.requests_per_s == pytest.approx(rate, rel=0.1)
    assert closed.tpot_s == pytest.approx(float(np.nanmean(run.tpot_s)), rel=0.1)
    steady = run.ttft_s[2 * case.users : -case.users]
    assert closed.ttft_s == pytest.approx(float(np.mean(steady)), rel=0.4)


def test_workers_in_balance_keep_both_pools_busy():
    worker = pool(DENSE, "h100")
    isl, osl = 6000, 60
    found = balance(Disaggregation(worker, Transfer(50e9)), worker, isl, osl)
    decode = 2
    prefill = round(decode * found.prefill_per_decode)
    assert prefill >= 1
    users = int(decode * found.running)
    case = Case(replace(worker, workers=prefill), replace(worker, workers=decode), isl, osl, users)
    run = case.simulated(Transfer(50e9), waves=4)
    fewer = replace(case, prefill=replace(worker, workers=max(prefill // 2, 1)))
    assert run.busy.min() > 0.75
    assert fewer.simulated(Transfer(50e9), waves=4).busy[0] > 0.9


def test_answers_of_one_token_need_no_decode_worker():
    worker = pool(DENSE, "h100")
    load = closed_loop(Disaggregation(worker, Transfer(50e9)), worker, 4000, 1, 16)
    assert load.running == 0.0 and load.requests_per_s == pytest.approx(
        prompts_per_s(worker, 4000.0), rel=0.05
    )


def test_the_way_of_the_cache_counts_once_and_only_for_answers_that_go_on():
    """One user: 4,000 tokens of 131,072 bytes (32 layers of 8 heads) over 1 GB/s: 0.524 s."""
    worker = pool(DENSE, "h100")

    def request_s(link: float, osl: float) -> float:
        apart = Disaggregation(worker, Transfer(link))
        return 1.0 / closed_loop(apart, worker, 4000, osl, 1).requests_per_s

    way = request_s(1e9, 200) - request_s(1e15, 200)
    assert way == pytest.approx(4000 * 32 * 2 * 8 * 128 * 2 / 1e9, rel=0.01)
    assert request_s(1e9, 1) == request_s(1e15, 1)


@pytest.mark.parametrize(("shown_by", "shown"), [("decode", 1.0), ("prefill", 0.0)])
def test_the_way_delays_the_token_of_the_worker_that_shows_it(shown_by, shown):
    """It delays the first token if the decode worker sends it, otherwise those after it."""
    worker, osl = pool(DENSE, "h100"), 200
    slow, fast = (
        closed_loop(Disaggregation(worker, Transfer(link, shown_by=shown_by)), worker, 4000, osl, 1)
        for link in (1e9, 1e15)
    )
    way = 4000 * 131072 / 1e9
    assert slow.ttft_s - fast.ttft_s == pytest.approx(shown * way, abs=0.01 * way)
    rest = (slow.tpot_s - fast.tpot_s) * (osl - 1)
    assert rest == pytest.approx((1 - shown) * way, abs=0.01 * way)


def test_more_users_never_lower_what_is_served():
    worker = pool(DENSE, "h100")
    apart = Disaggregation(worker, Transfer(50e9))
    loads = [closed_loop(apart, worker, 4000, 200, users) for users in (1, 4, 16, 64, 256, 1024)]
    assert np.all(np.diff([load.requests_per_s for load in loads]) > -1e-9)
    assert np.all(np.diff([load.ttft_s for load in loads]) > -1e-9)
    residence = [load.ttft_s + load.tpot_s * 199 for load in loads]
    users = [load.requests_per_s * time for load, time in zip(loads, residence, strict=True)]
    assert users == pytest.approx([1, 4, 16, 64, 256, 1024])
