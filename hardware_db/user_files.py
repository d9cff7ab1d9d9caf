"""Systems, profiles and engines in the user's data folder, where the hardware database reads them.

Each file appears whole or not at all, and two processes that write the same one do not meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from genz_core.errors import MeasurementError
from hardware_db import engine_schema, library, profile_schema, profiles
from hardware_db.profile_schema import Measured
from hardware_db.whole_file import write_whole


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
    with write_whole(path, MeasurementError) as draft:
        profile_schema.write(profile, draft, heading)
    return path


def _write_yaml(path: Path, document: Mapping[str, Any]) -> Path:
    import yaml

    with write_whole(path, MeasurementError) as draft:
        text = yaml.safe_dump(dict(document), sort_keys=False, width=100)
        draft.write_text(text, encoding="utf-8")
    return path
