"""Models and systems that a user of this machine may give as files.

Only the command line and the Python module use this file; pages accept only names and texts.
"""

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

    A text that looks like a path but leads nowhere is kept as a path, so that the error message
    names a file. Anything but a text is returned unchanged.

    Raises:
        InvalidValue: an impossible address on the hub, or a text that is not a config.
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
    """A typed system: a YAML file or a name; anything but a text is returned unchanged."""
    path = _path(given) if isinstance(given, str) and given.endswith(_YAML) else None
    return given if path is None else path


def sources(given: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords of a call, with its models, systems and files resolved and the others unchanged.

    Raises:
        InvalidValue: as `model_source`.
    """
    opened = dict(given)
    for names, source in ((_MODELS, model_source), (_SYSTEMS, system_source)):
        opened |= {name: source(given[name]) for name in names if name in given}
    texts = (name for name in _FILES if isinstance(given.get(name), str) and given[name])
    return opened | {name: Path(given[name]).expanduser() for name in texts}


def _path(text: str) -> Path | None:
    """The path that a text stands for; None where no file can have that name."""
    if not text or "\n" in text or "{" in text or len(text) > 1024:
        return None
    try:
        path = Path(text).expanduser()
        path.exists()
    # an invalid file name, or the home of an unknown user
    except (OSError, RuntimeError, ValueError):
        return None
    return path
