"""Systems by name, kept until one of the user's own files changes."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import hardware_db
from genz_core import System
from hardware_db import data_folder

SystemSource = str | Path | Mapping[str, Any]


def find_system(system: SystemSource | System) -> System:
    """A system by name, file or figures, or given as an object.

    Raises:
        RidgelineError: an unknown name, a file that cannot be read.
    """
    if isinstance(system, str):
        return _known_system(system, data_folder.stamp())
    return system if isinstance(system, System) else hardware_db.load(system)


@lru_cache(maxsize=64)
def _known_system(name: str, _stamp: frozenset[tuple[Path, int]]) -> System:
    """A system by name; cached until one of the user's own files changes."""
    return hardware_db.load(name)
