"""Writers of systems, profiles and engines to the user's data folder.

Each file appears whole or not at all, also when two processes write it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from genz_core.errors import MeasurementError
from hardware_db import engine_files, profile_schema, profiles
from hardware_db.data_folder import data_folder
from hardware_db.profile_schema import FittedProfile
from hardware_db.whole_file import write_whole


def write_system(document: Mapping[str, Any]) -> Path:
    """Write a system's document under its id; returns the path.

    Raises:
        MeasurementError: the folder cannot be written; also raised by the two functions below.
    """
    return _write_yaml(data_folder() / "systems" / f"{document['id']}.yaml", document)


def write_engine(document: Mapping[str, Any]) -> Path:
    """Write an engine's document under its id; returns the path."""
    return _write_yaml(engine_files.own_folder() / f"{document['id']}.yaml", document)


def write_profile(profile: FittedProfile, heading: str) -> Path:
    """Write a latency profile under its name, below a heading of comments; returns the path."""
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
