"""The shipped measured points with their predictions, on disk until the code or its data change.

    records-<area>-<edition>.json in the folder `accuracy` of the cache

Pricing them takes seconds.  They are priced as this program ships, without the user's own files.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import app
import genz_core
import hardware_db
import model_registry
from app.accuracy import measured_points
from app.accuracy.likely_causes import run_words
from app.accuracy.tables import Columns, Row, column, columns_of
from genz_core.common.cache_folder import cache_folder
from genz_core.common.progress import Cancel, Cancelled, Progress, never, silent
from genz_core.errors import InvalidValue
from hardware_db.data_folder import as_shipped
from hardware_db.whole_file import write_whole

#: What prices the records of each area.
AREAS: Mapping[str, Callable[..., list[Row]]] = {
    "batch points": measured_points.published,
    "serving": measured_points.serving,
}
_PACKAGES = (app, genz_core, hardware_db, model_registry)


def read(area: str) -> Columns | None:
    """The records of an area as they were kept; None if this edition kept none, or the file is
    damaged.
    """
    with suppress(OSError, ValueError):
        found: dict[str, list[Any]] = json.loads(_path(area).read_text(encoding="utf-8"))
        return {name: column(values) for name, values in found.items()}
    return None


def records(area: str, progress: Progress = silent, cancelled: Cancel = never) -> Columns:
    """The records of "batch points" or "serving", from disk where they are kept, otherwise priced
    and kept; their `label` is a chart's hover text.

    Raises:
        Cancelled: between two rows.
    """
    kept = read(area)
    return _made(area, progress, cancelled) if kept is None else kept


def _made(area: str, progress: Progress, cancelled: Cancel) -> Columns:
    def told(done: int, of: int) -> None:
        progress(done / of, f"{done:,} of {of:,} measured runs")
        if cancelled():
            raise Cancelled("the measured runs")

    with as_shipped():
        found = columns_of([{**row, "label": run_words(row)} for row in AREAS[area](told)])
    path = _path(area)
    with suppress(InvalidValue), write_whole(path) as draft:  # a full disk, or a read-only one
        kept = {name: values.tolist() for name, values in found.items()}
        draft.write_text(json.dumps(kept), encoding="utf-8")
        for other in path.parent.glob(f"records-{area}-*.json"):
            other.unlink(missing_ok=True)
    return found


def _path(area: str) -> Path:
    return cache_folder() / "accuracy" / f"records-{area}-{edition()}.json"


@cache
def edition() -> str:
    """A digest of all that a prediction depends on: this program's files, and NumPy's version."""
    digest = hashlib.sha256(version("numpy").encode())
    for package in _PACKAGES:
        folder = Path(package.__path__[0])
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(path.relative_to(folder).as_posix().encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:32]
