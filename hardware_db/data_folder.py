"""The user's data folder: own systems, profiles, engines and recipes beside the shipped ones.

systems/*.yaml   profiles/*.yaml   engines/*.yaml   recipes.csv
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

_FILES = ("systems/*.yaml", "profiles/*.yaml", "engines/*.yaml", "recipes.csv")


def data_folder() -> Path:
    """Path of the folder, `$RIDGELINE_DATA` or the platform's usual place; it need not exist."""
    if chosen := os.environ.get("RIDGELINE_DATA"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    return base / "ridgeline"


def stamp() -> frozenset[tuple[Path, int]]:
    """State of the files that the hardware database reads there: (path, time of change [ns])."""
    folder = data_folder()
    paths = (path for pattern in _FILES for path in folder.glob(pattern))
    return frozenset((path, path.stat().st_mtime_ns) for path in paths)
