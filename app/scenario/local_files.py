"""Models and systems that a user of this machine may give as files.

Only the command line and the Python module come through here; pages know names and texts alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, overload

from model_registry.finding.hub import hub_model
from model_registry.finding.sources import ModelSource, json_object, shipped_page

_YAML = (".yaml", ".yml")
#: Keywords that name a model or a system.
_MODELS, _SYSTEMS = ("model", "draft_model"), ("system", "prefill_system")
#: Keywords that name a file.
_FILES = ("trace", "lengths")


@overload
def model_source(given: str) -> ModelSource: ...
@overload
def model_source(given: Any) -> Any: ...
def model_source(given: Any) -> Any:
    """A typed model: the text of a config.json, a file or a folder, a model on the hub, or a name.

    What looks like a path and leads nowhere stays a path, so that its error speaks of the file.
    What is no text is returned as it is.

    Raises:
        InvalidValue: an address that the hub cannot have, or a text that is no config.
    """
    if not isinstance(given, str):
        return given
    if given.lstrip().startswith("{"):
        return json_object(given)
    if page := shipped_page(given):
        return page
    if hub := hub_model(given):
        return hub
    path = _path(given)
    there = path is not None and (path.is_file() or (path / "config.json").is_file())
    meant = given.startswith(("/", "./", "../", "~")) or given.endswith(".json")
    return path if path is not None and (there or meant) else given


@overload
def system_source(given: str) -> str | Path: ...
@overload
def system_source(given: Any) -> Any: ...
def system_source(given: Any) -> Any:
    """A typed system: a YAML file of this machine, or else a name; no text: as it is."""
    path = _path(given) if isinstance(given, str) and given.endswith(_YAML) else None
    return given if path is None else path


def sources(given: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords of a call, its models, systems and files as what they mean; the others as they are.

    Raises:
        InvalidValue: as `model_source`.
    """
    opened = dict(given)
    for names, source in ((_MODELS, model_source), (_SYSTEMS, system_source)):
        opened |= {name: source(given[name]) for name in names if name in given}
    texts = (name for name in _FILES if isinstance(given.get(name), str) and given[name])
    return opened | {name: Path(given[name]).expanduser() for name in texts}


def _path(text: str) -> Path | None:
    """The path that a text is; None where no file can have it."""
    if not text or "\n" in text or "{" in text or len(text) > 1024:
        return None
    try:
        path = Path(text).expanduser()
        path.exists()
    except (OSError, RuntimeError, ValueError):  # no file's name, or the home of an unknown user
        return None
    return path
