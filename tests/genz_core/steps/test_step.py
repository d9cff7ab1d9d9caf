"""The laws of every price, on a model and a system that can be checked by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import genz_core
from genz_core.engine import EngineProfile
from genz_core.steps.placed_graph import stage_runs
from genz_core.steps.step_estimate import PARTS
from genz_core.types import Group, Parallelism, Workload

relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
batches, lengths = st.integers(1, 512), st.integers(1, 20_000)
degrees = st.sampled_from([1, 2, 4, 8])


@relaxed
@given(batches, lengths, degrees, st.sampled_from([1, 2, 4]))
def test_no_prediction_lies_below_its_bound(model, system, batch, isl, tp, pp):
    split = Parallelism(tp=tp, pp=pp)
    for step in (
        genz_core.prefill(model, system, Workload(batch, isl), split),
        genz_core.decode_step(model, system, batch, isl, split),
    ):
        assert np.all(step.expected_s >= step.bound_s)
        assert np.all(step.total_s >= step.bound_total_s)


@relaxed
@given(batches, lengths, degrees)
def test_parts_sum_to_the_total(model, system, batch, isl, tp):
    split = Parallelism(tp=tp, pp=2)
    step = genz_core.prefill(model, system, Workload(batch, isl), split)
    parts = sum(part.sum(0) for part in step.parts().values())
    assert parts + step.pipeline_s + step.host_s == pytest.approx(step.total_s)
    assert set(step.parts()) == set(PARTS)


@relaxed
@given(batches, lengths)
def test_utilisation_never_passes_one(model, system, batch, isl):
    for step in (
        genz_core.prefill(model, system, Workload(batch, isl)),
        genz_core.decode_step(model, system, batch, isl),
    ):
        time = step.total_s
        assert np.all((step.flops * step.runs[:, None]).sum(0) <= time * system.peak("bf16"))
        assert np.all((step.bytes * step.runs[:, None]).sum(0) <= time * system.memory_bytes_per_s)


@relaxed
@given(batches, lengths)
def test_more_work_never_takes_less_bound_time(model, system, batch, isl):
    base = genz_core.decode_step(model, system, batch, isl).bound_total_s
    assert genz_core.decode_step(model, system, batch + 1, isl).bound_total_s >= base
    assert genz_core.decode_step(model, system, batch, isl + 1).bound_total_s >= base
    prefill = genz_core.prefill(model, system, Workload(batch, isl)).bound_total_s
    assert genz_core.prefill(model, system, Workload(batch, isl + 1)).bound_total_s >= prefill


@pytest.mark.parametrize("field", ["memory_bytes_per_s", "peak_flops_per_s", "links"])
def test_a_better_resource_never_makes_it_slower(model, system, field):
    better = {
        "memory_bytes_per_s": system.memory_bytes_per_s * 2,
        "peak_flops_per_s": {k: v * 2 for k, v in system.peak_flops_per_s.items()},
        "links": tuple(replace(x, bytes_per_s=x.bytes_per_s * 2) for x in system.links),
    }[field]
    quicker = replace(system, **{field: better})
    load, split = Workload(8, 2000, 200), Parallelism(tp=4)
    slow, fast = (genz_core.estimate(model, s, load, split) for s in (system, quicker))
    assert fast.ttft_s <= slow.ttft_s and fast.tpot_s <= slow.tpot_s
    assert fast.bound_ttft_s <= slow.bound_ttft_s


@pytest.mark.parametrize("tp", [2, 4])
def test_tensor_parallel_conserves_flops(model, system, tp):
    def flops(degree: int) -> float:
        step = genz_core.prefill(model, system, Workload(4, 100), Parallelism(tp=degree))
        wanted = [op.kind in ("gemm", "attention") for op in step.graph.ops]
        return float((step.flops * step.runs[:, None])[wanted].sum())

    assert flops(tp) * tp == pytest.approx(flops(1))


def test_decode_at_batch_one_moves_every_weight_once_but_the_embedding(model, system):
    step = genz_core.decode_step(model, system, 1, 0)
    weights = sum(op.weight_bytes * op.count for op in step.graph.ops if op.kind != "embedding")
    table = 1000 * 512
    assert weights == pytest.approx(2 * (model.parameters - table))


def test_a_mean_decode_step_lies_between_its_ends(model, system):
    load = Workload(32, 100, 4000)
    mean = genz_core.decode(model, system, load).total_s
    first, last = (genz_core.decode_step(model, system, 32, c).total_s for c in (100, 4098))
    assert first < mean < last


def test_a_pipeline_of_one_micro_batch_takes_the_sum_of_its_stages(model, system):
    single = genz_core.prefill(model, system, Workload(1, 512), Parallelism(pp=1))
    double = genz_core.prefill(model, system, Workload(1, 512), Parallelism(pp=2))
    hop = [
        float(double.expected_s[at, 0])
        for at, op in enumerate(double.graph.ops)
        if op.name == "stage"
    ]
    assert double.total_s == pytest.approx(single.total_s + hop)


def test_each_stage_but_the_last_sends_one_message_on(model, system):
    step = genz_core.prefill(model, system, Workload(1, 512), Parallelism(pp=4))
    sends = stage_runs(step.graph, 4)[:, [op.name for op in step.graph.ops].index("stage")]
    assert sends == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])


def test_micro_batches_wait_for_the_slowest_stage(model, system):
    split = Parallelism(pp=4, micro_batches=8)
    step = genz_core.prefill(model, system, Workload(8, 512), split)
    assert step.pipeline_s == pytest.approx(7 * step.stage_s)


def test_a_full_decode_pipeline_hides_the_way_through(model, system):
    split = Parallelism(pp=2, micro_batches=16)
    step = genz_core.decode_step(model, system, 16, 512, split)
    assert step.total_s == pytest.approx(16 * step.stage_s + step.host_s)


def test_host_time_is_counted_once_a_step(model, system):
    lazy = EngineProfile(host_step_s=1.0, host_sequence_s=0.5)
    step = genz_core.decode_step(model, system, 4, 10, engine=lazy)
    assert step.host_s == pytest.approx(3.0)
    assert step.total_s > 3.0


def test_the_operator_table_adds_up_and_names_what_binds(model, system):
    step = genz_core.decode_step(model, system, 1, 1000)
    table = step.table()
    assert sum(table["share"]) == pytest.approx(1.0)
    assert sum(table["predicted_s"]) == pytest.approx(float(step.operators_s.sum()))
    bound_of = dict(zip(table["name"], table["bound"], strict=True))
    assert bound_of["gate_up_proj"] == "memory"
    assert bound_of["final_norm"] == "overhead"


def test_what_a_kernel_waits_for_is_named_after_its_longer_stage(model, system):
    """A memory-bound product may still wait for its tiles, because padded rows cost arithmetic."""
    peaks = {name: peak / 20.0 for name, peak in system.peak_flops_per_s.items()}
    slow = genz_core.decode_step(model, replace(system, peak_flops_per_s=peaks), 1, 1000)
    product = [op.name for op in slow.graph.ops].index("gate_up_proj")
    assert slow.memory_s[product] > slow.compute_s[product]
    assert slow.parts()["tiles"][product] > 0.0
    assert slow.parts()["bandwidth"][product] == 0.0
    assert slow.table()["bound"][product] == "compute"


def test_unequal_queries_cost_what_they_cost_alone(model, system):
    """A prefill chunk with decodes: attention per group, products over all tokens."""
    mixed = genz_core.mixed(model, system, [Group(1, 511, 1024), Group(3, 1, 1600)])
    attended = [float(op.flops) for op in mixed.graph.ops if op.kind == "attention"]
    pairs = 511 * 1024 + 511 * 512 / 2
    assert attended == [2 * pairs * 8 * 128, 2 * 3 * 1601 * 8 * 128]
    qkv = next(op for op in mixed.graph.ops if op.name == "qkv_proj")
    assert qkv.dims["m"] == 514


@pytest.mark.parametrize("new, cached", [(64, 0), (512, 2000)])
def test_equal_prompts_cost_the_same_however_they_are_grouped(model, system, new, cached):
    decodes = Group(5, 1, 1600)
    together = genz_core.mixed(model, system, [Group(6, new, cached), decodes])
    apart = genz_core.mixed(model, system, [*[Group(2, new, cached)] * 3, decodes])
    assert apart.total_s == pytest.approx(together.total_s, rel=1e-9)


def test_a_kernel_of_unequal_prompts_takes_longer_than_of_any_and_less_than_of_each_alone(
    model, system
):
    groups = [Group(1, 4096, 0), Group(9, 32, 512), Group(2, 700, 100)]

    def attention_s(*groups):
        step = genz_core.mixed(model, system, groups)
        kernels = [op.kind == "attention" for op in step.graph.ops]
        return float(step.operators_s[kernels].sum())

    alone = [attention_s(group) for group in groups]
    assert max(alone) <= attention_s(*groups) < sum(alone)


@pytest.mark.parametrize("ranks", [1, 8, 64])
def test_the_host_of_a_rank_serves_its_own_sequences(model, system, ranks):
    engine = EngineProfile(host_step_s=1e-3, host_sequence_s=1e-5)
    alike = genz_core.decode_step(model, system, 128 * ranks, 100, Parallelism(dp=ranks), engine)
    assert alike.host_s[0] == pytest.approx(1e-3 + 128 * 1e-5)
    uneven = genz_core.decode_step(model, system, ranks + 1, 100, Parallelism(dp=ranks), engine)
    assert uneven.host_s[0] == pytest.approx(1e-3 + 2 * 1e-5)
