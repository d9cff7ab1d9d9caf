"""Cached models, estimates and sweeps by setup, so that revisiting a page costs nothing.

All results are shared between visitors and must not be changed.
"""

import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

import cachetools
import numpy as np
import streamlit as st
from cachetools import LRUCache, TTLCache

import hardware_db
from app.model_inside import builder_and_trace
from app.scenario import setup as setups
from app.scenario.fewest_devices import fewest_devices
from app.scenario.levers import levers as levers_of
from app.scenario.levers import with_eight_bits
from app.scenario.scenario import Resolved, asking, estimate_resolved, placing
from app.scenario.served_rows import as_calibrated, completed
from app.scenario.setup import Setup
from genz_core import Estimate, max_batch, max_context
from genz_core.types import Parallelism
from hardware_db import data_folder

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Value = TypeVar("Value")
#: What clears each cache of this module and of those that use it.
CLEARING: list[Callable[[], None]] = []


def by_setup(
    size: int, of: Callable[[Setup], Setup] | None = None
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """Cache the last `size` results of a function by its hashable arguments; visitors who ask the
    same at once wait for one result.

    Streamlit's own caches compare a setup field by field, ten times per page.
    of: what of a setup plays a part, with which the function is called; by default all of it.
    """

    def cached(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        kept: Any = cachetools.cached(LRUCache(size), condition=threading.Condition())(function)
        CLEARING.append(kept.cache_clear)
        asked: Any = kept if of is None else lambda setup, *args: kept(of(setup), *args)
        return wraps(function)(asked)

    return cached


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


#: `app.scenario.setup.model_of`, cached.
model_of = by_setup(64)(setups.model_of)


def resolved(setup: Setup) -> Resolved:
    """Model, system and engine of a setup; see `app.scenario.setup.resolve_setup`."""
    s = setup.scenario
    return asking(_named(replace(setup, scenario=placing(s))), s)


@by_setup(64)
def _named(setup: Setup) -> Resolved:
    """`resolved` of a setup without sizes and degrees, which do not affect any name."""
    s = setup.scenario
    model = model_of(s.model, setup.model_config, tuple(s.precisions.items()))
    return setups.resolve_setup(setup, model)


@by_setup(64)
def deployed(setup: Setup) -> Resolved:
    """A setup as it is priced: calibrated under load, with its drafts and adapters.

    Raises:
        RidgelineError: as `resolved` and `app.scenario.served_rows.completed`.
    """
    found = resolved(setup)
    return completed(found if setup.scenario.kind == "batch" else as_calibrated(found), {})


@by_setup(32)
def priced(setup: Setup) -> Estimate:
    """The estimate of a setup, one configuration.

    Raises:
        RidgelineError: as `resolved`, and degrees or sizes that cannot be.
    """
    return estimate_resolved(deployed(setup))


@by_setup(4)
def swept(setup: Setup, axis: str, values: tuple[int, ...]) -> Estimate:
    """The estimate of a setup with `axis` ("batch" or "isl") running over `values`."""
    return estimate_resolved(deployed(setup), **{axis: np.array(values, dtype=float)})


@by_setup(64)
def largest(setup: Setup) -> tuple[int, int]:
    """The largest batch and the longest input that fit, all else as in the setup."""
    r, s = deployed(setup), setup.scenario
    case = (r.model, r.system, s.workload, s.parallelism, r.engine)
    second = s.offload == "levels"
    return max_batch(*case, second=second), max_context(*case, second=second)


@by_setup(64)
def fewest(setup: Setup, batch: int) -> Parallelism | None:
    """As `app.scenario.fewest_devices.fewest_devices`."""
    return fewest_devices(deployed(setup), batch)


@by_setup(64)
def levers(setup: Setup) -> dict[str, list[tuple[str, float]]]:
    """Share of each phase's latency that single changes save; see `app.scenario.levers`."""
    eight = with_eight_bits(setup, resolved(setup))
    return levers_of(deployed(setup), priced(setup), deployed(eight) if eight else None)


#: `app.model_inside.builder_and_trace.traced_model`, cached.
traced = st.cache_resource(max_entries=16, show_spinner="Tracing the model's own code …")(
    builder_and_trace.traced_model
)


def left_out() -> tuple[str, ...]:
    """As `hardware_db.left_out`, of the data folders of this visitor."""
    return _left_out(tuple(data_folder.edition(folder) for folder in data_folder.data_folders()))


@st.cache_data(max_entries=64, show_spinner=False)
def _left_out(editions: tuple[str, ...]) -> tuple[str, ...]:
    return hardware_db.left_out()


@st.cache_resource(show_spinner=False)
def _stamp_of_the_cache() -> frozenset[tuple[Path, int]]:
    """The user's own files and their times when the caches were last cleared."""
    return data_folder.stamp()


def clear_stale_caches() -> None:
    """Clear the caches if the user's own files have changed since they were filled."""
    if _stamp_of_the_cache() != data_folder.stamp():
        st.cache_resource.clear()
        st.cache_data.clear()
        for clear in CLEARING:
            clear()
        _stamp_of_the_cache()  # of the files that fill them from now on
