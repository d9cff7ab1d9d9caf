"""Which part of a layer each record belongs to, and the runs of records that mean one thing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from model_registry.tracing.inline import with_attention
from model_registry.tracing.records import Record, Segment

_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "mv", "addmv"})
_SCAN = re.compile(
    r"Mamba\w*Mixer|Mamba2|MambaBlock|GatedDeltaNet|DeltaAttention|LightningAttention|"
    r"Recurrent(Block|GatedLru|Lru)|RgLru|Rwkv\w*Attention|mLSTM|xLSTMBlock|ShortConv|MambaMixer"
)
#: Paths of activation modules: their work belongs to the module around them.
_ACTIVATION = re.compile(r"act(_fn|ivation)?(_fn)?$")


@dataclass(frozen=True, slots=True)
class Scene:
    """What the reader knows besides the records.

    model: the traced module tree.  hidden: width of the residual stream.
    batch, new_tokens: of the pass that was recorded.  without: rewrites that are switched off.
    """

    model: Any
    hidden: int
    batch: int
    new_tokens: int
    without: frozenset[str] = frozenset()

    @property
    def tokens(self) -> int:
        return self.batch * self.new_tokens

    def module(self, path: str) -> Any:
        """The module at `path`, or the nearest above it."""
        while path:
            try:
                return self.model.get_submodule(path)
            except AttributeError:
                path = path.rpartition(".")[0]
        return self.model

    def rows(self, count: float) -> tuple[str, float]:
        """What `count` rows are: (entry of `calls.ROWS`, rows for each)."""
        if count == self.new_tokens:  # positions, looked up once for all sequences
            return "tokens", 1.0
        for kind, unit in (("tokens", self.tokens), ("sequences", self.batch)):
            if count >= unit and count % unit == 0:
                return kind, count / unit
        return "step", float(count)


class Units:
    """The units of one segment: norms, scans, routers, attentions, layers and what is loose.

    of: (kind, path) of the unit that loose operators in the module at a path belong to.
    attention: the attention record of each attention module, by its path.
    """

    def __init__(self, segment: Segment, scene: Scene) -> None:
        self.segment, self.scene = with_attention(segment, scene.batch), scene
        self.attention = {
            record.path: record for record in self.segment.records if record.operator == "attention"
        }
        self.routers = {
            record.path
            for record in self.segment.records
            if record.operator == "topk" and record.outputs[0].floating
        }
        paths = {record.path for record in self.segment.records}
        self.of = {path: self._unit(path) for path in paths}

    def groups(self) -> Iterator[tuple[int, list[Record]]]:
        """(position, records): single products, and what ran loose in one unit.

        A norm is each unbroken run; any other unit is gathered up to the next product of its
        own, at the position where it ended.
        """
        open_units: dict[str, tuple[int, list[Record]]] = {}
        previous = ""
        for position, record in enumerate(self.segment.records):
            kind, unit = self.of[record.path]
            if is_product(record):
                if kind in ("attention", "layer") and unit in open_units:
                    yield open_units.pop(unit)
                yield position, [record]
            elif kind != "skip":
                if kind == "norm" and previous != unit and unit in open_units:
                    yield open_units.pop(unit)
                if kind == "layer" and unit in open_units:
                    yield open_units.pop(unit)
                _, gathered = open_units.get(unit, (position, []))
                open_units[unit] = (position, [*gathered, record])
            previous = unit
        yield from open_units.values()

    def _unit(self, path: str) -> tuple[str, str]:
        """(kind, path) of the unit that loose operators at `path` belong to."""
        steps = path.split(".") if path else []
        above = [".".join(steps[:end]) for end in range(len(steps), 0, -1)]
        for one in above:
            kind = self.kind(one)
            if kind:
                return kind, one
        parent = path.rpartition(".")[0] if _ACTIVATION.search(path) else path
        return ("layer" if path == self.segment.path else "other"), parent

    def kind(self, path: str) -> str:
        """What the module at `path` is by itself, "" for nothing special."""
        name = type(self.scene.module(path)).__name__
        if "rotary" in path.rpartition(".")[2].lower() or "Rotary" in name:
            return "skip"
        if "Norm" in name or path.endswith(("norm", "ln_f")):
            return "norm"
        if _SCAN.search(name) or hasattr(self.scene.module(path), "A_log"):
            return "scan"
        if "ndexer" in name or "Compressor" in name:
            return "indexer"
        if path in self.routers:
            return "router"
        return "attention" if path in self.attention else ""


def is_product(record: Record) -> bool:
    """Whether a record is a product with a parameter, an attention or a bank of experts."""
    if record.operator in ("attention", "experts"):
        return True
    if record.operator in ("embedding", "convolution") or record.operator in _PRODUCTS:
        return any(len(tensor.shape) >= 2 for tensor in record.parameters)
    return False
