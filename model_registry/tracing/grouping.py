"""Dispatched operators of a segment, grouped by the module that they belong to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from model_registry.tracing.calls import RowUnit
from model_registry.tracing.inline import with_attention
from model_registry.tracing.records import DispatchedOp, Segment

_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "mv", "addmv"})
_SCAN = re.compile(
    r"Mamba\w*Mixer|Mamba2|MambaBlock|GatedDeltaNet|DeltaAttention|LightningAttention|"
    r"Recurrent(Block|GatedLru|Lru)|R[Gg][Ll]ru|Rwkv\w*Attention|mLSTM|xLSTMBlock|ShortConv|MambaMixer"
)
#: Paths of activation modules, whose work is attributed to the enclosing module.
_ACTIVATION = re.compile(r"act(_fn|ivation)?(_fn)?$")


@dataclass(frozen=True, slots=True)
class TraceSetup:
    """The model that was traced and the pass that was recorded, for readers of its records.

    model: the traced module tree.  hidden: width of the residual stream.
    batch, new_tokens: of the pass.  without: names of rewrites that are switched off.
    """

    model: Any
    hidden: int
    batch: int
    new_tokens: int
    without: frozenset[str] = frozenset()

    @property
    def tokens(self) -> int:
        """New tokens of all sequences."""
        return self.batch * self.new_tokens

    def module(self, path: str) -> Any:
        """The module at `path`, or the nearest above it."""
        while path:
            try:
                return self.model.get_submodule(path)
            except AttributeError:
                path = path.rpartition(".")[0]
        return self.model

    def rows(self, count: float) -> tuple[RowUnit, float]:
        """(unit, number per unit) that give `count` rows in the recorded pass."""
        if count == self.new_tokens:  # positions, which are looked up once for all sequences
            return "tokens", 1.0
        units: Mapping[RowUnit, int] = {"tokens": self.tokens, "sequences": self.batch}
        for unit, size in units.items():
            if count >= size and count % size == 0:
                return unit, count / size
        return "step", float(count)


class Grouping:
    """The dispatched operators of one segment, by the module that they belong to.

    A product forms a group of its own.  Other operators belong to the enclosing norm, scan, router,
    indexer, attention or layer, or otherwise to the module that ran them.
    module_of: {path: (kind, path of the module that operators run at `path` belong to)}.
    attention: the attention record of each attention module, by its path.
    """

    def __init__(self, segment: Segment, setup: TraceSetup) -> None:
        self.segment, self.setup = with_attention(segment, setup.batch), setup
        self.attention = {
            record.path: record for record in self.segment.records if record.operator == "attention"
        }
        self.routers = {
            record.path
            for record in self.segment.records
            if record.operator == "topk" and record.outputs[0].floating
        }
        paths = {record.path for record in self.segment.records}
        self.module_of = {path: self._module_of(path) for path in paths}

    def groups(self) -> Iterator[tuple[int, list[DispatchedOp]]]:
        """(position, records) of each product, and of the other operators of one module.

        For a norm, each unbroken run is a group; the operators of any other module are collected up
        to the next product of that module, and placed where they end.
        """
        gathered: dict[str, tuple[int, list[DispatchedOp]]] = {}
        previous = ""
        for position, record in enumerate(self.segment.records):
            kind, module = self.module_of[record.path]
            if is_product(record):
                if kind in ("attention", "layer") and module in gathered:
                    yield gathered.pop(module)
                yield position, [record]
            elif kind != "skip":
                if kind == "norm" and previous != module and module in gathered:
                    yield gathered.pop(module)
                if kind == "layer" and module in gathered:
                    yield gathered.pop(module)
                _, records = gathered.get(module, (position, []))
                gathered[module] = (position, [*records, record])
            previous = module
        yield from gathered.values()

    def _module_of(self, path: str) -> tuple[str, str]:
        """(kind, path) of the module that operators at `path` belong to."""
        steps = path.split(".") if path else []
        for end in range(len(steps), 0, -1):
            above = ".".join(steps[:end])
            kind = self.kind(above)
            if kind:
                return kind, above
        parent = path.rpartition(".")[0] if _ACTIVATION.search(path) else path
        return ("layer" if path == self.segment.path else "other"), parent

    def kind(self, path: str) -> str:
        """The kind of the module at `path` by its class, "" where its operators belong to an
        enclosing module.
        """
        name = type(self.setup.module(path)).__name__
        if "rotary" in path.rpartition(".")[2].lower() or "Rotary" in name:
            return "skip"
        if "Norm" in name or path.endswith(("norm", "ln_f")):
            return "norm"
        if _SCAN.search(name) or hasattr(self.setup.module(path), "A_log"):
            return "scan"
        if "ndexer" in name or "Compressor" in name:
            return "indexer"
        if path in self.routers:
            return "router"
        return "attention" if path in self.attention else ""


def is_product(record: DispatchedOp) -> bool:
    """Whether a record is a product with a parameter, an attention or a bank of experts."""
    if record.operator in ("attention", "experts"):
        return True
    if record.operator in ("embedding", "convolution") or record.operator in _PRODUCTS:
        return any(len(tensor.shape) >= 2 for tensor in record.parameters)
    return False
