"""Overlap of work with the exchange of tokens, redundant experts, node-limited routing,
placement.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import genz_core
import hardware_db
import model_registry
from genz_core import Parallelism, Workload
from genz_core import operators as op
from genz_core.errors import InvalidParallelism
from genz_core.latency import Pricer
from genz_core.latency.topology import Exchange, tiers
from genz_core.models.degrees import other_count, placed, stride_of
from genz_core.operators import places_reached
from genz_core.phases import decode_step
from genz_core.steps.overlap import OVERLAPS
from genz_core.types import Step
from genz_core.workload import bounds
from tests.draws import cases

DEEPSEEK = model_registry.load("deepseek-ai/DeepSeek-V3")
H100 = hardware_db.load("h100-sxm5-80gb")
SGLANG, VLLM = hardware_db.load_engine("sglang"), hardware_db.load_engine("vllm")


def step_s(ep: int, sequences: int = 256, context: int = 2000, **split) -> float:
    """A decode step with a number of sequences per device, every device an attention rank [s]."""
    parallelism = Parallelism(dp=ep, ep=ep, **split)
    step = decode_step(DEEPSEEK, H100, sequences * ep, context, parallelism, SGLANG)
    return float(step.total_s[0])


# ------------------------------------------------------------------------------- outside answers


@pytest.mark.parametrize(("ep", "redundant"), [(64, 0), (72, 32)])
def test_deepseek_on_nine_h100_nodes_decodes_as_fast_as_was_published(ep, redundant):
    """22,282 output tokens/s per node of eight at EP 72, 256 sequences per device, inputs of
    2,000, two-batch overlap (LMSYS, 2025-05-05, lmsys.org/blog/2025-05-05-large-scale-ep).
    """
    tokens_per_s = 8 * 256 / step_s(ep, redundant_experts=redundant, overlap="two_batch")
    assert tokens_per_s == pytest.approx(22_282, rel=0.12)


@pytest.mark.parametrize(("ep", "dispatch_us", "combine_us"), [(64, 173, 314), (128, 192, 369)])
def test_low_latency_exchanges_take_what_their_authors_state(ep, dispatch_us, combine_us):
    """H800, 128 tokens of 7,168 to 8 experts, dispatch in fp8, combine in 16 bits (DeepEP,
    docs/legacy.md).
    """
    graph = DEEPSEEK.graph(Step.decode(128 * ep, 2000), Parallelism(dp=ep, ep=ep))
    pricer = Pricer(hardware_db.load("h800-sxm5-80gb"), SGLANG)
    times = {o.name: float(pricer.expected_s(o)[()]) * 1e6 for o in graph.ops if "moe_" in o.name}
    assert times["moe_dispatch"] == pytest.approx(dispatch_us, rel=0.2)
    assert times["moe_combine"] == pytest.approx(combine_us, rel=0.2)


def test_tokens_of_prompts_go_to_four_nodes_at_most_once_each():
    """DeepSeek-V3: 4 of 8 groups; 8 experts are on 3.6 of 4 nodes, among 64 devices in half of
    them.
    """
    assert places_reached(8, 8, 8, 4) == pytest.approx(4 * (1 - 0.75**8))
    assert places_reached(8, 64, 8, 4) == pytest.approx(32 * (1 - (31 / 32) ** 8))
    graph = DEEPSEEK.graph(Step.prefill(64, 4096), Parallelism(dp=64, ep=64))
    dispatch = next(o for o in graph.ops if o.name == "moe_dispatch")
    d = dispatch.dims
    routed = Exchange(*(np.asarray(d[name]) for name in op.ROUTED))
    inner, outer = tiers(
        "all_to_all", dispatch.message_bytes, 64, dispatch.stride, H100.links, routed
    )
    one_copy = 4096 * 7168 * (1 + 4 / 128)
    assert outer.message_bytes == pytest.approx(one_copy * 4 * (1 - 0.75**8))
    assert inner.message_bytes == pytest.approx(one_copy * 32 * (1 - (31 / 32) ** 8))


def test_tokens_go_out_in_the_experts_format_and_come_back_in_sixteen_bit():
    graph = DEEPSEEK.graph(Step.decode(16 * 64, 1000), Parallelism(dp=64, ep=64))
    sizes = {o.name: float(np.max(o.message_bytes)) for o in graph.ops if o.kind == "all_to_all"}
    assert sizes["moe_dispatch"] == pytest.approx(16 * 8 * 7168 * (1 + 4 / 128))
    assert sizes["moe_combine"] == pytest.approx(16 * 8 * 7168 * 2)


# ------------------------------------------------------------------------------- redundant experts


@pytest.mark.parametrize("ep", [72, 144])
def test_copies_of_experts_make_odd_degrees_run(ep):
    with pytest.raises(InvalidParallelism, match="or 32 redundant experts"):
        genz_core.estimate(DEEPSEEK, H100, Workload(ep), Parallelism(dp=ep, ep=ep), VLLM)
    even = Parallelism(dp=ep, ep=ep, redundant_experts=32)
    graph = DEEPSEEK.graph(Step.decode(ep, 100), even)
    experts = next(o for o in graph.ops if o.kind == "moe")
    assert experts.dims["experts"] == (256 + 32) / ep
    assert experts.dims["rows"] == pytest.approx(ep * 8 / ep)


def test_copies_take_memory_and_wrong_numbers_of_them_are_named():
    few, more = (
        genz_core.estimate(
            DEEPSEEK, H100, Workload(64), Parallelism(dp=64, ep=64, redundant_experts=extra), SGLANG
        ).memory.weights_bytes[0]
        for extra in (0, 64)
    )
    one_expert = 58 * 3 * 7168 * 2048
    assert more - few == pytest.approx(one_expert, rel=0.02)
    odd = Parallelism(dp=72, ep=72, redundant_experts=30)
    assert "use 32 redundant experts" in str(DEEPSEEK.invalid(odd))


# ------------------------------------------------------------------------------- laws


@settings(max_examples=cases(12), deadline=None)
@given(
    ep=st.sampled_from([8, 16, 32, 64]),
    sequences=st.integers(1, 300),
    new=st.sampled_from([1, 700]),
    overlap=st.sampled_from(OVERLAPS),
)
def test_every_overlap_keeps_the_laws_of_a_step(ep, sequences, new, overlap):
    split = Parallelism(dp=ep, ep=ep, overlap=overlap)
    load = Workload(sequences * ep, new + 1, 9)
    priced = genz_core.estimate(DEEPSEEK, H100, load, split, SGLANG, on_error="status")
    for step in (priced.prefill, priced.decode):
        assert np.all(step.bound_s <= step.expected_s * (1 + 1e-9))
        assert np.all(step.bound_total_s <= step.total_s * (1 + 1e-9))
        assert sum(step.parts().values()) == pytest.approx(step.operators_s)
    least = bounds(DEEPSEEK, H100, load, split, SGLANG)
    assert least[0] == pytest.approx(priced.bound_ttft_s)
    assert least[1] == pytest.approx(priced.bound_tpot_s)


def test_an_array_of_degrees_is_priced_as_each_alone_with_an_overlap():
    degrees = np.array([16.0, 32.0, 72.0])
    extra = np.array([0.0, 0.0, 32.0])
    together = Parallelism(dp=degrees, ep=degrees, redundant_experts=extra, overlap="two_batch")
    priced = decode_step(DEEPSEEK, H100, 64 * degrees, 1000, together, SGLANG).total_s
    alone = [
        step_s(int(ep), 64, 1000, redundant_experts=int(r), overlap="two_batch")
        for ep, r in zip(degrees, extra, strict=True)
    ]
    assert priced == pytest.approx(alone, rel=1e-9)


def test_two_halves_pay_for_large_batches_and_cost_small_ones():
    """Each half reads the weights again."""
    assert step_s(64, overlap="two_batch") < 0.8 * step_s(64)
    assert step_s(64, 4, overlap="two_batch") > step_s(64, 4)
    assert step_s(64, 1, overlap="two_batch") == pytest.approx(step_s(64, 1))


def test_shared_experts_hide_no_more_than_their_own_time():
    """Of kernels in series: beside the routed ones they take no time of their own to hide."""
    series = replace(SGLANG, shared_beside=False)
    plain, hidden = (
        decode_step(DEEPSEEK, H100, 256 * 64, 2000, split, series).total_s[0]
        for split in (
            Parallelism(dp=64, ep=64),
            Parallelism(dp=64, ep=64, overlap="shared_experts"),
        )
    )
    graph = DEEPSEEK.graph(Step.decode(256 * 64, 2000), Parallelism(dp=64, ep=64))
    pricer = Pricer(H100, series)
    shared = sum(
        float(pricer.expected_s(o)[()]) * o.count for o in graph.ops if "moe.shared" in o.module
    )
    assert 0 < plain - hidden <= 1.03 * shared  # like the deployment; constants differ a little


# ------------------------------------------------------------------------------- placed degrees


def test_degrees_are_placed_in_the_order_of_their_string():
    split = Parallelism(tp=4, pp=2, dp=8)
    assert [stride_of(name, split) for name in ("tp", "dp", "pp")] == [1, 4, 32]
    other = Parallelism(tp=4, pp=2, dp=8, order=placed(["pp", "tp"]))
    assert [stride_of(name, other) for name in ("pp", "tp", "dp")] == [1, 2, 8]
    assert placed(["tp", "ep", "pp"]) == ()
    with pytest.raises(InvalidParallelism, match="cannot place 'xp'"):
        placed(["xp"])


@pytest.mark.parametrize(("order", "stride"), [((), 2.0), (("ep", "tp"), 1.0)])
def test_experts_inside_tensor_parallelism_are_neighbours(order, stride):
    split = Parallelism(tp=2, dp=4, ep=4, order=placed(order))
    assert stride_of("ep", split) == stride


def test_stages_inside_a_node_drive_sums_out_of_it():
    model = model_registry.load("meta-llama/Llama-3.1-8B")
    usual, inner = (
        decode_step(model, H100, 64, 1000, Parallelism(tp=8, pp=2, order=order))
        for order in ((), placed(["pp", "tp"]))
    )
    rows = [at for at, o in enumerate(usual.graph.ops) if o.kind == "all_reduce"]
    assert np.all(inner.bound_s[rows] >= usual.bound_s[rows])
    assert np.any(inner.bound_s[rows] > 2 * usual.bound_s[rows])
    hops = [at for at, o in enumerate(usual.graph.ops) if o.kind == "send_recv"]
    assert np.all(inner.bound_s[hops] < usual.bound_s[hops])


def test_a_string_that_genz_runs_on_more_devices_says_so():
    assert other_count({"tp": 4, "pp": 2}) == ""
    assert other_count({"tp": 4, "ep": 2, "pp": 1}).startswith(
        "tp 4 x ep 2 x pp 1: GenZ uses 8 devices for this, Ridgeline 4"
    )
