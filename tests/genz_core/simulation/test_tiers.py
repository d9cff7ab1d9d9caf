"""Tiers of the prefix cache: what each finds, what a read takes, and laws of both."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from genz_core.errors import InvalidValue
from genz_core.serving.cache_tiers import CacheTier
from genz_core.serving.simulation import Options, Requests, simulate
from tests.draws import cases, seed
from tests.genz_core.simulation.loads import ENGINE, READING
from tests.lru_replay import replay, rows

SCHEDULERS = ("vllm", "sglang", "tensorrt_llm")
every_scheduler = pytest.mark.parametrize("name", SCHEDULERS)
TOKEN = 4 * 2 * 4 * 64 * 2.0  # bytes: keys and values of four layers, four heads of 64, 16 bit
BLOCK = 16


def tier(blocks, name="host", per_s=1e9, latency_s=0.0, *, shared=False) -> CacheTier:
    return CacheTier(name, blocks * BLOCK * TOKEN, per_s, latency_s, shared)


def sessions(generator, count=24, shared=3, longest=40) -> Requests:
    """Requests that begin with one of some prompts and go on alone or as one another does."""
    roots = [range(1000 * r, 1000 * r + longest) for r in range(1, shared + 1)]
    prompts, prefixes = [], []
    for _ in range(count):
        root = roots[generator.integers(shared)]
        prompt = int(generator.integers(BLOCK, longest * BLOCK))
        prompts.append(prompt)
        prefixes.append(tuple(root))
    outputs = generator.integers(1, 60, count)
    arrival = np.sort(generator.uniform(0, 2.0, count))
    return Requests(arrival, prompts, outputs, prefix=prefixes, block_tokens=BLOCK)


def served(model, system, requests, tiers=(), name="vllm", **more):
    engine = replace(ENGINE, scheduler=name)
    options = {"max_num_seqs": 1, "kv_tokens": 1200.25, **more.pop("options", {})}
    told = Options(tiers=tuple(tiers), **options)
    return simulate(model, system, requests, engine=engine, options=told, price=READING, **more)


def hits(run) -> np.ndarray:
    """Blocks that each request found on the device and in each tier, [requests, tiers]."""
    below = [run.tier_tokens[name] for name in run.tier_tokens]
    return np.array([run.cached_tokens - sum(below), *below]).T / run.requests.block_tokens


# ------------------------------------------------------------------------------- by hand


def two(gap_s=100.0, other=1000) -> Requests:
    """A prompt of 512 tokens, one of 992 others that fills the device, and the first again."""
    prefix = [range(32), range(other, other + 62), range(32)]
    return Requests(
        gap_s * np.arange(3), [513, 993, 513], [1, 1, 1], prefix=prefix, block_tokens=BLOCK
    )


@every_scheduler
def test_a_prompt_that_the_device_has_lost_comes_from_the_host(name, model, system):
    plain = served(model, system, two(), name=name)
    run = served(model, system, two(), [tier(200)], name)
    assert plain.cached_tokens.tolist() == [0, 0, 192]  # 1,200.25 tokens less 993, 7.5: 12 blocks
    assert run.cached_tokens.tolist() == [0, 0, 512]
    assert run.tier_tokens["host"].tolist() == [0, 0, 512 - 192]
    read_s = (512 - 192) * TOKEN / 1e9
    assert run.loading_s.tolist() == pytest.approx([0, 0, read_s])
    assert run.queue_s[2] == pytest.approx(read_s)
    assert run.ttft_s[2] == pytest.approx(read_s + 0.01 + 1e-5)
    assert plain.ttft_s[2] == pytest.approx(0.01 + 321e-5)


def test_a_read_takes_its_latency_and_waits_for_the_read_before_it(model, system):
    prompts = [range(32), range(100, 132)]
    load = Requests(
        [0, 0, 50, 50], [513] * 4, [1] * 4, prefix=[*prompts, *prompts], block_tokens=BLOCK
    )
    told = {"max_num_seqs": 4, "kv_tokens": 1200.25}
    fill = Requests(
        [0, 0, 20, 50, 50], [513, 513, 1100, 513, 513], [1] * 5,
        prefix=[*prompts, range(500, 568), *prompts], block_tokens=BLOCK,
    )  # fmt: skip
    run = served(model, system, fill, [tier(500, per_s=1e8, latency_s=0.25)], options=told)
    parts = run.tier_tokens["host"][3:] * TOKEN / 1e8
    assert parts.min() > 0
    assert run.loading_s[3:] == pytest.approx(np.cumsum(parts) + 0.25)
    assert served(model, system, load, options=told).tier_tokens == {}


def test_others_decode_while_a_request_waits_for_its_blocks(model, system):
    prefix = [range(32), range(1000, 1062), range(2000, 2004), range(32)]
    load = Requests(
        [0, 20, 40, 41.0], [513, 993, 70, 513], [1, 1, 400, 1], prefix=prefix, block_tokens=BLOCK
    )
    slow = [tier(200, per_s=1e6)]
    run = served(model, system, load, slow, options={"max_num_seqs": 2})
    assert run.loading_s[3] > 0.5
    assert run.tpot_s[2] == pytest.approx(0.01, rel=0.02)
    assert run.ttft_s[3] == pytest.approx(run.loading_s[3] + 0.01, abs=0.021)


def test_the_first_tier_that_has_a_block_is_read(model, system):
    two_tiers = [tier(40), tier(400, "disk", per_s=1e8)]
    run = served(model, system, two(), two_tiers, options={"kv_tokens": 1008.25})
    assert run.cached_tokens[2] == 512
    assert hits(run)[2].tolist() == [0, 0, 32]  # the host's 40 blocks are those of the second
    written = {"host": 32 + 40 + 32, "disk": 32 + 62}
    assert run.written_bytes == {n: b * BLOCK * TOKEN for n, b in written.items()}


def test_what_is_written_on_eviction_is_not_written_before(model, system):
    run = served(model, system, two(), [tier(200)], options={"cache_writes": "back"})
    assert run.cached_tokens.tolist() == [0, 0, 512]
    through = served(model, system, two(), [tier(200)])
    assert run.written_bytes["host"] < through.written_bytes["host"]


def test_a_shared_tier_serves_other_replicas(model, system):
    load = Requests([0, 100], [513, 513], [1, 1], prefix=[range(32)] * 2, block_tokens=BLOCK)
    apart = {"replicas": 2, "routing": "round_robin"}
    own = served(model, system, load, [tier(200)], **apart)
    all_have = served(model, system, load, [tier(200, "remote", shared=True)], **apart)
    assert own.cached_tokens.tolist() == [0, 0]
    assert all_have.tier_tokens["remote"].tolist() == [0, 512]


def test_requests_go_where_a_tier_has_their_prefix(model, system):
    load = Requests(
        [0, 10, 20, 30, 40], [513, 993, 993, 993, 513], [1] * 5,
        prefix=[range(32), *(range(k, k + 62) for k in (1000, 2000, 3000)), range(32)],
        block_tokens=BLOCK,
    )  # fmt: skip
    found = {
        routing: served(
            model, system, load, [tier(600)], replicas=2, routing=routing
        ).cached_tokens[4]
        for routing in ("prefix", "round_robin", "least_loaded")
    }
    assert found["prefix"] == 512
    assert found["prefix"] >= max(found.values())


@every_scheduler
def test_two_that_wait_for_each_others_room_are_read_one_after_the_other(name, model, system):
    """Both have half of their prompt in the host; the device has room for one and a half."""
    first, second = range(60), range(100, 160)
    load = Requests(
        [0, 10, 20, 30, 30], [450, 450, 993, 913, 913], [1, 1, 1, 20, 20],
        prefix=[first, second, range(1000, 1062), first, second], block_tokens=BLOCK,
    )  # fmt: skip
    told = {"max_num_seqs": 4, "max_num_batched_tokens": 256}
    run = served(model, system, load, [tier(300)], name, options=told)
    assert run.ended.all() and run.cached_tokens[3] == 28 * BLOCK


# ------------------------------------------------------------------------------- laws


def drawn(number, base):
    for at in range(cases(number)):
        yield np.random.default_rng(seed(base) + at)


@pytest.mark.draws
@every_scheduler
def test_hits_of_each_tier_are_those_of_stack_distances(name, model, system):
    for generator in drawn(17, 1):
        load = sessions(generator)
        sizes = sorted(generator.integers(1, 120, 3).tolist())
        tiers = [tier(n + 0.5, t) for n, t in zip(sizes, ("host", "disk", "remote"), strict=True)]
        run = served(model, system, load, tiers, name)
        assert hits(run).tolist() == replay(
            rows(load), BLOCK, 1200.25, sizes, reserves=name == "tensorrt_llm"
        )


@pytest.mark.draws
@pytest.mark.parametrize("writes", ["through", "back"])
def test_a_larger_tier_never_hits_less(writes, model, system):
    """Served in a fixed order, by least recent use: what is held is held by every larger one."""
    for generator in drawn(25, 2):
        load = sessions(generator)
        sizes = generator.integers(1, 80, 3)
        larger = sizes + generator.integers(0, 60, 3) * (generator.random(3) < 0.5)
        few, many = (
            served(
                model, system, load,
                [tier(n + 0.5, t) for n, t in zip(size, ("host", "disk", "remote"), strict=True)],
                options={"cache_writes": writes},
            ) for size in (sizes, larger)
        )  # fmt: skip
        assert np.all(many.cached_tokens >= few.cached_tokens)
        none = served(model, system, load)
        assert np.all(few.cached_tokens >= none.cached_tokens)


@pytest.mark.draws
@every_scheduler
def test_a_slower_tier_never_makes_a_first_token_earlier(name, model, system):
    """Served one at a time: hits are the same, and every request is served later or as late."""
    for generator in drawn(17, 3):
        load, blocks = sessions(generator), generator.integers(20, 120, 2)
        speeds = 10.0 ** generator.uniform(7, 9, 2)
        slower = speeds / (1.0 + generator.random(2) * 3)
        wait_s = generator.random(2) * 0.01
        fast, slow = (
            served(
                model, system, load,
                [
                    tier(n, t, v, s)
                    for n, t, v, s in zip(blocks, ("host", "disk"), per_s, late, strict=True)
                ],
                name,
            ) for per_s, late in ((speeds, (0.0, 0.0)), (slower, wait_s))
        )  # fmt: skip
        assert np.all(slow.cached_tokens == fast.cached_tokens)
        assert np.all(slow.ttft_s >= fast.ttft_s - 1e-9)


@pytest.mark.draws
@every_scheduler
def test_every_request_is_answered_and_the_cache_never_overflows(name, model, system):
    """With many at once, small tiers and preemptions."""
    for generator in drawn(5, 4):
        load = sessions(generator, 60)
        tiers = [tier(60, per_s=1e7), tier(200, "remote", per_s=1e7, shared=True)]
        run = served(
            model, system, load, tiers, name, replicas=2, routing="prefix",
            options={"max_num_seqs": 8, "kv_tokens": 900.25},
        )  # fmt: skip
        assert run.ended.all()
        assert np.all(run.series["kv_use"] <= 1.0 + 1e-9)
        assert np.all(run.cached_tokens < load.input_tokens)
        assert np.all(run.loading_s <= run.queue_s + 1e-9)


@every_scheduler
def test_tiers_that_find_nothing_change_nothing(name, model, system):
    load = sessions(np.random.default_rng(5), 60)
    alone = replace(load, prefix=())
    more = {"options": {"max_num_seqs": 8}, "concurrency": 6}
    without = served(model, system, alone, name=name, **more)
    below = served(model, system, alone, [tier(100)], name, **more)
    for column in ("ttft_s", "tpot_s", "e2e_s", "queue_s", "cached_tokens"):
        assert np.array_equal(getattr(without, column), getattr(below, column), equal_nan=True)


# ------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("size", "per_s", "latency_s", "words"),
    [(0.0, 1e9, 0.0, "size_bytes = 0"), (1e9, 0.0, 0.0, "read_bytes_per_s = 0"),
     (1e9, 1e9, -1.0, "latency_s must be")],
)  # fmt: skip
def test_a_tier_needs_a_size_and_a_bandwidth(size, per_s, latency_s, words):
    with pytest.raises(InvalidValue, match=words):
        CacheTier("host", size, per_s, latency_s)


def test_a_static_batch_keeps_no_prefixes(model, system):
    with pytest.raises(InvalidValue, match="so cache tiers have no effect"):
        served(model, system, two(), [tier(10)], "static")
