"""Laws of every graph, over families, steps and splits."""

from collections import Counter
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genz_core.graphs import Graph, Op
from genz_core.types import Group, Parallelism, Step
from model_registry.graph.parallel_limits import split_limits
from tests.draws import cases
from tests.model_registry.shared_models import built
from tests.rules import for_every

#: Models of which a step leaves experts idle.
WITH_EXPERTS = [
    "google/gemma-4-26B-A4B",
    "openai/gpt-oss-20b",
    "meta-llama/Llama-4-Scout-17B-16E-Instruct",
    "mistralai/Mixtral-8x7B-v0.1",
    "deepseek-ai/DeepSeek-V3",
    "deepseek-ai/DeepSeek-V3.2",
    "deepseek-ai/DeepSeek-V4-Flash",
    "MiniMaxAI/MiniMax-M3",
    "moonshotai/Kimi-K3",
    "Qwen/Qwen3-Next-80B-A3B-Instruct",
    "ai21labs/Jamba-v0.1",
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
]
#: One model of each kind of block.
MODELS = [
    "meta-llama/Llama-3.1-8B",
    "tiiuae/falcon-40b",
    "google/gemma-2-9b",
    "state-spaces/mamba-2.8b-hf",
    "Zyphra/Zamba2-7B",
    "facebook/opt-350m",
    *WITH_EXPERTS,
]
#: Work that every device of a tp group does in full: low-rank and per-token parts, selection,
#: norms.
COPIED = (
    "q_a_proj", "kv_a_proj", "kv_proj", "indexer", "router", "compressor", "x_proj", "latent_",
    "decay_a", "gate_a", "stream", "qkv_adapter_a", "gate_up_adapter_a", "shared_proj",
    "shared_experts_gate", "head_proj", "embedding_proj",
)  # fmt: skip
#: Biases of projections that are summed over tp are on every device.
BIASES = 2e-3
SPLIT_CLASSES = ("gemm", "attention", "moe", "ssm", "convolution")
FIGURES = [
    field.name
    for field in fields(Op)
    if field.name.endswith(("flops", "bytes")) or field.name in ("group", "stride")
]


def total(graph: Graph, figure: str, ops: tuple[Op, ...] | None = None) -> float:
    chosen = graph.ops if ops is None else ops
    return float(sum(np.asarray(getattr(op, figure)) * op.count for op in chosen))


def split_ops(graph: Graph) -> tuple[Op, ...]:
    return tuple(
        op
        for op in graph.ops
        if op.operator_class in SPLIT_CLASSES and not op.name.startswith(COPIED)
    )


steps = st.sampled_from(["prefill", "decode", "chunk"])


def step_of(kind: str, batch: float, length: float) -> Step:
    if kind == "decode":
        return Step.decode(batch, length)
    return Step.prefill(batch, length, 0.0 if kind == "prefill" else 3.0 * length)


@pytest.mark.by_day(6)
@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=cases(10), deadline=None)
@given(kind=steps, batch=st.integers(1, 64), length=st.integers(1, 20_000))
def test_tensor_parallelism_conserves_the_flops_of_what_it_splits(
    name: str, kind: str, batch: int, length: int
) -> None:
    model, step = built(name), step_of(kind, batch, length)
    limits = split_limits(model.spec)
    whole = model.graph(step, Parallelism())
    alone = total(whole, "flops", split_ops(whole))
    degrees = [tp for tp in (2, 4, 8) if model.invalid(Parallelism(tp=tp)) is None]
    assert degrees
    for tp in degrees:
        part = model.graph(step, Parallelism(tp=tp))
        together = tp * total(part, "flops", split_ops(part))
        assert alone <= together * (1 + 1e-9)
        if not any(limit.copied and limit.size < tp for limit in limits):
            assert together == pytest.approx(alone, rel=BIASES), tp


@pytest.mark.by_day(6)
@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=cases(5), deadline=None)
@given(
    kinds=steps,
    rows=st.lists(
        st.tuples(
            st.integers(1, 300), st.integers(1, 50_000),
            st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 8]), st.sampled_from([1, 2]),
        ),
        min_size=2,
        max_size=5,
    ),
)  # fmt: skip
def test_an_array_call_equals_its_scalar_calls(
    name: str, kinds: str, rows: list[tuple[int, ...]]
) -> None:
    model = built(name)
    batch, length, tp, dp, cp = np.array(rows, dtype=float).T
    ep = np.minimum(tp * dp, 8.0)
    many = model.graph(step_of(kinds, batch, length), Parallelism(tp=tp, dp=dp, ep=ep, cp=cp))
    for at in range(len(rows)):
        split = Parallelism(tp=tp[at], dp=dp[at], ep=ep[at], cp=cp[at])
        one = model.graph(step_of(kinds, batch[at], length[at]), split)
        assert [op.name for op in one.ops] == [op.name for op in many.ops]
        for alone, array in zip(one.ops, many.ops, strict=True):
            for figure in FIGURES:
                expected = float(np.asarray(getattr(alone, figure)))
                found = np.broadcast_to(np.asarray(getattr(array, figure)), (len(rows),))[at]
                assert found == pytest.approx(expected, rel=1e-12), (alone.name, figure)


@for_every(MODELS)
def test_the_shape_of_a_graph_depends_on_the_model_alone(name: str) -> None:
    model = built(name)
    shapes = {
        tuple((op.name, op.kind, op.layers, op.module) for op in model.graph(step, split).ops)
        for step in (Step.prefill(3, 700), Step.decode(1, 1), Step.prefill(1, 64, 4096))
        for split in (Parallelism(), Parallelism(tp=8, pp=2), Parallelism(dp=4, ep=4, cp=2))
    }
    assert len(shapes) == 1


@pytest.mark.parametrize("name", [one for one in MODELS if "Zamba" not in one])
def test_decode_reads_every_active_weight_once(name: str) -> None:
    """All except the token table, of which it reads one row (Zamba2 reads shared weights again)."""
    model = built(name, weights="bf16")
    graph = model.graph(Step.decode(1, 1), Parallelism())
    tables = [op for op in graph.ops if op.operator_class == "embedding"]
    unread = total(graph, "held_weight_bytes", tuple(tables)) - sum(
        op.weight_bytes for op in tables
    )
    expected = 2.0 * model.active_parameters - unread
    if model.spec.tied:
        expected += 2.0 * next(
            op.dims["n"] * op.dims["k"] for op in graph.ops if op.name == "lm_head"
        )
    assert total(graph, "weight_bytes") == pytest.approx(expected, rel=1e-9)


@for_every(MODELS)
def test_a_collective_over_one_device_sends_nothing(name: str) -> None:
    graph = built(name).graph(Step.prefill(2, 300), Parallelism())
    assert all(not np.any(op.message_bytes) for op in graph.ops)


@pytest.mark.parametrize("name", MODELS)
def test_only_collectives_send_and_only_others_compute(name: str) -> None:
    graph = built(name).graph(Step.prefill(2, 300), Parallelism(tp=2, dp=2, ep=4))
    for op in graph.ops:
        assert (
            np.all(op.flops == 0)
            if op.operator_class == "collective"
            else np.all(op.message_bytes == 0)
        )


@for_every(MODELS)
def test_every_figure_is_finite_and_no_less_than_zero(name: str) -> None:
    model = built(name)
    steps = [Step.prefill(1, 1), Step.prefill(7, 10**7), Step.decode(0, 5), Step.decode(512, 10**7)]
    for step in steps:
        for op in model.graph(step, Parallelism(tp=2, cp=2, dp=2, ep=2)).ops:
            for figure in FIGURES:
                value = np.asarray(getattr(op, figure))
                assert np.all(np.isfinite(value)) and np.all(value >= 0), (op.name, figure)


@pytest.mark.parametrize("name", MODELS)
def test_every_layer_is_laid_once_and_none_beyond_the_last(name: str) -> None:
    graph = built(name).graph(Step.decode(1, 100), Parallelism())
    assert {at for op in graph.ops for at in op.layers} == set(range(graph.layers))
    laid = Counter((op.name, op.kind, op.module, at) for op in graph.ops for at in op.layers)
    assert set(laid.values()) == {1}, [key for key, times in laid.items() if times > 1]


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=cases(5), deadline=None)
@given(length=st.integers(64, 30_000), cached=st.integers(0, 30_000), cp=st.sampled_from([2, 4, 8]))
def test_context_parallel_ranks_share_the_pairs_and_the_cache(
    name: str, length: int, cached: int, cp: int
) -> None:
    model = built(name)
    for step in (Step.prefill(2, length, cached), Step.decode(2, length)):
        whole, part = (model.graph(step, Parallelism(cp=degree)) for degree in (1, cp))
        for figure, classes in (("flops", ("attention",)), ("held_kv_bytes", ("attention",))):
            alone, together = (
                total(g, figure, tuple(op for op in g.ops if op.operator_class in classes))
                for g in (whole, part)
            )
            assert cp * together == pytest.approx(alone)


def test_the_models_with_experts_are_those_that_leave_parameters_idle() -> None:
    idle = {name for name in MODELS if built(name).active_parameters < built(name).parameters}
    assert idle == set(WITH_EXPERTS)


@pytest.mark.by_day(12)
@pytest.mark.parametrize("name", WITH_EXPERTS)
@pytest.mark.parametrize("ep", [1, 2, 4])
def test_the_devices_of_a_bank_share_its_work_and_its_weights(name: str, ep: int) -> None:
    model, step = built(name), Step.decode(64, 1024)
    whole = model.graph(step, Parallelism())
    part = model.graph(step, Parallelism(tp=2, dp=2, ep=ep))
    for figure in ("flops", "held_weight_bytes", "weight_bytes"):
        alone, one = (
            total(graph, figure, tuple(op for op in graph.ops if op.kind == "moe"))
            for graph in (whole, part)
        )
        assert 4 * one == pytest.approx(alone, rel=BIASES) and alone > 0


@for_every(MODELS)
def test_a_mixed_step_does_the_work_of_its_groups(name: str) -> None:
    """Attention and recurrences of two groups equal those of two steps."""
    model = built(name)
    groups = (Group(2.0, 300.0, 0.0), Group(5.0, 1.0, 900.0))
    mixed = model.graph(Step(groups), Parallelism())
    apart = [model.graph(Step((group,)), Parallelism()) for group in groups]

    def work(graph: Graph) -> float:
        kept = ("attention", "ssm")
        return total(graph, "flops", tuple(op for op in graph.ops if op.operator_class in kept))

    assert work(mixed) == pytest.approx(sum(work(graph) for graph in apart))


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=cases(5), deadline=None)
@given(batch=st.integers(1, 100), context=st.integers(1, 10**5))
def test_more_sequences_or_context_never_take_less(name: str, batch: int, context: int) -> None:
    """Llama 4 attends within chunks of 8,192 tokens: less when a new one begins, more a chunk
    later.
    """
    model = built(name)
    further = 8192 if "Llama-4" in name else 1000

    def figures(step: Step) -> list[float]:
        graph = model.graph(step, Parallelism(tp=2))
        return [total(graph, "flops"), sum(float(op.memory_bytes * op.count) for op in graph.ops)]

    base = figures(Step.decode(batch, context))
    for other in (Step.decode(batch + 1, context), Step.decode(batch, context + further)):
        assert all(b <= o * (1 + 1e-12) for b, o in zip(base, figures(other), strict=True))
