"""Cases of the microbenchmark suite: operators at shapes, with their FLOPs and bytes."""

from __future__ import annotations

import itertools
from typing import Any

from profilers.collect.bench import Bench, Case, Run, pool_bytes


def standard_cases(device: Any) -> list[Case]:
    """Matrix products of few and many rows, attention, experts, element-wise passes, memory
    streams.

    Sides are odd multiples of 96 or nearly so, unlike those of models: a calibration must share no
    matrix product with the model that validates it, and the validation checks that.
    """
    big = device.type == "cuda"
    cases = [gemm(m, n, k) for (n, k), rows in _products(big).items() for m in rows]
    cases += [gemm(m, 1632, 1632, "fp32") for m in (1, 8, 512)]
    cases += [prefill_attention(*shape) for shape in _PREFILLS]
    cases += [decode_attention(*shape) for shape in _DECODES]
    cases += [moe(tokens, 16, 2, 768, 672) for tokens in (1, 6, 48, 384)]
    cases += [add(2**power * 96) for power in (5, 10, 13, 15, 17)]
    cases += [stream(operation, device) for operation in ("read", "copy")]
    return cases + collectives()


def _products(big: bool) -> dict[tuple[int, int], tuple[int, ...]]:
    """{(n, k): rows} of the measured products; a GPU needs larger ones to be fully used."""
    thin = (1, 2, 4, 8, 16, 32)
    products = {
        (1632, 1632): (*thin, 64, 128, 256, 1056),
        (5760, 1152): (1, 3, 8, 48, 288, 864),
        (1152, 5760): (1, 3, 8, 48, 288),
        (384, 1152): (1, 8, 96, 768),
        (24000, 1152): (1, 4, 8),
    }
    if big:
        products |= {(6528, 5760): (*thin, 64, 256, 1024, 4096), (5760, 18432): (1, 16, 256, 4096)}
    return products


#: (sequences, tokens, heads, key/value heads, head size)
_PREFILLS = (
    (1, 96, 12, 4, 64), (1, 192, 12, 12, 64), (1, 320, 12, 4, 64), (1, 640, 12, 4, 64),
    (1, 1280, 12, 4, 64), (3, 160, 12, 4, 64), (1, 192, 8, 2, 128), (1, 640, 8, 2, 128),
)  # fmt: skip
_DECODES = (
    (1, 96, 12, 4, 64), (1, 384, 12, 4, 64), (1, 1536, 12, 4, 64), (1, 3072, 12, 4, 64),
    (3, 160, 12, 4, 64), (3, 640, 12, 4, 64), (6, 1536, 12, 4, 64), (6, 96, 12, 12, 64),
    (1, 640, 12, 12, 64), (1, 384, 8, 2, 128), (3, 1536, 8, 2, 128),
)  # fmt: skip


def gemm(m: int, n: int, k: int, fmt: str = "bf16") -> Case:
    """x[m, k] @ w[n, k].T with fresh activations and cold weights."""
    width = {"bf16": 2.0, "fp32": 4.0}[fmt]

    def prepare(bench: Bench) -> Run:
        import torch
        from torch.nn import functional

        dtype = torch.float32 if fmt == "fp32" else torch.bfloat16
        x = bench.fresh(m, k, dtype=dtype)
        return lambda: functional.linear(x, bench.cold(n, k, dtype=dtype))

    moved = (n * k + m * k + m * n) * width
    return Case("gemm", fmt, {"m": m, "n": n, "k": k}, 2.0 * m * n * k, moved, prepare)


def prefill_attention(sequences: int, new: int, heads: int, kv_heads: int, dim: int) -> Case:
    """Causal attention of new tokens over themselves."""

    def prepare(bench: Bench) -> Run:
        q = bench.fresh(sequences, heads, new, dim)
        k, v = (bench.fresh(sequences, kv_heads, new, dim) for _ in range(2))
        return lambda: _attend(q, k, v, causal=True)

    dims = _attention_dims(sequences, new, 0, heads, kv_heads, dim)
    pairs = new * (new + 1) / 2
    moved = 4.0 * sequences * new * (heads + kv_heads) * dim
    work = 4.0 * sequences * heads * dim * pairs
    return Case("prefill_attention", "bf16/bf16", dims, work, moved, prepare)


def decode_attention(sequences: int, context: int, heads: int, kv_heads: int, dim: int) -> Case:
    """Attention of a new token per sequence over a cold cache of `context` tokens, itself
    included."""

    def prepare(bench: Bench) -> Run:
        q = bench.fresh(sequences, heads, 1, dim)
        shape = (sequences, kv_heads, context, dim)
        return lambda: _attend(q, bench.cold(*shape), bench.cold(*shape), causal=False)

    dims = _attention_dims(sequences, 1, context - 1, heads, kv_heads, dim)
    moved = 4.0 * sequences * context * kv_heads * dim
    work = 4.0 * sequences * heads * dim * context
    return Case("decode_attention", "bf16/bf16", dims, work, moved, prepare)


def _attend(q: Any, k: Any, v: Any, causal: bool) -> Any:
    from torch.nn import functional

    grouped = q.shape[1] != k.shape[1]
    return functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)


def _attention_dims(
    sequences: int, new: int, cached: int, heads: int, kv_heads: int, dim: int
) -> dict[str, float]:
    return {
        "sequences": sequences,
        "new_tokens": new,
        "cached_tokens": cached,
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": dim,
    }


def moe(tokens: int, experts: int, top_k: int, hidden: int, intermediate: int) -> Case:
    """Routed experts: sort, two grouped products with SwiGLU between them, weighted sum.

    Uses the framework's grouped product, or one expert after another where there is none.
    """

    def prepare(bench: Bench) -> Run:
        import torch

        x = bench.fresh(tokens, hidden)
        scores = torch.rand(tokens, experts, device=bench.device)
        _, chosen = scores.topk(top_k, dim=-1)
        order = chosen.flatten().argsort()
        ends = torch.bincount(chosen.flatten(), minlength=experts).cumsum(0).to(torch.int32)

        def run() -> object:
            up = bench.cold(experts, hidden, 2 * intermediate)
            down = bench.cold(experts, intermediate, hidden)
            rows = x[order // top_k]
            gate, value = _grouped(rows, up, ends).chunk(2, dim=-1)
            y = _grouped(torch.nn.functional.silu(gate) * value, down, ends)
            return torch.zeros_like(x).index_add_(0, order // top_k, y)

        return run

    rows = tokens * top_k
    active = experts * (1.0 - (1.0 - top_k / experts) ** tokens)
    matrices = 3.0 * hidden * intermediate
    dims = {
        "tokens": tokens,
        "experts": experts,
        "experts_total": experts,
        "top_k": top_k,
        "hidden": hidden,
        "intermediate": intermediate,
        "routing": 3,
    }
    return Case("moe", "bf16", dims, 2.0 * rows * matrices, 2.0 * active * matrices, prepare)


def _grouped(rows: Any, weights: Any, ends: Any) -> Any:
    """rows[start:end] @ weights[e] for every expert e."""
    import torch

    grouped = getattr(torch, "_grouped_mm", None)
    if grouped is not None:
        return grouped(rows, weights, offs=ends)
    stops = [0, *ends.tolist()]
    parts = [rows[a:b] @ weights[e] for e, (a, b) in enumerate(itertools.pairwise(stops))]
    return torch.cat(parts)


def add(elements: int) -> Case:
    """z = x + y over 16-bit operands: an element-wise pass."""

    def prepare(bench: Bench) -> Run:
        x, y = bench.fresh(elements), bench.fresh(elements)
        return lambda: x + y

    return Case(
        "pointwise", "default", {"bytes": 6.0 * elements}, elements, 6.0 * elements, prepare
    )


def stream(operation: str, device: Any) -> Case:
    """Read half of the device's pool, or copy it to the other half."""
    size = float(pool_bytes(device))

    def prepare(bench: Bench) -> Run:
        import torch

        half = bench.pool.numel() // 2
        source, target = bench.pool[:half], bench.pool[half : 2 * half]
        if operation == "copy":
            return lambda: target.copy_(source)
        return lambda: source.view(torch.int64).sum()

    moved = size / 2.0 if operation == "read" else size
    return Case(operation, "default", {"bytes": moved}, 0.0, moved, prepare)


def collectives() -> list[Case]:
    """All-reduces over the ranks of the running torch.distributed job; none without a job."""
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()) or dist.get_world_size() < 2:
        return []
    return [all_reduce(2**power) for power in (10, 14, 18, 22, 25)]


def all_reduce(size_bytes: int) -> Case:
    """A sum over all ranks of the job."""
    import torch.distributed as dist

    def prepare(bench: Bench) -> Run:
        message = bench.fresh(size_bytes // 2)
        return lambda: dist.all_reduce(message)

    dims = {"bytes": float(size_bytes), "group": float(dist.get_world_size())}
    fmt = f"{dist.get_backend()}.all_reduce"
    return Case("collective", fmt, dims, 0.0, float(size_bytes), prepare)
