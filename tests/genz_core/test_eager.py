"""Eager execution: the graph is rewritten without changing its work; measured facts are carried
over.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import genz_core
import model_registry
from genz_core.eager import KERNELS, Unfused, as_run, cpu_attention, eager_engine, under
from genz_core.engine import EagerFacts, EngineProfile
from genz_core.phases import decode_step, prefill
from genz_core.systems import System
from genz_core.types import Group, Parallelism, Step, Workload

FACTS = EagerFacts(4e-4, 2e-4, norm_passes=4.0, rope_passes=6.0, activation_passes=3.0)
ONE = Parallelism()
SYSTEM = System(
    "s", "S", "v", "cpu", "f", {"bf16": 4e11, "fp32": 1e11}, 2e10, 3.5e10, 3e7, compute_units=1
)


@pytest.fixture
def model():
    return model_registry.load("HuggingFaceTB/SmolLM2-360M")


@pytest.mark.parametrize("step", [Step.prefill(2, 256), Step.decode(4, 1000)])
def test_products_are_the_same_whether_fused_or_not(model, step: Step) -> None:
    fused, eager = (m.graph(step, ONE) for m in (model, Unfused(model, FACTS)))

    def totals(graph):
        products = [op for op in graph.ops if op.kind == "gemm"]
        return [
            float(sum(np.max(getattr(op, name)) * op.count for op in products))
            for name in ("flops", "weight_bytes", "held_weight_bytes", "output_bytes")
        ]

    assert totals(eager) == pytest.approx(totals(fused))


def test_an_unfused_model_is_the_model_inside_it_in_all_but_its_graph(model) -> None:
    eager = Unfused(model, FACTS)
    assert model.notes and model.source
    for member in ("name", "notes", "source", "precision", "parameters", "max_context"):
        assert getattr(eager, member) == getattr(model, member), member


def test_an_unfused_model_in_another_precision_stays_unfused(model) -> None:
    fp8 = replace(model.precision, weights={"default": "fp8"}, kv="fp8")
    eager = Unfused(model, FACTS).with_precision(fp8)
    assert eager == Unfused(model.with_precision(fp8), FACTS)
    names = {op.name: op for op in eager.graph(Step.decode(1, 8), ONE).ops}
    assert names["q_proj"].weights == "fp8" and names["attention"].kv == "fp8"


def test_query_key_value_and_gate_up_are_products_of_their_own(model) -> None:
    names = {op.name: op for op in Unfused(model, FACTS).graph(Step.decode(1, 8), ONE).ops}
    assert {"q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"} <= set(names)
    assert float(names["q_proj"].dims["n"]) == 960
    assert float(names["k_proj"].dims["n"]) == 320
    assert float(names["gate_proj"].dims["n"]) == 2560
    assert "qkv_proj" not in names


def test_appending_a_token_reads_and_writes_the_whole_cache(model) -> None:
    graph = Unfused(model, FACTS).graph(Step.decode(2, 999), ONE)
    append = next(op for op in graph.ops if op.name == "cache_append")
    cache = 2 * 1000 * 2 * 5 * 64 * 2  # sequences, tokens, keys and values, heads, size, bytes
    layers = 32
    assert append.count == layers * KERNELS["append"]
    assert float(append.memory_bytes) * append.count == pytest.approx(2 * cache * layers)


def test_a_norm_is_nine_kernels_that_move_as_often_as_was_measured(model) -> None:
    fused, eager = (
        next(op for op in m.graph(Step.decode(1, 8), ONE).ops if op.name == "post_attention_norm")
        for m in (model, Unfused(model, FACTS))
    )
    assert eager.count == 9 * fused.count
    assert float(eager.memory_bytes) * 9 == pytest.approx(4.0 * float(fused.memory_bytes))


def test_eager_is_never_faster_than_fused(model) -> None:
    engine = eager_engine(EngineProfile(), FACTS)
    engines = (engine, replace(engine, eager=None))
    load = Workload(np.array([1.0, 8.0]), np.array([128.0, 512.0]), 1.0)
    for eager, fused in (
        tuple(prefill(model, SYSTEM, load, ONE, e) for e in engines),
        tuple(decode_step(model, SYSTEM, 4.0, 600.0, ONE, e) for e in engines),
    ):
        assert np.all(eager.total_s > fused.total_s)


def test_an_engine_carries_the_facts_there_and_back() -> None:
    assert eager_engine(EngineProfile(), FACTS).eager == FACTS


def test_other_engines_run_the_model_as_it_is(model) -> None:
    assert as_run(model, EngineProfile()) is model


def test_a_longer_cache_costs_more_only_by_what_is_appended_and_attended(model) -> None:
    engine = eager_engine(EngineProfile(), FACTS)
    run = as_run(model, engine)
    short, long = (
        decode_step(run, SYSTEM, 1.0, context, ONE, engine) for context in (100.0, 900.0)
    )
    grown = {
        op.name
        for op, before, after in zip(
            short.graph.ops, short.operators_s[:, 0], long.operators_s[:, 0], strict=True
        )
        if after > before * 1.0001
    }
    assert grown == {"cache_append", "attention"}


def test_a_prompt_on_a_cpu_is_priced_over_the_same_pairs() -> None:
    dims = {
        "sequences": 2.0, "new_tokens": 256.0, "cached_tokens": 10.0, "heads": 8.0,
        "kv_heads": 2.0, "head_dim": 64.0,
    }  # fmt: skip
    split = cpu_attention(dims)
    rows = split["sequences"] * split["new_tokens"]
    assert rows == 2 * 256
    pairs = rows * (split["cached_tokens"] + (split["new_tokens"] + 1) / 2)
    assert pairs == pytest.approx(2 * (256 * 10 + 256 * 257 / 2))
    assert split["kv_heads"] == 8


def test_a_decode_step_on_a_cpu_stays_one_row() -> None:
    dims = {
        "sequences": 3.0,
        "new_tokens": 1.0,
        "cached_tokens": 99.0,
        "heads": 8.0,
        "kv_heads": 2.0,
    }
    assert cpu_attention(dims)["sequences"] == 3
    assert cpu_attention(dims)["cached_tokens"] == 99


# ------------------------------------------------------------------------------- whole steps

CPU_FACTS = replace(FACTS, expand_groups=1.0)
WHOLE = replace(CPU_FACTS, whole_step=1.0)
ON_CPU = eager_engine(EngineProfile(), CPU_FACTS)


def test_only_a_continuous_scheduler_on_a_cpu_changes_an_engine() -> None:
    for scheduler, engine in (
        ("", ON_CPU), ("static", ON_CPU), ("vllm", EngineProfile()),
        ("vllm", eager_engine(EngineProfile(), FACTS)),
    ):  # fmt: skip
        assert under(scheduler, engine) is engine
    served = under("vllm", ON_CPU)
    assert served.eager == WHOLE
    assert replace(served, eager=CPU_FACTS) == ON_CPU
    assert under("vllm", ON_CPU) is served, "so that its tables are found again"


def step_s(model, *groups: Group, engine: EngineProfile | None = None) -> float:
    served = engine or under("vllm", ON_CPU)
    return float(genz_core.mixed(model, SYSTEM, groups, ONE, served).total_s[0])


def test_a_step_attends_once_with_the_work_of_its_groups(model) -> None:
    step = Step((Group(3.0, 1.0, 200.0), Group(1.0, 64.0, 0.0)))
    graphs = [Unfused(model, facts).graph(step, ONE) for facts in (CPU_FACTS, WHOLE)]
    apart, whole = ([op for op in graph.ops if op.kind == "attention"] for graph in graphs)
    assert [op.name for op in whole] == ["attention"]
    assert whole[0].count == apart[0].count == apart[1].count
    for name in ("flops", "memory_bytes", "held_kv_bytes"):
        assert float(getattr(whole[0], name)) == pytest.approx(
            sum(float(getattr(op, name)) for op in apart)
        )
    # 3 + 64 queries in blocks of 32 rows, over 3 x 201 + 64 keys of every head
    dims = {name: float(size) for name, size in whole[0].dims.items()}
    assert dims["sequences"] * dims["new_tokens"] == 67.0
    assert dims["cached_tokens"] + dims["new_tokens"] == 667.0
    assert dims["kv_heads"] == dims["heads"] == 15.0


def test_a_single_query_packs_the_heads_that_share_keys(model) -> None:
    graph = Unfused(model, WHOLE).graph(Step.decode(1, 80), ONE)
    dims = next(op for op in graph.ops if op.kind == "attention").dims
    assert (float(dims["heads"]), float(dims["new_tokens"])) == (5.0, 3.0)


def test_it_does_not_matter_how_a_step_is_grouped(model) -> None:
    together = step_s(model, Group(6.0, 1.0, 100.0), Group(2.0, 64.0, 0.0))
    groups = (Group(2.0, 1.0, 100.0), Group(4.0, 1.0, 100.0), *[Group(1.0, 64.0, 0.0)] * 2)
    assert step_s(model, *groups) == pytest.approx(together)


def test_a_prompt_beside_decodes_costs_more_than_apart_from_their_keys(model) -> None:
    decodes, prompt = Group(8.0, 1.0, 400.0), Group(1.0, 64.0, 0.0)
    added = step_s(model, decodes, prompt) - step_s(model, decodes)
    alone = step_s(model, decodes, prompt, engine=ON_CPU) - step_s(model, decodes, engine=ON_CPU)
    assert added > alone


@pytest.mark.parametrize("axis", ["sequences", "new_tokens", "cached_tokens"])
def test_more_work_never_takes_less_time(model, axis: str) -> None:
    beside, one = Group(2.0, 1.0, 100.0), Group(1.0, 1.0, 64.0)
    sizes = np.unique(np.geomspace(1, 512, 40).round())
    for others in ((), (beside,)):
        times = [step_s(model, *others, replace(one, **{axis: size})) for size in sizes]
        assert np.all(np.diff(times) >= 0.0)


@pytest.mark.parametrize("name", ["HuggingFaceTB/SmolLM2-360M", "microsoft/Phi-3-mini-4k-instruct"])
def test_a_short_sequence_beside_a_long_one_takes_no_less(name: str) -> None:
    """With shared keys and without: the kernel is the same for one query and for two."""
    model, long = model_registry.load(name), Group(1.0, 1.0, 3000.0)
    assert step_s(model, long) < step_s(model, long, Group(1.0, 1.0, 1.0))
