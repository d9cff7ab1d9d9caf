"""A model small enough to compute by hand, and a system with round numbers."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from genz_core import operators as op
from genz_core.graphs import Graph
from genz_core.systems import Link, System
from genz_core.types import Parallelism, Precision, Step

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INNER, VOCABULARY = 4, 512, 8, 4, 64, 2048, 1000


@dataclass(frozen=True)
class SmallModel:
    """A dense decoder built directly from operators, independent of the registry."""

    name: str = "small"
    precision: Precision = field(default_factory=Precision)
    max_context: int | None = None
    notes: tuple[str, ...] = ()
    source: str = "written out by hand"

    def with_precision(self, precision: Precision) -> SmallModel:
        return replace(self, precision=precision)

    @property
    def parameters(self) -> float:
        attention = HIDDEN * (HEADS + 2 * KV_HEADS) * HEAD_DIM + HEADS * HEAD_DIM * HIDDEN
        layer = attention + 3 * HIDDEN * INNER + 2 * HIDDEN
        return LAYERS * layer + 2 * VOCABULARY * HIDDEN + HIDDEN

    @property
    def active_parameters(self) -> float:
        return self.parameters

    def graph(self, step: Step, par: Parallelism) -> Graph:
        layer = {"layers": tuple(range(LAYERS)), "module": "layers"}
        tokens, tp = step.tokens / par.dp, par.tp
        kv_heads = np.maximum(KV_HEADS / np.asarray(tp), 1.0)
        heads = op.Heads(HEADS / np.asarray(tp), kv_heads, HEAD_DIM)
        width = (HEADS / np.asarray(tp) + 2 * kv_heads) * HEAD_DIM
        stream = tokens * HIDDEN * 2.0
        attended = tuple(
            op.attention(
                "attention",
                np.ceil(g.sequences / par.dp),
                g.new_tokens,
                g.cached_tokens,
                heads,
                drafted=g.drafted,
                **layer,
            )
            for g in step.groups
        )
        ends = sum(g.sequences * g.sampled for g in step.groups) / par.dp
        return Graph(
            (
                op.embedding(
                    "embedding", tokens, VOCABULARY / np.asarray(tp), HIDDEN, stage="first"
                ),
                op.residual_norm("input_norm", tokens, HIDDEN, **layer),
                op.gemm("qkv_proj", tokens, width, HIDDEN, **layer),
                *attended,
                op.gemm("o_proj", tokens, HIDDEN, HEADS * HEAD_DIM / np.asarray(tp), **layer),
                op.all_reduce("attention_all_reduce", stream, tp, **layer),
                op.residual_norm("mlp_norm", tokens, HIDDEN, **layer),
                op.gemm("gate_up_proj", tokens, 2 * INNER / np.asarray(tp), HIDDEN, **layer),
                op.gated_activation("act_mul", tokens, INNER / np.asarray(tp), **layer),
                op.gemm("down_proj", tokens, HIDDEN, INNER / np.asarray(tp), **layer),
                op.all_reduce("mlp_all_reduce", stream, tp, **layer),
                op.norm("final_norm", ends, HIDDEN),
                op.gemm("lm_head", ends, VOCABULARY / np.asarray(tp), HIDDEN),
                op.sampling("sampling", ends, VOCABULARY),
                op.send_recv("stage", stream, par.pp, stride=np.asarray(tp) * par.dp),
            ),
            layers=LAYERS,
        )

    def invalid(self, parallelism: Parallelism) -> str | None:
        if HEADS % parallelism.tp:
            return f"tp={parallelism.tp} does not divide {HEADS} heads; near: 2, 4"
        return None


@pytest.fixture(scope="session")
def model() -> SmallModel:
    return SmallModel()


@pytest.fixture(scope="session")
def system() -> System:
    """100 TFLOP/s, 1 TB/s, 10 GB, 100 GB/s to seven neighbours, 10 GB/s beyond them."""
    return System(
        slug="round",
        name="Round Numbers",
        vendor="nobody",
        kind="gpu",
        family="round",
        peak_flops_per_s={"bf16": 100e12, "fp8": 200e12, "fp32": 20e12},
        memory_bytes=10e9,
        memory_bytes_per_s=1e12,
        l2_bytes=40e6,
        compute_units=100,
        clock_hz=1.5e9,
        tdp_w=500.0,
        links=(Link("inner", 100e9, 1e-6, 8), Link("outer", 10e9, 5e-6, 0)),
        price_usd_per_hour=3.6,
    )
