"""Systems, profiles and engines in the user's data folder, where the hardware database reads them.

Each file appears whole or not at all, and two processes that write the same one do not meet.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from genz_core.errors import MeasurementError
from hardware_db import engine_schema, library, profile_schema, profiles
from hardware_db.profile_schema import Measured


def write_system(document: Mapping[str, Any]) -> Path:
    """Keep a system under its id.

    Raises:
        MeasurementError: the folder cannot be written; so do the two below.
    """
    return _write_yaml(library.data_folder() / "systems" / f"{document['id']}.yaml", document)


def write_engine(document: Mapping[str, Any]) -> Path:
    """Keep an engine under its id."""
    return _write_yaml(engine_schema.own_folder() / f"{document['id']}.yaml", document)


def write_profile(profile: Measured, heading: str) -> Path:
    """Keep a latency profile under its name."""
    path = profiles.own_folder() / f"{profile.name}.yaml"
    with _draft(path) as draft:
        profile_schema.write(profile, draft, heading)
    return path


def _write_yaml(path: Path, document: Mapping[str, Any]) -> Path:
    import yaml

    with _draft(path) as draft:
        text = yaml.safe_dump(dict(document), sort_keys=False, width=100)
        draft.write_text(text, encoding="utf-8")
    return path


@contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """Where to write a file that then takes its place at once."""
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield draft
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as error:
        raise MeasurementError(f"{path.parent} cannot be written: {error.strerror}") from None
