"""Layers whose weights are in memory although a text prompt does not run them.

Llama 3.2 Vision skips the layers that attend to an image where there is none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from model_registry.tracing.calls import ProgramBlock, ProgramCall
from model_registry.tracing.layers import decoder_layers, signature
from model_registry.tracing.roles import attention_role, mlp_role, split_of


def with_held_layers(blocks: list[ProgramBlock], model: Any) -> list[ProgramBlock]:
    """`blocks`, followed by a block for each kind of layer that did not run, with products that
    have no rows.
    """
    ran = {(_above(block.path), at) for block in blocks for at in block.layers}
    lists = {path for path, _ in ran}
    alike: dict[Any, list[tuple[str, int, Any]]] = {}
    for path, index, layer in decoder_layers(model):
        if _above(path) in lists and (_above(path), index) not in ran:
            alike.setdefault((_above(path), signature(layer)), []).append((path, index, layer))
    held = [
        ProgramBlock(_calls(group[0][0], group[0][2]), tuple(at for _, at, _ in group), "last")
        for group in alike.values()
    ]
    end = max((at + 1 for at, block in enumerate(blocks) if block.layers), default=0)
    return [*blocks[:end], *held, *blocks[end:]]


def _calls(path: str, layer: Any) -> tuple[ProgramCall, ...]:
    """A product for each matrix of a layer; the first holds its small parameters too."""
    calls: list[ProgramCall] = []
    small = 0.0
    for name, parameter in layer.named_parameters():
        if parameter.dim() < 2:
            small += parameter.numel()
            continue
        module = f"{path}.{_above(name)}"
        k = parameter.shape[-1]
        n = parameter.numel() // k
        owner = layer.get_submodule(_above(_above(name)))
        role = attention_role(module) if "attn" in module else mlp_role(module, n, k)
        calls.append(
            ProgramCall(
                "gemm",
                module.rpartition(".")[2],
                module,
                role,
                "none",
                sizes={"k": float(k)},
                split=split_of(role, module),
                weight=f"{path}.{name}",
                parts=((float(n), _shards(owner, role, n)),),
            )
        )
    if calls:
        first = calls[0]
        calls[0] = replace(first, sizes={**first.sizes, "small": small})
    return tuple(calls)


def _shards(owner: Any, role: str, n: int) -> float:
    """Most devices that can share the rows of a matrix: key-value heads are replicated
    beyond that.
    """
    heads = getattr(owner, "num_key_value_heads", None)
    return float(heads if heads and role in ("attention.k", "attention.v") else n)


def _above(path: str) -> str:
    return path.rpartition(".")[0]
