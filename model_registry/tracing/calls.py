"""A traced model as data: operators with their sizes; the number of rows stays symbolic.

A `ProgramCall` is plain data (it is cached on disk as JSON) and independent of any step: `lowering`
inserts the step's tokens, the parallel degrees and the number formats, and makes `Op`s from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

#: Units of an operator's rows: new tokens, sequences, cached plus new tokens, a single row, or no
#: row where weights are held but not run.
RowUnit = Literal["tokens", "sequences", "context", "step", "none"]
#: How tensor parallelism divides a weight, or the input of an operator without one: by columns, by
#: rows, not at all, or like the residual stream.
Split = Literal["column", "row", "none", "stream"]


@dataclass(frozen=True, slots=True)
class ProgramCall:
    """One operator of a layer.

    operator: a key of `lowering.LOWER`.  name: as shown.  module: path in the model.
    role: precision role of the weights.  rows, times: the unit of its rows, and rows for each.
    sizes: numbers the operator takes (n, k, heads ...).  split: over tp.  block: type of
    `model_registry.spec` whose mixer this is (`mixers.MIXERS`).  weight: name of the parameter
    that is read.  parts: column blocks of a projection as (features, most devices that can share
    the block).
    """

    operator: str
    name: str
    module: str = ""
    role: str = "default"
    rows: RowUnit = "tokens"
    times: float = 1.0
    sizes: Mapping[str, float] = field(default_factory=dict)
    split: Split = "none"
    block: str = ""
    weight: str = ""
    parts: tuple[tuple[float, float], ...] = ()

    def size(self, key: str, default: float = 0.0) -> float:
        """The entry of `sizes` at `key`, `default` where there is none."""
        return float(self.sizes.get(key, default))

    @property
    def features(self) -> float:
        """Output features of a projection, all devices together."""
        return sum(width for width, _ in self.parts)


@dataclass(frozen=True, slots=True)
class ProgramBlock:
    """The calls of equal layers, or of the operators outside the layers.

    layers: their indices, empty outside the layers.  stage: pipeline stage where there are no
    layers.
    path: path of the layer that was run for all of them.
    """

    calls: tuple[ProgramCall, ...]
    layers: tuple[int, ...] = ()
    stage: Literal["first", "last"] = "last"
    path: str = ""


@dataclass(frozen=True, slots=True)
class Program:
    """A traced model: its blocks in order, and facts of the whole.

    parameters: of the language model, tied weights once.  active: those used per token.
    tied: the LM head shares the embedding's weights.  ignored, defaulted: keys of the config that
    are not used, and keys that the class filled in.  notes: assumptions, in words.
    rewrites: names of those that changed something.
    """

    blocks: tuple[ProgramBlock, ...]
    layers: int
    parameters: float
    active: float
    tied: bool
    model_type: str
    class_name: str
    ignored: tuple[str, ...] = ()
    defaulted: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    rewrites: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; `from_json` reads it back."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Program:
        """Read a program that `to_json` wrote.  Raises `KeyError` or `TypeError` otherwise."""
        blocks = tuple(
            ProgramBlock(
                tuple(_call(call) for call in block["calls"]),
                tuple(block["layers"]),
                block["stage"],
                block["path"],
            )
            for block in data["blocks"]
        )
        lists = {key: tuple(data[key]) for key in ("ignored", "defaulted", "notes", "rewrites")}
        return cls(**{**data, **lists, "blocks": blocks})


def _call(data: Mapping[str, Any]) -> ProgramCall:
    parts = tuple((float(width), float(shards)) for width, shards in data["parts"])
    return ProgramCall(**{**data, "parts": parts})
