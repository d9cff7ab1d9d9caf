"""Attention, experts and scans of a traced model, as the builders' blocks without projections.

The trace detects a latent attention, a set of experts or a scan, and reads its sizes from the
module. Its operators and their split over devices are then those of `model_registry.blocks`,
without the projections and norms, which the trace records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from genz_core.common.registry import collective_kinds
from genz_core.graphs import Op
from model_registry.blocks.frame import DeviceFrame, block_ops
from model_registry.spec import (
    Attention,
    CompressedAttention,
    DeltaNet,
    Indexer,
    LatentAttention,
    Mamba,
    Mamba2,
    Mixture,
)
from model_registry.tracing.calls import ProgramCall
from model_registry.tracing.records import DispatchedOp

MIXERS: Mapping[str, type] = {
    "Attention": Attention,
    "LatentAttention": LatentAttention,
    "CompressedAttention": CompressedAttention,
    "Mixture": Mixture,
    "Mamba": Mamba,
    "Mamba2": Mamba2,
    "DeltaNet": DeltaNet,
}
_KINDS = collective_kinds() | {"attention", "mla_attention", "sparse_attention", "moe", "ssm"}
_KINDS |= {"linear_attention"}
#: Products that the reference code runs in another form than engines, or that engines do not run.
_ADDED = frozenset({"q_absorb", "value_up", "kv_b_proj"})


def mixer_ops(call: ProgramCall, frame: DeviceFrame) -> Iterator[Op]:
    """The operators of a call's block on one device, without projections and norms."""
    for op in block_ops(spec_block(call), frame):
        if op.kind in _KINDS or op.name in _ADDED:
            yield replace(op, module=call.module or op.module)


def spec_block(call: ProgramCall) -> Any:
    """The block of the type that a call names, made from its sizes; `index_*` for its indexer."""
    kind = MIXERS[call.block]
    types = {entry.name: str(entry.type) for entry in fields(kind)}
    values: dict[str, Any] = {
        name: bool(size) if "bool" in types[name] else int(size)
        for name, size in call.sizes.items()
        if name in types
    }
    if call.size("index_top_k"):
        values["indexer"] = Indexer(
            int(call.size("index_heads")),
            int(call.size("index_dim")),
            int(call.size("index_top_k")),
            bool(call.size("index_owner")),
        )
    return kind(**values)


# ------------------------------------------------------------------------------- from a module


def attention_call(module: Any, record: DispatchedOp) -> ProgramCall:
    """The call of a plain attention, sized by the queries, keys and values that it received."""
    query, key, value = (tensor.shape for tensor in record.inputs[:3])
    config = getattr(module, "config", None)
    sinks = any("sink" in name for name, _ in module.named_parameters(recurse=False))
    sizes = {
        "heads": query[1],
        "kv_heads": min(key[1], getattr(module, "num_kv_heads", None) or key[1]),
        "head_dim": query[3],
        "value_dim": value[3] if value[3] != query[3] else 0,
        "window": record.facts["window"],
        "chunk": _chunk(module, config),
        "sinks": sinks,
        "shares_kv": bool(getattr(module, "is_kv_shared_layer", False)),
        **_block_indexer(getattr(module, "indexer", None)),
    }
    return ProgramCall("mixer", "attention", record.path, sizes=_numbers(sizes), block="Attention")


def _block_indexer(indexer: Any) -> dict[str, float]:
    """Sizes of an indexer that chooses blocks of keys (MiniMax M3), {} for any other."""
    if indexer is None or not hasattr(indexer, "topk_blocks"):
        return {}
    return {
        "index_heads": indexer.num_heads,
        "index_dim": indexer.head_dim,
        "index_top_k": indexer.topk_blocks * indexer.block_size,
        "index_owner": 1.0,
    }


def _chunk(module: Any, config: Any) -> int:
    """Tokens of an aligned chunk that attention stays in, 0 for none (Llama 4)."""
    kinds, at = getattr(config, "layer_types", None), getattr(module, "layer_idx", None)
    if not kinds or at is None or at >= len(kinds) or kinds[at] != "chunked_attention":
        return 0
    return int(getattr(config, "attention_chunk_size", None) or 0)


def mixer_call(module: Any, path: str) -> ProgramCall | None:
    """The call of a latent or compressed attention, None for a module of any other kind."""
    if getattr(module, "kv_lora_rank", None) and hasattr(module, "qk_nope_head_dim"):
        return ProgramCall(
            "mixer", "attention", path, sizes=_latent(module), block="LatentAttention"
        )
    if hasattr(module, "o_a_proj") and hasattr(module, "compressor"):
        return ProgramCall(
            "mixer", "attention", path, sizes=_compressed(module), block="CompressedAttention"
        )
    return None


def _latent(module: Any) -> dict[str, float]:
    sizes = {
        "heads": _first(module, "num_heads", "num_attention_heads"),
        "query_rank": getattr(module, "q_lora_rank", None) or 0,
        "kv_rank": module.kv_lora_rank,
        "nope_dim": module.qk_nope_head_dim,
        "rope_dim": module.qk_rope_head_dim,
        "value_dim": module.v_head_dim,
    }
    config: Any = getattr(module, "config", None)
    if getattr(config, "index_topk", None):
        sizes["index_heads"] = config.index_n_heads
        sizes["index_dim"] = config.index_head_dim
        sizes["index_top_k"] = config.index_topk
        sizes["index_owner"] = getattr(module, "indexer", None) is not None
    return _numbers(sizes)


def _compressed(module: Any) -> dict[str, float]:
    config, compressor = module.config, module.compressor
    sizes = {
        "heads": module.num_heads,
        "head_dim": module.head_dim,
        "query_rank": config.q_lora_rank,
        "rope_dim": getattr(config, "qk_rope_head_dim", None) or module.head_dim // 8,
        "window": module.sliding_window,
        "ratio": compressor.compress_rate if compressor is not None else 0,
        "output_groups": config.o_groups,
        "output_rank": config.o_lora_rank,
    }
    indexer = getattr(compressor, "indexer", None)
    if indexer is not None:
        sizes["index_heads"] = indexer.num_heads
        sizes["index_dim"] = indexer.head_dim
        sizes["index_top_k"] = indexer.index_topk
        sizes["index_owner"] = True
    return _numbers(sizes)


def without_indexer(call: ProgramCall) -> ProgramCall:
    """`call` as a dense attention over all visible tokens."""
    sizes = {key: size for key, size in call.sizes.items() if not key.startswith("index_")}
    return replace(call, sizes=sizes)


def scan_call(module: Any, path: str) -> ProgramCall | None:
    """The call of a recurrence, sized by its module's attributes; None without such sizes."""
    for reader in (_delta, _mamba2, _mamba, _other_recurrence):
        call = reader(module, path)
        if call is not None:
            return call
    return None


def _delta(module: Any, path: str) -> ProgramCall | None:
    keys = _first(module, "head_k_dim", "qk_head_dim", "key_head_dim")
    values = _first(module, "head_v_dim", "v_head_dim", "value_head_dim")
    heads = _first(module, "num_v_heads", "num_heads", "num_attention_heads", "n_heads")
    if "Delta" in type(module).__name__ or "Lightning" in type(module).__name__:
        keys, values = keys or _first(module, "head_dim"), values or _first(module, "head_dim")
    if not (keys and values and heads):
        return None
    sizes = {
        "key_heads": _first(module, "num_k_heads") or heads,
        "value_heads": heads,
        "key_dim": keys,
        "value_dim": values,
        "kernel": 1,
    }
    return ProgramCall("mixer", "linear_attention", path, sizes=_numbers(sizes), block="DeltaNet")


def _mamba2(module: Any, path: str) -> ProgramCall | None:
    heads = _first(module, "num_heads", "n_heads", "n_mamba_heads")
    state = _first(module, "ssm_state_size", "state_size")
    dim = _first(module, "head_dim", "mamba_headdim")
    if not (heads and state and dim):
        return None
    groups = _first(module, "n_groups", "num_groups") or 1
    sizes = {"heads": heads, "head_dim": dim, "state": state, "groups": groups, "kernel": 1}
    return ProgramCall("mixer", "ssm_scan", path, sizes=_numbers(sizes), block="Mamba2")


def input_parts(module: Any, n: int) -> tuple[tuple[float, float], ...]:
    """Columns of a scan's input projection: B and C are in groups, which may be replicated."""
    heads, groups = _first(module, "num_heads", "n_mamba_heads"), _first(module, "n_groups")
    grouped = 2.0 * groups * _first(module, "ssm_state_size", "state_size")
    if not (heads and 0.0 < grouped < n):
        return ((float(n), float(n)),)
    return ((n - grouped, heads), (grouped, groups))


def _mamba(module: Any, path: str) -> ProgramCall | None:
    inner = _first(module, "intermediate_size", "d_inner")
    state = _first(module, "ssm_state_size", "state_size")
    if not (inner and state):
        return None
    rank = _first(module, "time_step_rank", "dt_rank") or 1
    sizes = {"inner": inner, "state": state, "rank": rank, "kernel": 1}
    return ProgramCall("mixer", "ssm_scan", path, sizes=_numbers(sizes), block="Mamba")


def _other_recurrence(module: Any, path: str) -> ProgramCall | None:
    """The call of a recurrence with one state element a channel (RG-LRU, RWKV)."""
    width = _first(module, "lru_width", "attention_hidden_size", "embed_dim", "hidden_size")
    if not width or "Conv" in type(module).__name__:
        return None
    sizes = {"inner": width, "state": 1, "rank": 1, "kernel": 1}
    return ProgramCall("mixer", "recurrence", path, sizes=_numbers(sizes), block="Mamba")


def experts_call(path: str, width: int, facts: Mapping[str, float], hidden: int) -> ProgramCall:
    """The call of a set of experts on tokens of width `width`, in a model of width `hidden`.

    facts: from the record of the experts.
    """
    sizes = {**facts, "width": width, "latent": width if width != hidden else 0}
    return ProgramCall(
        "mixer", "experts", path, "experts.up", sizes=_numbers(sizes), block="Mixture"
    )


def _first(module: Any, *names: str) -> float:
    """The first of the attributes `names` that is a positive number, 0 for none."""
    values = (getattr(module, name, None) for name in names)
    return float(next((v for v in values if isinstance(v, int | float) and v > 0), 0.0))


def _numbers(sizes: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(size) for name, size in sizes.items()}
