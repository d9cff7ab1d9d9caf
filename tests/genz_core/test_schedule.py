"""Prompts in chunks, sequences in micro-batches: their price, and that no schedule is faster than
the bound.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import genz_core
from genz_core.compiled.lanes import Lanes
from genz_core.engine import EngineProfile
from genz_core.schedule import chunks
from genz_core.types import Group, Parallelism, Workload
from tests.draws import cases

several = settings(
    max_examples=cases(25), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
ENGINE = EngineProfile(chunk_tokens=512)
UNCUT = EngineProfile(chunk_tokens=0)
sizes = st.tuples(st.integers(1, 12), st.integers(1, 3000), st.sampled_from([1, 2, 4]))


def prefill(model, system, batch, isl, pp=1, parts=0, engine=ENGINE):
    split = Parallelism(pp=pp, micro_batches=parts)
    return genz_core.prefill(model, system, Workload(batch, isl, 1), split, engine)


@given(
    st.integers(1, 40), st.integers(1, 5000), st.integers(0, 4000), st.sampled_from([1, 2, 8]),
    st.sampled_from([64, 512, 8192]),
)  # fmt: skip
def test_chunks_hold_every_token_and_every_pair_of_the_prompts(batch, new, cached, ranks, most):
    group, split = Group(float(batch * ranks), float(new), float(cached)), Parallelism(dp=ranks)
    chunk, steps = chunks(Lanes.of(group, split), EngineProfile(chunk_tokens=most))
    sequences, tokens, before = chunk.sequences, chunk.new, chunk.cached
    assert np.all((sequences * tokens / ranks <= most * (1 + 1e-9)) | (steps == 0))
    assert float((steps * sequences * tokens).sum()) == pytest.approx(batch * ranks * new)
    pairs = steps * sequences * tokens * (before + (tokens + 1) / 2)
    whole = batch * ranks * new * (cached + (new + 1) / 2)
    assert float(pairs.sum()) == pytest.approx(whole)


def test_an_engine_that_takes_prompts_whole_does_not_cut_them():
    engine = EngineProfile(chunk_tokens=512, scheduler="tensorrt_llm")
    chunk, steps = chunks(Lanes.of(Group(3.0, 2000.0, 0.0), Parallelism()), engine)
    assert steps[:, 0].tolist() == [3.0, 0.0] and chunk.new[0] == 2000.0


@several
@given(sizes)
def test_chunks_have_the_flops_of_whole_prompts_and_no_less_than_their_bound(model, system, size):
    batch, isl, pp = size
    cut = prefill(model, system, batch, isl, pp, parts=1)
    whole = prefill(model, system, batch, isl, pp, parts=1, engine=UNCUT)
    # the LM head runs in each step
    inner = [at for at, op in enumerate(whole.graph.ops) if op.layers]
    busy = [at for at in inner if whole.flops[at, 0] > 0]
    ratio = cut.flops[busy] / whole.flops[busy]
    assert np.all(ratio >= 1 - 1e-9)
    assert np.median(ratio) == pytest.approx(1.0)  # windows alone take more than the limit
    assert cut.bound_total_s == pytest.approx(whole.bound_total_s, rel=1e-9)
    assert cut.total_s >= whole.bound_total_s * (1 - 1e-9)


@several
@given(sizes)
def test_the_parts_of_a_scheduled_step_sum_to_it_and_are_explained(model, system, size):
    step = prefill(model, system, *size)
    parts = sum(step.parts().values()).sum(0) + step.pipeline_s + step.host_s
    assert parts == pytest.approx(step.total_s)
    for row in range(len(step.graph.ops)):
        assert step.explain(row).seconds == pytest.approx(float(step.expected_s[row, 0]), rel=1e-9)


@several
@given(sizes, st.integers(1, 12))
def test_no_schedule_of_whole_sequences_beats_the_bound(model, system, size, parts):
    batch, isl, pp = size
    for engine in (ENGINE, UNCUT):
        chosen = prefill(model, system, batch, isl, pp, parts, engine)
        best = prefill(model, system, batch, isl, pp, engine=engine)
        assert chosen.bound_total_s == pytest.approx(best.bound_total_s)
        assert chosen.total_s >= best.bound_total_s * (1 - 1e-9)


@several
@given(sizes, st.integers(1, 12))
def test_the_bound_is_at_most_a_simulated_flow_of_micro_batches(model, system, size, parts):
    """A permutation flow shop, stage by stage, with the bounds of each micro-batch."""
    batch, isl, pp = size
    parts = min(parts, batch)
    split = [batch // parts + (at < batch % parts) for at in range(parts)]
    free = np.zeros(pp)
    for sequences in split:
        step = prefill(model, system, sequences, isl, pp, parts=1, engine=UNCUT)
        stages = genz_core.steps.placed_graph.stage_runs(step.graph, pp) @ step.bound_s[:, 0]
        arrived = 0.0
        for stage in range(pp):
            arrived = free[stage] = max(arrived, free[stage]) + stages[stage]
    bound = prefill(model, system, batch, isl, pp, engine=UNCUT).bound_total_s[0]
    assert bound <= free[-1] * (1 + 1e-9)


@pytest.mark.parametrize("pp", [2, 4])
def test_one_more_prompt_never_costs_a_round_of_all_stages(model, system, pp):
    steps = prefill(model, system, np.arange(1, 40), 512, pp)
    added = np.diff(steps.total_s)
    assert np.all(added >= -1e-9) and added.max() < 1.2 * steps.total_s[0]
    assert np.all(np.diff(steps.bound_total_s) >= 0)


def test_uneven_micro_batches_are_whole_sequences(model, system):
    step = prefill(model, system, 5, 512, 4, parts=4, engine=UNCUT)
    pair, single = (prefill(model, system, n, 512, 4, parts=1, engine=UNCUT) for n in (2, 1))
    expected = pair.total_s + 3 * single.stage_s
    assert step.total_s == pytest.approx(expected)
    assert step.micro_batches == 4


def test_a_split_without_stages_is_priced_alike_beside_one_with_stages(model, system):
    """Mean numbers of sequences are not integers, and without a pipeline they are not rounded."""
    running = np.array([1.0, 3.7, 9.5, 64.2])
    alone = genz_core.decode_step(model, system, running, 1056.0, Parallelism(), ENGINE)
    beside = genz_core.decode_step(
        model, system, np.repeat(running, 2), 1056.0,
        Parallelism(pp=np.tile([1.0, 2.0], running.size)), ENGINE,
    )  # fmt: skip
    np.testing.assert_array_equal(beside.total_s[::2], alone.total_s)
