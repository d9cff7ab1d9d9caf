"""Rewrites from the reference code's operators to those that serving engines run.

Each rewrite has a name, is mentioned in the graph's notes where it changed something, and can be
switched off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any

from model_registry.tracing.calls import ProgramBlock, ProgramCall

REWRITES: Mapping[str, str] = {
    "mla_absorbed": "latent attention is absorbed in decode: queries attend to the cached latents",
    "routed_experts": "only the routed experts of a token run",
    "sparse_attention": "sparse attention reads its top-k tokens, not the whole masked cache",
    "merged_projections": "projections of the same input are one matrix product",
    "fused_norm": "a residual addition is fused with the norm that follows it",
    "fused_activation": "gate, activation and product are one pass",
    "rotary": "the rotary embedding of queries and keys is one pass",
    "kv_append": "new keys and values are appended; the cache is not copied",
    "scan": "a state-space or delta-rule recurrence is one operator",
    "last_token_head": "the LM head runs on the last token of each sequence",
}
_QKV = frozenset({"attention.q", "attention.k", "attention.v"})


def merged_projections(calls: list[ProgramCall]) -> list[ProgramCall]:
    """`calls` with projections of one module that read the same tensor merged into one product."""
    groups: dict[Any, list[ProgramCall]] = {}
    for call in calls:
        groups.setdefault(_merge_key(call), []).append(call)
    done: set[Any] = set()
    out: list[ProgramCall] = []
    for call in calls:
        key = _merge_key(call)
        if key is None or len(groups[key]) == 1:
            out.append(call)
        elif key not in done:
            done.add(key)
            out.append(_merge(groups[key]))
    return out


def _merge_key(call: ProgramCall) -> Any:
    if call.operator != "gemm" or call.split != "column":
        return None
    family = "attention.qkv" if call.role in _QKV else call.role
    parent = call.module.rpartition(".")[0]
    return parent, call.size("input"), family, call.rows, call.times


def _merge(calls: list[ProgramCall]) -> ProgramCall:
    first = calls[0]
    qkv = {call.role for call in calls} == _QKV
    leaves = [call.name for call in calls]
    name = "qkv_proj" if qkv else _joined(leaves)
    return replace(
        first,
        name=name,
        role="attention.qkv" if qkv else first.role,
        parts=tuple(part for call in calls for part in call.parts),
        sizes={**first.sizes, "bias": max(call.size("bias") for call in calls)},
    )


def _joined(names: list[str]) -> str:
    """A name for joined projections: gate_proj, up_proj -> gate_up_proj; in_proj_qkv, in_proj_z
    -> in_proj."""
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    prefix = "".join(letters[0] for letters in same)
    tails = [name.removeprefix(prefix) for name in names]
    if all(tail.endswith("_proj") for tail in tails):
        return prefix + "_".join(tail.removesuffix("_proj") for tail in tails) + "_proj"
    return prefix.rstrip("_") or "_".join(names)


def fused_norm(calls: list[ProgramCall]) -> list[ProgramCall]:
    """`calls` with each norm that follows a residual addition fused with it."""
    out: list[ProgramCall] = []
    for call in calls:
        before = out[-1] if out and out[-1].operator == "residual" else None
        if call.operator == "norm" and before and before.size("width") == call.size("width"):
            out[-1] = replace(call, operator="residual_norm")
        else:
            out.append(call)
    return out


def across_layers(blocks: list[ProgramBlock]) -> list[ProgramBlock]:
    """`blocks` with the addition that ends a layer fused with the norm that begins the next."""
    starts = [block.calls[0] for block in blocks if block.layers and block.calls]
    ends = [block.calls[-1] for block in blocks if block.layers and block.calls]
    opens = all(call.operator == "norm" for call in starts)
    closes = all(call.operator == "residual" for call in ends)
    if not (starts and opens and closes):
        return blocks
    return [_shift(block) if block.layers else block for block in blocks]


def _shift(block: ProgramBlock) -> ProgramBlock:
    first = replace(block.calls[0], operator="residual_norm")
    return replace(block, calls=(first, *block.calls[1:-1]))


def with_tp_sums(calls: list[ProgramCall]) -> list[ProgramCall]:
    """`calls` with an all-reduce where partial sums of row-split products or experts are used."""
    out: list[ProgramCall] = []
    pending = ""
    for call in calls:
        if pending and call.operator in ("residual", "norm", "residual_norm"):
            out.append(_sum(pending))
            pending = ""
        out.append(call)
        product = call.operator == "gemm" and call.split == "row"
        if product or call.block == "Mixture":
            attention = call.role.startswith(("attention", "linear_attention", "ssm"))
            pending = "attention" if attention else "mlp"
    return [*out, _sum(pending)] if pending else out


def _sum(module: str) -> ProgramCall:
    return ProgramCall("sum", f"{module}_all_reduce", module)


def without_expansion(calls: list[ProgramCall]) -> list[ProgramCall]:
    """`calls` without kv_b_proj of latent attentions, whose blocks include it in both forms."""
    latent = {call.module for call in calls if call.block == "LatentAttention"}
    return [
        call
        for call in calls
        if not (call.role == "attention.kv_b" and call.module.rpartition(".")[0] in latent)
    ]
