"""What was measured of an engine on one device, and of one model and format there.

More than half of what a prediction misses is common to all runs on a device, or of one recipe:
kernels, flags, streaming intervals that no label names.  Every engine that is loaded carries what
was measured of it (`EngineMeasurements`), and `genz_core.deploy` applies it where model and system
fit.  The files are written by ``python -m app.engine_fit``; what a user calibrated from runs of
their own lies in the data folder and stands in for a shipped recipe.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from genz_core.engine import FIELDS, EngineMeasurements, MeasuredRecipe, Recipe, RecipeKey
from genz_core.errors import InvalidValue
from hardware_db import library
from hardware_db.tables import table
from hardware_db.whole_file import write_whole


def load_recipe(key: RecipeKey, *, own: bool = True) -> MeasuredRecipe | None:
    """What was measured of a recipe, None where nobody measured it.

    own: whether a calibration of the user's own stands in for a shipped one.
    """
    return (_own().get(key) if own else None) or _shipped().get(key)


def engine_measurements(engine: str, *, own: bool = True) -> EngineMeasurements:
    """What was measured of an engine, by the name of its profile.

    own: whether calibrations of the user's own stand in for shipped recipes.
    """
    mine = _own() if own else {}
    recipes = {key: found for key, found in _shipped().items() if key.engine == engine}
    recipes |= {key: found for key, found in mine.items() if key.engine == engine}
    devices = {slug: factors for (name, slug), factors in _devices().items() if name == engine}
    return EngineMeasurements(devices, recipes)


# ------------------------------------------------------------------------------- the files


def own_file() -> Path:
    """Where the user's own recipes lie; it need not exist."""
    return library.data_folder() / "recipes.csv"


def keep_recipe(key: RecipeKey, measured: MeasuredRecipe) -> Path:
    """Save a recipe of the user's own, in place of an earlier one of the same key.

    Raises:
        InvalidValue: the file cannot be written; what it held stays.
    """
    return _write_own({**_own(), key: measured})


def forget_recipe(key: RecipeKey) -> bool:
    """Remove a recipe of the user's own; whether there was one."""
    kept = dict(_own())
    if kept.pop(key, None) is None:
        return False
    _write_own(kept)
    return True


def _write_own(recipes: Mapping[RecipeKey, MeasuredRecipe]) -> Path:
    path = own_file()
    rows = [
        {**asdict(key), "model": measured.model, **asdict(measured.scales), **measured.factors}
        for key, measured in recipes.items()
    ]
    names = [*RecipeKey.__slots__, "model", *asdict(Recipe()), *FIELDS]
    with write_whole(path) as draft, draft.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def _own() -> Mapping[RecipeKey, MeasuredRecipe]:
    path = own_file()
    return _read_own(path, path.stat().st_mtime_ns) if path.is_file() else {}


@lru_cache(maxsize=8)
def _read_own(path: Path, _modified: int) -> Mapping[RecipeKey, MeasuredRecipe]:
    try:
        text = path.read_text(encoding="utf-8")
        return _by_key(csv.DictReader(text.splitlines()), own=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidValue(
            f"{path} cannot be read as recipes ({error}); mend it or move it away"
        ) from None


@cache
def _shipped() -> Mapping[RecipeKey, MeasuredRecipe]:
    return _by_key(table("engines", "recipes"), own=False)


@cache
def _devices() -> Mapping[tuple[str, str], Mapping[str, float]]:
    rows = table("engines", "devices")
    return {(row["engine"], row["system"]): _factors(row) for row in rows}


def _by_key(rows: Iterable[Mapping[str, str]], *, own: bool) -> dict[RecipeKey, MeasuredRecipe]:
    return {
        RecipeKey(
            row["engine"], int(row["parameters"]), row["system"], row["weights"]
        ): MeasuredRecipe(_scales(row), _factors(row), row["model"], own)
        for row in rows
    }


def _key(row: Mapping[str, Any]) -> RecipeKey:
    return RecipeKey(row["engine"], int(row["parameters"]), row["system"], row["weights"])


def _scales(row: Mapping[str, Any]) -> Recipe:
    scales = {name: float(row[name]) for name in ("tpot_scale", "ttft_scale", "queue_scale")}
    return Recipe(points=int(row["points"]), **scales)


def _factors(row: Mapping[str, Any]) -> dict[str, float]:
    return {field: float(row[field]) for field in FIELDS if row.get(field)}
