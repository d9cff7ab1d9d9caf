"""A traced model as data: operators with their sizes, rows left symbolic.

A `ProgramCall` is plain (it goes to the disk cache as JSON) and knows no step: `lowering` puts the
step's tokens, the parallel degrees and the number formats in and makes `Op`s of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

#: Units of an operator's rows: new tokens, sequences, cached and new tokens, a single row, or no
#: row at all where weights are held and not run.
RowUnit = Literal["tokens", "sequences", "context", "step", "none"]
#: How tensor parallelism divides a weight, or the input of an operator without one: by columns,
#: by rows, not at all, or as the residual stream is.
Split = Literal["column", "row", "none", "stream"]


@dataclass(frozen=True, slots=True)
class ProgramCall:
    """One operator of a layer.

    operator: a key of `lowering.LOWER`.  name: as shown.  module: path in the model.
    role: precision role of the weights.  rows, times: the unit of its rows, and rows for each.
    sizes: numbers the operator takes (n, k, heads ...).  split: over tp.  block: type of
    `model_registry.spec` whose mixer this is (`mixers.MIXERS`).  weight: name of the parameter
    that is read.  parts: column blocks of a projection as (features, most devices that can share
    them).
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
    """The calls of equal layers, or of the model's ends.

    layers: their indices, empty before and behind the layers.  stage: pipeline stage of an end.
    path: of the layer that was run for all of them.
    """

    calls: tuple[ProgramCall, ...]
    layers: tuple[int, ...] = ()
    stage: Literal["first", "last"] = "last"
    path: str = ""


@dataclass(frozen=True, slots=True)
class Program:
    """A traced model: its blocks in order, and facts of the whole.

    parameters: of the language model, tied weights once.  active: of them per token.
    tied: the LM head shares the embedding's weights.  ignored, defaulted: keys of the config that
    are not read, and keys that the class filled in.  notes: assumptions, in words.
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
        """The program that `to_json` wrote.  Raises `KeyError` or `TypeError` for anything else."""
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
