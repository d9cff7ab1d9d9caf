"""The user's data folder: own systems, profiles, engines and recipes beside the shipped ones.

    systems/*.yaml   profiles/*.yaml   engines/*.yaml   recipes.csv

A second folder may be laid over it (`overlay`): a visitor of a shared server reads the user's
files, but writes to a folder of their own.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from stat import S_ISREG

_FILES = ("systems/*.yaml", "profiles/*.yaml", "engines/*.yaml", "recipes.csv")
_OVERLAY: ContextVar[Path | None] = ContextVar("overlay", default=None)
_AS_SHIPPED: ContextVar[bool] = ContextVar("as_shipped", default=False)


def data_folder() -> Path:
    """Path of the folder for writing: the overlay, otherwise the user's; it need not exist."""
    return overlaid() or users_folder()


def overlaid() -> Path | None:
    """Path of the folder laid over the user's, None if there is none."""
    return _OVERLAY.get()


def data_folders() -> tuple[Path, ...]:
    """Paths of the folders for reading; files of later folders replace those of earlier ones."""
    if _AS_SHIPPED.get():
        return ()
    over = overlaid()
    return (users_folder(), over) if over else (users_folder(),)


@contextmanager
def overlay(folder: Path | None) -> Iterator[None]:
    """Lay a folder over the user's within the block; None changes nothing."""
    token = _OVERLAY.set(folder)
    try:
        yield
    finally:
        _OVERLAY.reset(token)


@contextmanager
def as_shipped() -> Iterator[None]:
    """Read no file of a user or a visitor within the block, only what ships."""
    token = _AS_SHIPPED.set(True)
    try:
        yield
    finally:
        _AS_SHIPPED.reset(token)


def users_folder() -> Path:
    """Path of the user's folder, `$RIDGELINE_DATA` or the platform's usual place."""
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
    return frozenset(item for folder in data_folders() for item in _files(folder))


def edition(folder: Path) -> str:
    """A short digest of the files of a folder and their times, "" if there are none."""
    files = sorted((str(path), changed_ns) for path, changed_ns in _files(folder))
    return hashlib.sha256(repr(files).encode()).hexdigest()[:16] if files else ""


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    for pattern in _FILES:
        yield from dated_files(folder, pattern)


def dated_files(folder: Path, pattern: str) -> list[tuple[Path, int]]:
    """Files of a folder that match a pattern, by name, with their modification time [ns].

    Dangling links, folders, and files that are removed meanwhile are left out.
    """
    found = []
    for path in sorted(folder.glob(pattern)):
        with suppress(OSError):
            state = path.stat()
            if S_ISREG(state.st_mode):
                found.append((path, state.st_mtime_ns))
    return found
