"""Traced programs on disk, keyed by a hash of the config and of the code that made them."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Collection, Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from genz_core.common.cache_folder import cache_folder
from model_registry.tracing.calls import Program

_FOLDER = Path(__file__).parent


def traces_folder() -> Path:
    """The folder of programs, below the cache folder."""
    return cache_folder() / "traces"


@lru_cache(maxsize=1)
def code_version() -> str:
    """Hash of this package's sources and of the versions of torch and transformers."""
    digest = hashlib.sha256()
    for path in sorted(_FOLDER.glob("*.py")):
        digest.update(path.read_bytes())
    for package in ("torch", "transformers"):
        try:
            digest.update(version(package).encode())
        except PackageNotFoundError:
            digest.update(b"none")
    return digest.hexdigest()


def program_key(config: Mapping[str, Any], without: Collection[str]) -> str:
    """The name of a program: a hash of its config, the rewrites left out, and the code."""
    text = json.dumps([config, sorted(without), code_version()], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def read_program(name: str) -> Program | None:
    """The program called `name`; None where it is missing or damaged."""
    path = traces_folder() / f"{name}.json"
    try:
        return Program.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_program(name: str, program: Program) -> None:
    """Store a program under `name`, atomically; do nothing where the folder cannot be written."""
    path = traces_folder() / f"{name}.json"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, scratch = tempfile.mkstemp(dir=path.parent, suffix=".part")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(program.to_json(), file)
        os.replace(scratch, path)
    except OSError:
        return
