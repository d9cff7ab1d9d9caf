"""The folder of files that can be made again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """$RIDGELINE_CACHE, or this program's part of the user's cache folder; it need not exist."""
    if chosen := os.environ.get("RIDGELINE_CACHE"):
        return Path(chosen)
    base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return base / "ridgeline"
