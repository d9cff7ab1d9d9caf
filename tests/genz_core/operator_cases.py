"""Operators of every kind with random shapes, for the laws that every price obeys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

from genz_core import operators as op
from genz_core.common.registry import KINDS
from genz_core.graphs import Op
from genz_core.systems import Link, System
from genz_core.types import Num

Sizes = dict[str, float]

SYSTEM = System(
    slug="round",
    name="Round Numbers",
    vendor="nobody",
    kind="gpu",
    family="round",
    peak_flops_per_s={"bf16": 1000e12, "fp8": 2000e12, "int8": 2000e12, "fp4": 4000e12},
    memory_bytes=80e9,
    memory_bytes_per_s=3e12,
    l2_bytes=50e6,
    compute_units=128,
    clock_hz=1.8e9,
    links=(Link("inner", 450e9, 1e-6, 8), Link("outer", 50e9, 5e-6, 0)),
)

#: Kinds whose operators have sequences with new tokens: prefill and decode are priced apart.
OF_SEQUENCES = ("attention", "mla_attention", "sparse_attention", "cross_attention", "ssm",
                "linear_attention")  # fmt: skip
PHASES = ("prefill", "decode")
CASES = [
    (kind, phase) for kind in KINDS for phase in (PHASES if kind in OF_SEQUENCES else PHASES[:1])
]

tokens = st.integers(1, 9000)
width = st.sampled_from([64, 512, 2048, 4096, 14336])
heads = st.sampled_from([1, 4, 8, 32])
few = st.integers(1, 64)
group = st.sampled_from([1, 2, 4, 8, 16, 64])

_CONTEXT = {"sequences": few, "new_tokens": tokens, "cached_tokens": st.integers(0, 9000)}
#: {kind: {size: strategy}}.
SIZES: Mapping[str, Mapping[str, st.SearchStrategy[int]]] = {
    "gemm": {"m": tokens, "n": width, "k": width},
    "einsum": {"m": tokens, "n": width, "k": width},
    "convolution": {"positions": tokens, "channels": width, "taps": st.integers(1, 16)},
    "attention": {**_CONTEXT, "kv_heads": heads, "heads_per_kv": st.sampled_from([1, 4, 8])},
    "mla_attention": {**_CONTEXT, "heads": heads},
    "sparse_attention": {**_CONTEXT, "heads": heads, "top_k": st.sampled_from([64, 2048])},
    "cross_attention": {
        "sequences": few,
        "new_tokens": tokens,
        "encoded_tokens": tokens,
        "heads": heads,
    },
    "moe": {"tokens": tokens, "hidden": width, "intermediate": width, "top_k": st.integers(1, 8)},
    "ssm": {"sequences": few, "new_tokens": tokens, "channels": width},
    "linear_attention": {"sequences": few, "new_tokens": tokens, "heads": heads},
    "norm": {"tokens": tokens, "width": width},
    "rope": {"tokens": tokens, "heads": heads},
    "activation": {"tokens": tokens, "width": width},
    "residual": {"tokens": tokens, "width": width},
    "routing": {"tokens": tokens, "experts": st.sampled_from([8, 64, 256])},
    "copy": {"read_bytes": tokens, "written_bytes": tokens},
    "embedding": {"tokens": tokens, "width": width},
    "sampling": {"sequences": few, "vocabulary": st.integers(1000, 200_000)},
    "all_reduce": {"message_bytes": st.integers(1, 10**9), "group": group},
    "all_gather": {"message_bytes": st.integers(1, 10**9), "group": group},
    "reduce_scatter": {"message_bytes": st.integers(1, 10**9), "group": group},
    "all_to_all": {"message_bytes": st.integers(1, 10**9), "group": group},
    "send_recv": {"message_bytes": st.integers(1, 10**9), "group": group},
}


def _attention(d: Mapping[str, Num]) -> Op:
    shape = op.Heads(np.asarray(d["kv_heads"]) * d["heads_per_kv"], d["kv_heads"], 128)
    return op.attention("x", d["sequences"], d["new_tokens"], d["cached_tokens"], shape)


def _latent(d: Mapping[str, Num]) -> op.Heads:
    return op.Heads(d["heads"], 1, 576, 512, shared_kv=True)


def _mla(d: Mapping[str, Num]) -> Op:
    lengths = (d["sequences"], d["new_tokens"], d["cached_tokens"])
    return op.attention("x", *lengths, _latent(d), kind="mla_attention")


def _sparse(d: Mapping[str, Num]) -> Op:
    lengths = (d["sequences"], d["new_tokens"], d["cached_tokens"])
    return op.sparse_attention("x", *lengths, _latent(d), d["top_k"])


def _cross(d: Mapping[str, Num]) -> Op:
    lengths = (d["sequences"], d["new_tokens"], d["encoded_tokens"])
    return op.cross_attention("x", *lengths, op.Heads(d["heads"], d["heads"], 64))


def _moe(d: Mapping[str, Num]) -> Op:
    bank = op.Experts(64, 16, d["top_k"], d["hidden"], d["intermediate"])
    return op.moe("x", d["tokens"], bank)


def _einsum(d: Mapping[str, Num]) -> Op:
    return op.einsum("x", "mk,kn->mn", {name: d[name] for name in "mnk"})


def _convolution(d: Mapping[str, Num]) -> Op:
    channels = d["channels"]
    return op.convolution("x", d["positions"], channels, channels, d["taps"], groups=channels)


def _collective(kind: str) -> Callable[[Mapping[str, Num]], Op]:
    make = getattr(op, kind)
    return lambda d: make("x", d["message_bytes"], d["group"])


#: {kind: sizes -> operator}.
BUILDERS: Mapping[str, Callable[[Mapping[str, Any]], Op]] = {
    "gemm": lambda d: op.gemm("x", d["m"], d["n"], d["k"]),
    "einsum": _einsum,
    "convolution": _convolution,
    "attention": _attention,
    "mla_attention": _mla,
    "sparse_attention": _sparse,
    "cross_attention": _cross,
    "moe": _moe,
    "ssm": lambda d: op.ssm_scan("x", d["sequences"], d["new_tokens"], d["channels"], 128),
    "linear_attention": lambda d: op.linear_attention(
        "x", d["sequences"], d["new_tokens"], d["heads"], 128, 128
    ),
    "norm": lambda d: op.residual_norm("x", d["tokens"], d["width"]),
    "rope": lambda d: op.rope("x", d["tokens"], d["heads"], d["heads"], 128),
    "activation": lambda d: op.gated_activation("x", d["tokens"], d["width"]),
    "residual": lambda d: op.residual("x", d["tokens"], d["width"]),
    "routing": lambda d: op.route("x", d["tokens"], d["experts"]),
    "copy": lambda d: op.copy("x", d["read_bytes"], d["written_bytes"]),
    "embedding": lambda d: op.embedding("x", d["tokens"], 128256, d["width"]),
    "sampling": lambda d: op.sampling("x", d["sequences"], d["vocabulary"]),
    **{
        kind: _collective(kind)
        for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv")
    },
}


def shapes(kind: str, phase: str) -> st.SearchStrategy[Sizes]:
    """Random sizes of a kind in a phase: one new token per sequence in decode, more in prefill."""
    sizes = dict(SIZES[kind])
    if "new_tokens" in sizes:
        sizes["new_tokens"] = st.just(1) if phase == "decode" else st.integers(2, 9000)
    return st.fixed_dictionaries(sizes).map(
        lambda values: {name: float(value) for name, value in values.items()}
    )


def built(kind: str, rows: list[Sizes]) -> Op:
    """One operator of a kind with configurations `rows`."""
    return BUILDERS[kind]({name: np.array([row[name] for row in rows]) for name in rows[0]})
