"""Loads in the background, after the server's start, what the first click on a page waits for."""

import importlib
import pkgutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from genz_core.errors import RidgelineError

_DASHBOARD = __name__.rpartition(".")[0]  # in a wheel a part of another package


def begin() -> None:
    """Start to load; returns at once."""
    threading.Thread(target=load, daemon=True, name="preload").start()


def load() -> None:
    """Load everything, with a pause after each part that leaves the processor to visitors for as
    long as that part took.
    """
    for part in parts():
        began = time.thread_time()
        with suppress(RidgelineError):  # of a user's files: the page that needs them says so
            part()
        time.sleep(time.thread_time() - began)


def parts() -> Iterator[Callable[[], object]]:
    """What is loaded: the modules of all pages, lists of systems and models, measured loads."""
    for package in (_DASHBOARD, f"{_DASHBOARD}.panels"):
        for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
            yield partial(importlib.import_module, f"{package}.{module.name}")
    from app.dashboard import library_tables
    from app.decide import measured_loads

    yield partial(library_tables.systems_on_disk, "", "")
    yield library_tables.shipped_models
    yield measured_loads.by_family
