"""Registries of operator kinds: entries are added by decorators, one per name.

    @operator_kind("gemm", "gemm", flops="2 × {m} × {n} × {k}")   on the function that counts it
    @prices("gemm", formula=gemm_time, ...)                       on the function that prices it

The class of a kind, the formula of its FLOPs and its latency model come only from these entries.
A new kind is registered by the file that defines it.
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
    """Entries by name, one per name.

    what: kind of the entries, for messages ("operator kind").  advice: how an entry is added, for
    the message on a missing one.
    """

    what: str
    advice: str = ""
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
            InvalidValue: unknown; the message lists all names.
        """
        try:
            return self._entries[name]
        except KeyError:
            names = ", ".join(self._entries)
            advice = f": {self.advice}" if self.advice else ""
            raise InvalidValue(f"unknown {self.what} {name!r}{advice}; known: {names}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


@dataclass(frozen=True, slots=True)
class OperatorKind:
    """A kind of operator.

    operator_class: the class for charts and validation.  flops: FLOPs of one run as a formula over
    the names of its dimensions, "" where they are a number of FLOPs per element.
    """

    name: str
    operator_class: OperatorClass
    flops: str = ""


#: Kinds of the operator functions; filled when `genz_core.operators` is imported.
KINDS: Registry[OperatorKind] = Registry("operator kind")


def operator_kind(
    name: str, operator_class: OperatorClass, flops: str = ""
) -> Callable[[Function], Function]:
    """Register the kind of operator that the decorated function makes, one decorator per kind.

    Args: see `OperatorKind`.

    Raises:
        InvalidValue: the kind is registered already.
    """

    def register(function: Function) -> Function:
        KINDS.add(name, OperatorKind(name, operator_class, flops))
        return function

    return register


def collective_kinds() -> frozenset[str]:
    """The kinds that move messages between devices."""
    return frozenset(name for name in KINDS if KINDS[name].operator_class == "collective")
