"""A cache that is bounded by the bytes of what it holds."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Value = TypeVar("Value")


@dataclass(slots=True)
class _Entry(Generic[Value]):
    value: Value
    size: int
    used: float


@dataclass(eq=False)
class ByteCache(Generic[Value]):
    """The most recently used values by key, for all sessions.

    most_bytes: of all values together.  ttl_s: how long an unused one is kept.
    """

    most_bytes: int
    ttl_s: float
    _entries: OrderedDict[Hashable, _Entry[Value]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def size(self) -> int:
        """Bytes of the values that are held."""
        return sum(entry.size for entry in self._entries.values())

    def get(self, key: Hashable) -> Value | None:
        """The value of a key, None if it is not cached."""
        with self._lock:
            self._forget_unused()
            entry = self._entries.get(key)
            if entry is None:
                return None
            entry.used = time.monotonic()
            self._entries.move_to_end(key)
            return entry.value

    def put(self, key: Hashable, value: Value, size: int) -> None:
        """Store a value of `size` bytes, and evict the values that were used longest ago.

        A value larger than the cache is not stored.
        """
        with self._lock:
            self._entries.pop(key, None)
            self._forget_unused()
            if size > self.most_bytes:
                return
            self._entries[key] = _Entry(value, size, time.monotonic())
            while self.size > self.most_bytes:
                self._entries.popitem(last=False)

    def clear(self) -> None:
        """Evict all values."""
        with self._lock:
            self._entries.clear()

    def _forget_unused(self) -> None:
        """Evict values that have not been used for `ttl_s`."""
        limit = time.monotonic() - self.ttl_s
        for key in [key for key, entry in self._entries.items() if entry.used < limit]:
            del self._entries[key]
