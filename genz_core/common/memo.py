"""Cache of results, keyed by the identity of the objects that they were made from."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

Result = TypeVar("Result")


@dataclass(slots=True)
class ByIdentity(Generic[Result]):
    """The latest `size` results, keyed by the identity of the objects that they were made from.

    Models, systems and engines contain mappings and cannot be hashed; they are immutable, so the
    same objects give the same result.  The cache keeps them alive as long as their result.
    """

    size: int = 64
    _kept: OrderedDict[tuple[Hashable, ...], tuple[tuple[object, ...], Result]] = field(
        default_factory=OrderedDict
    )
    _lock: Lock = field(default_factory=Lock, repr=False)

    def get(self, make: Callable[[], Result], *objects: object, values: Hashable = None) -> Result:
        """The cached result for these objects and values, or a new one from `make()`."""
        key = (*map(id, objects), values)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][1]
        result = make()
        with self._lock:
            self._kept[key] = (objects, result)
            while len(self._kept) > self.size:
                self._kept.popitem(last=False)
        return result
