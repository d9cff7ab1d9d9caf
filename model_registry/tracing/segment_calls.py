"""Program calls made from the records of a traced segment.

Projections become one call each.  Operators between them are grouped by the module that ran them
(`grouping`) and interpreted together (`glue_calls`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from model_registry.tracing.calls import ProgramCall, Split
from model_registry.tracing.glue_calls import loose_calls
from model_registry.tracing.grouping import Grouping, TraceSetup, is_product
from model_registry.tracing.mixers import (
    attention_call,
    experts_call,
    input_parts,
    mixer_call,
    without_indexer,
)
from model_registry.tracing.records import DispatchedOp, Segment
from model_registry.tracing.roles import attention_role, mixer_role, mlp_role, split_of

_STREAMS = re.compile(r"_hc$|[Hh]yper")


class SegmentReader:
    """The reader of one segment; see `calls`."""

    def __init__(self, segment: Segment, setup: TraceSetup) -> None:
        self.grouping, self.setup = Grouping(segment, setup), setup

    def calls(self) -> list[ProgramCall]:
        """The calls of the segment in the order in which they run."""
        placed: list[tuple[int, ProgramCall]] = []
        for start, group in self.grouping.groups():
            first = group[0]
            calls = self._product(first) if is_product(first) else loose_calls(self.grouping, group)
            placed += [(start, call) for call in calls]
        return [call for _, call in sorted(placed, key=lambda entry: entry[0])]

    def _product(self, record: DispatchedOp) -> Iterable[ProgramCall]:
        if record.operator == "attention":
            return (self._attention(record),)
        if record.operator == "experts":
            return (self._experts(record),)
        if record.operator == "embedding":
            return self._embedding(record)
        if record.operator == "convolution":
            return (self._convolution(record),)
        return (self._projection(record),)

    def _projection(self, record: DispatchedOp) -> ProgramCall:
        weight = next(t for t in record.parameters if len(t.shape) >= 2)
        inputs = next(t for t in record.inputs if len(t.shape) >= 2 and t is not weight)
        out = record.outputs[0]
        n, k = out.shape[-1], inputs.shape[-1]
        role = self._role(record.path, n, k)
        rows, times = self.setup.rows(out.elements / n)
        sizes = {"k": float(k), "bias": float(len(record.inputs) > 2), "input": inputs.storage}
        name = _name(record.path or weight.parameter, role)
        if record.operator in ("bmm", "baddbmm") and len(weight.shape) == 3:
            groups = float(out.shape[0])
            rows, times = self.setup.rows(out.shape[1])
            sizes = {"groups": groups, "n": float(n), "k": float(k)}
            return ProgramCall(
                "grouped_gemm", name, record.path, role, rows, times, sizes, weight=weight.parameter
            )
        parts = self._parts(record.path, role, n)
        own, split = weight.parameter, split_of(role, record.path)
        if self._chooses_blocks(record.path):
            split = "column"
        return ProgramCall(
            "gemm", name, record.path, role, rows, times, sizes, split, "", own, parts
        )

    def _role(self, path: str, n: int, k: int) -> str:
        if not self.grouping.segment.layers:
            head = self.setup.model.get_output_embeddings()
            return "lm_head" if self.setup.module(path) is head else "default"
        if _STREAMS.search(path):
            return "default"
        kind, module = self.grouping.module_of[path]
        if kind == "scan":
            return mixer_role(path, type(self.setup.module(module)).__name__)
        inside = next((p for p in self.grouping.attention if path.startswith(p + ".")), "")
        if inside or kind == "indexer":
            return attention_role(path)
        return mlp_role(path, n, k)

    def _parts(self, path: str, role: str, n: int) -> tuple[tuple[float, float], ...]:
        """Column blocks of a projection, with the most devices that can share each."""
        if role == "ssm.in":
            return input_parts(self.setup.module(self.grouping.module_of[path][1]), n)
        return ((float(n), self._shards(path, role, n)),)

    def _chooses_blocks(self, path: str) -> bool:
        """Whether `path` projects index queries, one per key-value head and divided in the same way
        (MiniMax M3).
        """
        parent, _, leaf = path.rpartition(".")
        return leaf == "q_proj" and hasattr(self.setup.module(parent), "topk_blocks")

    def _shards(self, path: str, role: str, n: int) -> float:
        """Most devices that can share the output features of a projection."""
        if self._chooses_blocks(path):
            return float(self.setup.module(path.rpartition(".")[0]).num_heads)
        record = next((r for p, r in self.grouping.attention.items() if path.startswith(p)), None)
        if record is None or not role.startswith("attention"):
            return float(n)
        query, key = record.inputs[0].shape[1], record.inputs[1].shape[1]
        return float(key if role in ("attention.k", "attention.v") else query)

    def _attention(self, record: DispatchedOp) -> ProgramCall:
        module = self.setup.module(record.path)
        core = mixer_call(module, record.path)
        if core is None or (
            core.block == "LatentAttention" and "mla_absorbed" in self.setup.without
        ):
            core = attention_call(module, record)
        return without_indexer(core) if "sparse_attention" in self.setup.without else core

    def _experts(self, record: DispatchedOp) -> ProgramCall:
        facts = dict(record.facts)
        if "routed_experts" in self.setup.without:
            facts |= {"top_k": facts["experts"], "idle_choices": 0.0}
        width = record.inputs[0].shape[-1]
        return experts_call(record.path, width, facts, self.setup.hidden)

    def _embedding(self, record: DispatchedOp) -> Iterable[ProgramCall]:
        table = record.parameters[0]
        rows, times = self.setup.rows(record.outputs[0].elements / table.shape[-1])
        sizes = {"rows": float(table.shape[0]), "width": float(table.shape[-1])}
        name = record.path.rpartition(".")[2] or "embedding"
        tokens = self.setup.module(record.path) is self.setup.model.get_input_embeddings()
        split: Split = "row" if tokens else "none"
        yield ProgramCall("embedding", name, record.path, "embedding", rows, times, sizes, split)

    def _convolution(self, record: DispatchedOp) -> ProgramCall:
        weight = record.parameters[0]
        channels, _, *kernel = weight.shape
        taps = 1.0
        for length in kernel:
            taps *= length
        width = float(record.inputs[0].shape[1])
        sizes = {"out": channels, "in": width, "kernel": taps, "groups": width / weight.shape[1]}
        numbers = {name: float(value) for name, value in sizes.items()}
        role = "ssm" if self.grouping.module_of[record.path][0] == "scan" else "default"
        return ProgramCall(
            "convolution", "conv1d", record.path, role, sizes={**numbers, "causal": 1.0}
        )


def _name(path: str, role: str) -> str:
    """A projection's name: its module's, with the part of the layer where that is ambiguous."""
    leaf = path.removesuffix(".weight").rpartition(".")[2]
    if role == "router":
        return "router"
    for part in ("indexer", "compressor"):
        if f".{part}." in path:
            return f"{part}_{leaf}"
    return f"shared_experts_{leaf}" if role.startswith("shared_experts") else leaf
