"""Records of a traced layer into calls: what each dispatched operator means in the model.

Projections keep one call each.  What lies between them is grouped by the module it ran in (`units`)
and read as a whole (`between`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from model_registry.tracing.calls import Call
from model_registry.tracing.glue_calls import loose_calls
from model_registry.tracing.grouping import Scene, Units, is_product
from model_registry.tracing.mixers import (
    attention_call,
    dense,
    experts_call,
    input_parts,
    mixer_call,
)
from model_registry.tracing.records import Record, Segment
from model_registry.tracing.roles import attention_role, mixer_role, mlp_role, split_of

_STREAMS = re.compile(r"_hc$|[Hh]yper")


class Reader:
    """Reads one segment; see `calls`."""

    def __init__(self, segment: Segment, scene: Scene) -> None:
        self.units, self.scene = Units(segment, scene), scene

    def calls(self) -> list[Call]:
        """The calls of the segment in the order they run."""
        found: list[tuple[int, Call]] = []
        for start, group in self.units.groups():
            first = group[0]
            read = self._product(first) if is_product(first) else loose_calls(self.units, group)
            found += [(start, call) for call in read]
        return [call for _, call in sorted(found, key=lambda entry: entry[0])]

    def _product(self, record: Record) -> Iterable[Call]:
        if record.operator == "attention":
            return (self._attention(record),)
        if record.operator == "experts":
            return (self._experts(record),)
        if record.operator == "embedding":
            return self._embedding(record)
        if record.operator == "convolution":
            return (self._convolution(record),)
        return (self._projection(record),)

    def _projection(self, record: Record) -> Call:
        weight = next(t for t in record.parameters if len(t.shape) >= 2)
        inputs = next(t for t in record.inputs if len(t.shape) >= 2 and t is not weight)
        out = record.outputs[0]
        n, k = out.shape[-1], inputs.shape[-1]
        role = self._role(record.path, n, k)
        rows, times = self.scene.rows(out.elements / n)
        sizes = {"k": float(k), "bias": float(len(record.inputs) > 2), "input": inputs.storage}
        name = _name(record.path or weight.parameter, role)
        if record.operator in ("bmm", "baddbmm") and len(weight.shape) == 3:
            groups = float(out.shape[0])
            rows, times = self.scene.rows(out.shape[1])
            sizes = {"groups": groups, "n": float(n), "k": float(k)}
            return Call(
                "grouped_gemm", name, record.path, role, rows, times, sizes, weight=weight.parameter
            )
        parts = self._parts(record.path, role, n)
        own, split = weight.parameter, split_of(role, record.path)
        if self._chooses_blocks(record.path):
            split = "column"
        return Call("gemm", name, record.path, role, rows, times, sizes, split, "", own, parts)

    def _role(self, path: str, n: int, k: int) -> str:
        if not self.units.segment.layers:
            head = self.scene.model.get_output_embeddings()
            return "lm_head" if self.scene.module(path) is head else "default"
        if _STREAMS.search(path):
            return "default"
        kind, unit = self.units.of[path]
        if kind == "scan":
            return mixer_role(path, type(self.scene.module(unit)).__name__)
        inside = next((p for p in self.units.attention if path.startswith(p + ".")), "")
        if inside or kind == "indexer":
            return attention_role(path)
        return mlp_role(path, n, k)

    def _parts(self, path: str, role: str, n: int) -> tuple[tuple[float, float], ...]:
        """Column blocks of a projection, with the most devices that can share each."""
        if role == "ssm.in":
            return input_parts(self.scene.module(self.units.of[path][1]), n)
        return ((float(n), self._shards(path, role, n)),)

    def _chooses_blocks(self, path: str) -> bool:
        """Index queries a key-value head each (MiniMax M3) are divided as those heads are."""
        parent, _, leaf = path.rpartition(".")
        return leaf == "q_proj" and hasattr(self.scene.module(parent), "topk_blocks")

    def _shards(self, path: str, role: str, n: int) -> float:
        """Most devices that can share the output features of a projection."""
        if self._chooses_blocks(path):
            return float(self.scene.module(path.rpartition(".")[0]).num_heads)
        record = next((r for p, r in self.units.attention.items() if path.startswith(p)), None)
        if record is None or not role.startswith("attention"):
            return float(n)
        query, key = record.inputs[0].shape[1], record.inputs[1].shape[1]
        return float(key if role in ("attention.k", "attention.v") else query)

    def _attention(self, record: Record) -> Call:
        module = self.scene.module(record.path)
        core = mixer_call(module, record.path)
        if core is None or (
            core.block == "LatentAttention" and "mla_absorbed" in self.scene.without
        ):
            core = attention_call(module, record)
        return dense(core) if "sparse_attention" in self.scene.without else core

    def _experts(self, record: Record) -> Call:
        facts = dict(record.facts)
        if "routed_experts" in self.scene.without:
            facts["top_k"] = facts["experts"]
        width = record.inputs[0].shape[-1]
        return experts_call(record.path, width, facts, self.scene.hidden)

    def _embedding(self, record: Record) -> Iterable[Call]:
        table = record.parameters[0]
        rows, times = self.scene.rows(record.outputs[0].elements / table.shape[-1])
        sizes = {"rows": float(table.shape[0]), "width": float(table.shape[-1])}
        name = record.path.rpartition(".")[2] or "embedding"
        tokens = self.scene.module(record.path) is self.scene.model.get_input_embeddings()
        split = "row" if tokens else "none"
        yield Call("embedding", name, record.path, "embedding", rows, times, sizes, split)

    def _convolution(self, record: Record) -> Call:
        weight = record.parameters[0]
        channels, _, *kernel = weight.shape
        taps = 1.0
        for length in kernel:
            taps *= length
        width = float(record.inputs[0].shape[1])
        sizes = {"out": channels, "in": width, "kernel": taps, "groups": width / weight.shape[1]}
        numbers = {name: float(value) for name, value in sizes.items()}
        role = "ssm" if self.units.of[record.path][0] == "scan" else "default"
        return Call("convolution", "conv1d", record.path, role, sizes={**numbers, "causal": 1.0})


def _name(path: str, role: str) -> str:
    """A projection's name: its own, with the part of the layer that it would be taken for."""
    leaf = path.removesuffix(".weight").rpartition(".")[2]
    if role == "router":
        return "router"
    for part in ("indexer", "compressor"):
        if f".{part}." in path:
            return f"{part}_{leaf}"
    return f"shared_experts_{leaf}" if role.startswith("shared_experts") else leaf
