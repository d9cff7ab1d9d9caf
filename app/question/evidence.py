"""What of a priced configuration was measured: unmeasured categories, and distances.

A *category* is a choice that is on or off (context parallelism, an overlap, an int4 cache).  If no
measured run had it, a prediction has no interval.  A *number* (users, lengths, degrees) beyond the
measured range keeps an interval, which widens with the distance from that range.
`app.question.comparison` determines both.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.question.measured_ranges import LOADS, Load
from genz_core.types import Array, Mask, Num
from hardware_db.intervals import Kind

#: Names of numbers for a reader.
NUMBERS: Mapping[str, str] = {
    "isl": "prompt tokens",
    "osl": "output tokens",
    "batch": "sequences in a batch",
    "users": "users",
    "devices": "devices",
    "tp": "tensor-parallel ranks",
    "pp": "pipeline stages",
    "dp": "attention ranks",
    "ep": "expert ranks",
}
#: Degrees that count with a single distance, since devices are their product.
_DEGREES = ("tp", "pp", "dp", "ep", "cp", "devices")
#: Sizes that do not affect a first token.
_LATER = ("osl",)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Which properties of some configurations were measured.

    load: kind of load.  unmeasured: {category that was never measured: which configurations have
    it, [configs] or one for all}.  beyond: {number: ln of the factor by which it lies beyond the
    measured range, [configs] or one}.  together: whether the engine was measured with these number
    formats under this kind of load.
    values, ranges: of the numbers, for words.
    kind: of deployment with separate measurements, if it is one.
    """

    load: Load = "batch"
    unmeasured: Mapping[str, Mask] = field(default_factory=dict)
    beyond: Mapping[str, Array] = field(default_factory=dict)
    together: bool = True
    values: Mapping[str, Num] = field(default_factory=dict)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    kind: Kind | None = None

    @property
    def without(self) -> Mask:
        """Which configurations have an unmeasured category, [configs] or one for all."""
        return np.any(np.broadcast_arrays(False, *self.unmeasured.values()), axis=0)

    def distance(self, *, first_token: bool = False) -> Array:
        """Distance of the numbers beyond the measured range, in natural logarithms.

        Users and lengths add; degrees and devices count once, by the farthest of them.
        first_token: for a figure that does not depend on the output's length.
        """
        left_out = _LATER if first_token else ()
        kept = {name: far for name, far in self.beyond.items() if name not in left_out}
        degrees = [far for name, far in kept.items() if name in _DEGREES]
        others = [far for name, far in kept.items() if name not in _DEGREES]
        zero = np.zeros(())
        split = np.max(np.broadcast_arrays(zero, *degrees), axis=0)
        return np.asarray(np.sum(np.broadcast_arrays(split, *others), axis=0))

    def categories(self, at: int = 0) -> list[str]:
        """Names of the unmeasured categories of a configuration."""
        return [name for name, mask in self.unmeasured.items() if _at(mask, at)]

    def words(self, at: int = 0) -> str:
        """Sentences about a configuration: unmeasured categories, and numbers beyond the range."""
        return self._said({text for text, mask in self._conditions() if _at(mask, at)})

    def messages(self, size: int) -> NDArray[Any]:
        """`words` of every configuration, [configs] of text; computed once for each distinct case.

        size: number of configurations.
        """
        return texts_by_row(list(self._conditions()), size, self._said)

    def _conditions(self) -> Iterator[tuple[str, Mask]]:
        """(category or name of a number, mask of the configurations that have it)."""
        yield from self.unmeasured.items()
        for name, far in self.beyond.items():
            called = NUMBERS.get(name, name.replace("_", " "))
            least, most = self.ranges[name]
            above = np.asarray(self.values[name]) > most
            yield f"above {most:,.6g} {called}", (far > 0.0) & above
            yield f"below {least:,.6g} {called}", (far > 0.0) & ~above

    def _said(self, true: Collection[str]) -> str:
        """A sentence on the conditions that apply."""
        names = [name for name in self.unmeasured if name in true]
        numbers = [text for text, _ in self._conditions() if text in true and text not in names]
        said = []
        if names:
            said.append(
                f"not validated: no measured run had {' or '.join(names)} {LOADS[self.load]}"
            )
        if numbers:
            said.append(f"beyond the measured range: {', '.join(numbers)}")
        return "; ".join(said)


def texts_by_row(
    conditions: Sequence[tuple[str, Any]], size: int, say: Callable[[list[str]], str]
) -> NDArray[Any]:
    """A text for every row, [size] of objects, made once for each combination of conditions.

    conditions: (name, mask of the rows where it holds, [size] or one for all).  say: the text from
    the names of those that hold, in their order.
    """
    code = np.zeros(size, dtype=np.int64)
    for bit, (_, mask) in enumerate(conditions):
        code |= np.asarray(mask, dtype=np.int64) << bit
    kinds, of = np.unique(code, return_inverse=True)
    texts = [
        say([name for bit, (name, _) in enumerate(conditions) if kind >> bit & 1])
        for kind in kinds.tolist()
    ]
    return np.array(texts, dtype=object)[of.ravel()]


def _at(mask: Any, at: int) -> bool:
    return bool(np.ravel(mask)[at if np.size(mask) > 1 else 0])
