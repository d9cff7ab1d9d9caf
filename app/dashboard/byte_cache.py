"""A cache that is bounded by the bytes of what it holds."""

import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Generic, TypeVar

from cachetools import TTLCache

Value = TypeVar("Value")


class ByteCache(Generic[Value]):
    """The most recently used values by key, for all sessions.

    most_bytes: of all values together.  ttl_s: how long an unused one is kept.
    """

    def __init__(
        self, most_bytes: int, ttl_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lock = threading.Lock()
        self._entries: TTLCache[Hashable, tuple[Value, int]] = TTLCache(
            most_bytes, ttl_s, clock, getsizeof=lambda entry: entry[1]
        )

    @property
    def size(self) -> int:
        """Bytes of the values that are held."""
        return int(self._entries.currsize)

    def get(self, key: Hashable) -> Value | None:
        """The value of a key, None if it is not cached."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries[key] = entry  # its time starts again
            return entry[0]

    def put(self, key: Hashable, value: Value, size: int) -> None:
        """Store a value of `size` bytes; one larger than the cache is not stored."""
        with self._lock, suppress(ValueError):
            self._entries[key] = (value, size)

    def clear(self) -> None:
        """Evict all values."""
        with self._lock:
            self._entries.clear()
