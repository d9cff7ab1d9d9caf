"""Costs of eager execution on this machine: host time, and memory passes of unfused kernels."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

from genz_core.common.progress import Progress, silent
from genz_core.engine import EagerFacts
from profilers.collect.bench import Bench
from profilers.collect.clock import Clock

_REPEATS = 41
_WEIGHT_BYTES = 4 * 2**20  # bytes that a product of the host benchmark reads through the caches


def measure_eager(
    device: Any, stream_bytes_per_s: float, progress: Progress = silent
) -> EagerFacts:
    """Time the pieces of eager execution separately; takes a few seconds.

    Host time is measured on a model so small that its kernels take no time.

    Args:
        stream_bytes_per_s: rate of an element-wise pass, the unit in which passes are counted.
    """
    import torch

    bench, clock = Bench.on(device), Clock.for_device(device)
    with torch.inference_mode():
        progress(0.1, "host time of a step")
        step = _host_s(bench, clock, layers=0)
        progress(0.3, "host time of a layer")
        layer = (_host_s(bench, clock, layers=4) - step) / 4.0
        passes = {}
        _settle_allocator(bench)
        for at, (kind, make) in enumerate(_CHAINS.items()):
            progress(0.5 + 0.1 * at, f"unfused {kind}")
            seconds, moved = _chain_s(bench, clock, make)
            passes[f"{kind}_passes"] = max(seconds * stream_bytes_per_s / moved, 1.0)
    progress(1.0, "done")
    cpu = device.type == "cpu"
    return EagerFacts(layer, step, **passes, expand_groups=float(cpu))


def _settle_allocator(bench: Bench) -> None:
    """Allocate and free a large block, as a model's first step does.

    The C library then serves blocks of that size from memory that it already holds; before, each
    block would be mapped anew, with a page fault for every 4 KiB (glibc, mallopt(3),
    M_MMAP_THRESHOLD).
    """
    import torch

    block = torch.ones(31 * 2**20, dtype=torch.uint8, device=bench.device)
    del block


def _host_s(bench: Bench, clock: Clock, layers: int) -> float:
    """Median host time [s] of a decode step of a Llama so narrow that its kernels take almost no
    time.

    Before each product, other weights are read through the caches, as in a real model; the time of
    that is left out.
    """
    import torch

    from profilers.collect.measured_model import RunSettings, build

    config = {
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": max(layers, 1), "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 256, "tie_word_embeddings": True, "max_position_embeddings": 512,
    }  # fmt: skip
    model, _ = build(RunSettings(config), bench.device)
    if layers == 0:
        model.model.layers = torch.nn.ModuleList()
        model.config.num_hidden_layers = 0
    # On a GPU the host's caches need not be emptied, and each clock reading would wait for the
    # device.
    streaming_s = _stream_before_products(model, bench, clock) if bench.device.type == "cpu" else []
    token = torch.zeros(1, 1, dtype=torch.long, device=bench.device)
    cache, times = None, []
    for _ in range(_REPEATS + 3):
        streaming_s.clear()
        start = clock.now()
        out = model(token, past_key_values=cache, use_cache=True)
        out.logits[:, -1:].argmax(-1)
        times.append(clock.now() - start - sum(streaming_s))
        cache = out.past_key_values if layers else None
    return statistics.median(times[3:])


def _stream_before_products(model: Any, bench: Bench, clock: Clock) -> list[float]:
    """Make each linear layer first read cold weights; returns a list that collects the seconds of
    these reads.
    """
    import torch

    streaming_s: list[float] = []
    x = bench.fresh(1, 2048)

    def stream(_module: Any, _inputs: Any) -> None:
        start = clock.now()
        torch.nn.functional.linear(x, bench.cold(_WEIGHT_BYTES // 4096, 2048))
        streaming_s.append(clock.now() - start)

    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_pre_hook(stream)
    return streaming_s


_Chain = Callable[[Bench, int], tuple[Callable[[], object], float]]


def _chain_s(bench: Bench, clock: Clock, make: _Chain) -> tuple[float, float]:
    """Seconds, and bytes that fused kernels would move, of a chain, summed over small to large
    prompts.
    """
    seconds = moved = 0.0
    for tokens in _PROMPTS.get(bench.device.type, _PROMPTS["cpu"]):
        run, fused = make(bench, tokens)
        run()
        seconds += statistics.median(clock.time(run) for _ in range(7))
        moved += fused
    return seconds, moved


_WIDTH = 1152
#: Tokens of the chains: on a CPU those of prompts; on a GPU so many that launch time is negligible.
_PROMPTS: Mapping[str, tuple[int, ...]] = {
    "cpu": (160, 480, 1440),
    "cuda": (16384, 32768, 65536),
}


def _norm(bench: Bench, tokens: int) -> tuple[Callable[[], object], float]:
    """RMSNorm with the residual before it, and the bytes [B] of a fused kernel."""
    import torch

    x, residual = bench.fresh(1, tokens, _WIDTH), bench.fresh(1, tokens, _WIDTH)
    weight = bench.fresh(_WIDTH)

    def run() -> object:
        wide = (residual + x).to(torch.float32)
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return weight * scaled.to(torch.bfloat16)

    return run, 8.0 * tokens * _WIDTH


def _rope(bench: Bench, tokens: int) -> tuple[Callable[[], object], float]:
    """Rotation of heads, and the bytes [B] of a fused kernel."""
    import torch

    heads, dim = _WIDTH // 64, 64
    x = bench.fresh(1, tokens, heads * dim).view(1, tokens, heads, dim).transpose(1, 2)
    cos, sin = bench.fresh(1, 1, tokens, dim), bench.fresh(1, 1, tokens, dim)

    def run() -> object:
        turned = torch.cat((-x[..., dim // 2 :], x[..., : dim // 2]), dim=-1)
        return x * cos + turned * sin

    return run, 4.0 * tokens * _WIDTH


def _activation(bench: Bench, tokens: int) -> tuple[Callable[[], object], float]:
    """SwiGLU, and the bytes [B] of a fused kernel."""
    import torch

    gate, up = bench.fresh(1, tokens, 3 * _WIDTH), bench.fresh(1, tokens, 3 * _WIDTH)
    return lambda: torch.nn.functional.silu(gate) * up, 18.0 * tokens * _WIDTH


def _cache_append(bench: Bench, tokens: int) -> tuple[Callable[[], object], float]:
    """Append to a ring of caches, replacing each with a longer copy: memory is freed as new memory
    is allocated.
    """
    import torch

    ring = [bench.cold(4, 8, tokens, 64).clone() for _ in range(12)]
    new = bench.fresh(4, 8, 1, 64)
    at = 0

    def run() -> object:
        nonlocal at
        at = (at + 1) % len(ring)
        ring[at] = torch.cat([ring[at], new], dim=-2)
        return ring[at]

    for _ in ring:
        run()
    return run, 2.0 * 2.0 * 4 * 8 * tokens * 64


_CHAINS: Mapping[str, _Chain] = {
    "norm": _norm,
    "rope": _rope,
    "activation": _activation,
    "append": _cache_append,
}
