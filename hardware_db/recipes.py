"""Measured factors of an engine on a device, and recipes: of one model and format there.

More than half of a prediction's error is common to all runs on a device, or of one recipe:
kernels, flags, streaming intervals that no label names.  Every engine that is loaded carries its
measurements (`EngineMeasurements`), and `genz_core.deploy` applies those of the model and system.
Shipped files are written by ``python -m app.engine_fit``; recipes that the user calibrated are in
the data folder and stand in for shipped ones.
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
from hardware_db.data_folder import data_folder, data_folders
from hardware_db.tables import table
from hardware_db.whole_file import write_whole

_FILE = "recipes.csv"


def load_recipe(key: RecipeKey, *, own: bool = True) -> MeasuredRecipe | None:
    """The measured recipe of a key, None if there is none.

    own: whether a calibration of the user stands in for a shipped one.
    """
    return (_own_recipes().get(key) if own else None) or _shipped().get(key)


def engine_measurements(engine: str, *, own: bool = True) -> EngineMeasurements:
    """Factors by device and recipes of an engine, by the name of its profile.

    own: whether calibrations of the user stand in for shipped recipes.
    """
    recipes = {**_shipped(), **(_own_recipes() if own else {})}
    recipes = {key: recipe for key, recipe in recipes.items() if key.engine == engine}
    devices = {slug: factors for (name, slug), factors in _devices().items() if name == engine}
    return EngineMeasurements(devices, recipes)


# ------------------------------------------------------------------------------- the files


def own_file() -> Path:
    """File that the user's own recipes are written to; it need not exist."""
    return data_folder() / _FILE


def keep_recipe(key: RecipeKey, measured: MeasuredRecipe) -> Path:
    """Save a recipe of the user in place of an earlier one of the same key; returns the file.

    Raises:
        InvalidValue: the file cannot be written; the old one stays.
    """
    return _write_own({**_recipes_in(own_file()), key: measured})


def forget_recipe(key: RecipeKey) -> bool:
    """Remove a recipe of the user; returns whether there was one."""
    kept = dict(_recipes_in(own_file()))
    if kept.pop(key, None) is None:
        return False
    _write_own(kept)
    return True


def _write_own(recipes: Mapping[RecipeKey, MeasuredRecipe]) -> Path:
    """Write the file of the user's own recipes."""
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


def _own_recipes() -> Mapping[RecipeKey, MeasuredRecipe]:
    """The user's own recipes."""
    found: dict[RecipeKey, MeasuredRecipe] = {}
    for folder in data_folders():
        found |= _recipes_in(folder / _FILE)
    return found


def _recipes_in(path: Path) -> Mapping[RecipeKey, MeasuredRecipe]:
    """The recipes in a user's file, {} where there is none."""
    return _read_own(path, path.stat().st_mtime_ns) if path.is_file() else {}


@lru_cache(maxsize=8)
def _read_own(path: Path, _modified: int) -> Mapping[RecipeKey, MeasuredRecipe]:
    """The recipes in the user's file, cached by the time of its last change."""
    try:
        text = path.read_text(encoding="utf-8")
        return _by_key(csv.DictReader(text.splitlines()), own=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidValue(
            f"{path} cannot be read as recipes ({error}); mend it or move it away"
        ) from None


@cache
def _shipped() -> Mapping[RecipeKey, MeasuredRecipe]:
    """The recipes that ship."""
    return _by_key(table("engines", "recipes"), own=False)


@cache
def _devices() -> Mapping[tuple[str, str], Mapping[str, float]]:
    """{(engine, system): {constant: factor}} of the devices that ship."""
    rows = table("engines", "devices")
    return {(row["engine"], row["system"]): _factors(row) for row in rows}


def _by_key(rows: Iterable[Mapping[str, str]], *, own: bool) -> dict[RecipeKey, MeasuredRecipe]:
    """Recipes of the rows of a table.  own: whether the user calibrated them."""
    return {
        _key(row): MeasuredRecipe(_scales(row), _factors(row), row["model"], own) for row in rows
    }


def _key(row: Mapping[str, Any]) -> RecipeKey:
    return RecipeKey(row["engine"], int(row["parameters"]), row["system"], row["weights"])


def _scales(row: Mapping[str, Any]) -> Recipe:
    scales = {name: float(row[name]) for name in ("tpot_scale", "ttft_scale", "queue_scale")}
    return Recipe(points=int(row["points"]), **scales)


def _factors(row: Mapping[str, Any]) -> dict[str, float]:
    return {field: float(row[field]) for field in FIELDS if row.get(field)}
