"""The registry of operator kinds: one entry a kind, made by decorators, a second one refused.

    @operator_kind("gemm", "gemm", flops="2 × {m} × {n} × {k}")   on the function that counts it
    @prices("gemm", formula=gemm_time, ...)                       on what turns it into a latency

Everything that is said of a kind anywhere (its class, the formula of its FLOPs, the latency model
that prices it) is read from its entry.  A new kind registers itself from the file it lives in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from genz_core.errors import InvalidValue

OperatorClass = Literal[
    "gemm",
    "attention",
    "moe",
    "ssm",
    "norm",
    "pointwise",
    "embedding",
    "sampling",
    "convolution",
    "collective",
]
Entry = TypeVar("Entry")
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(slots=True)
class Registry(Generic[Entry]):
    """Entries by name; a name is taken once.

    what: what the names are of, for messages.
    """

    what: str
    _entries: dict[str, Entry] = field(default_factory=dict)

    def add(self, name: str, entry: Entry) -> None:
        """Register an entry.

        Raises:
            InvalidValue: the name is taken.
        """
        if name in self._entries:
            raise InvalidValue(f"{self.what} {name!r} is registered twice; choose another name")
        self._entries[name] = entry

    def __getitem__(self, name: str) -> Entry:
        """The entry of a name.

        Raises:
            InvalidValue: there is none; all names are listed.
        """
        try:
            return self._entries[name]
        except KeyError:
            known = ", ".join(self._entries)
            raise InvalidValue(f"unknown {self.what} {name!r}; known: {known}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


@dataclass(frozen=True, slots=True)
class OperatorKind:
    """One kind of operator.

    operator_class: the class that it is drawn and validated under.  flops: FLOPs of one run as a
    formula over the names of its dimensions, "" where they are a number of FLOPs an element.
    """

    name: str
    operator_class: OperatorClass
    flops: str = ""


#: Every kind that an operator function makes; filled when `genz_core.operators` is imported.
KINDS: Registry[OperatorKind] = Registry("operator kind")


def operator_kind(
    name: str, operator_class: OperatorClass, flops: str = ""
) -> Callable[[Function], Function]:
    """Register the kind of operator that the decorated function makes.

    A function that makes several kinds carries a decorator for each.
    """

    def register(function: Function) -> Function:
        KINDS.add(name, OperatorKind(name, operator_class, flops))
        return function

    return register


def collective_kinds() -> frozenset[str]:
    """The kinds that move messages between devices."""
    return frozenset(name for name in KINDS if KINDS[name].operator_class == "collective")
