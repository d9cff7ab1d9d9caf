"""What was measured of an engine on one device, and of one model and format there.

More than half of what a prediction misses is common to all runs on a device, or of one recipe:
kernels, flags, streaming intervals that no label names.  Where a device or a recipe was measured,
the engine's constants are moved to it (`tuned`); the scales of a recipe's serving figures, which
no constant describes, come as a `Recipe`.  Where nobody measured, the engine's profile alone
holds.  The files are written by ``python -m app.engine_fit``; what a user calibrated from runs of
their own lies in the data folder and stands in for a shipped recipe.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from genz_core.engine_calibration import CONSTANTS, FIELDS
from genz_core.errors import InvalidValue
from genz_core.serving import Recipe
from genz_core.types import EngineProfile, MeasuredOn
from hardware_db import library

#: Runs under load whose worth in a calibration of one's own was tried (`app/engine_fit`).
TRIED_RUNS = 3
_LEAST = {constant.field: constant.least for constant in CONSTANTS}


@dataclass(frozen=True, slots=True)
class RecipeKey:
    """What a recipe is looked up by.

    engine: a profile's name.  parameters: of the model, which tell architectures apart whatever
    their name.  system: a slug.  weights: format of the bulk of the weights.
    """

    engine: str
    parameters: int
    system: str
    weights: str


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured of a recipe.

    scales: of its serving figures.  factors: of the engine's constants, on top of its device's.
    model: its name, for a reader.  own: calibrated by the user, not shipped.
    """

    scales: Recipe
    factors: Mapping[str, float]
    model: str = ""
    own: bool = False


def load_recipe(key: RecipeKey, *, own: bool = True) -> Measured | None:
    """What was measured of a recipe, None where nobody measured it.

    own: whether a calibration of the user's own stands in for a shipped one.
    """
    return (_own().get(key) if own else None) or _shipped().get(key)


def tuned(engine: EngineProfile, system: str, recipe: Measured | None = None) -> EngineProfile:
    """The engine as it was measured on a system, and with a recipe there.

    system: a slug.  `measured_on` of the result says what was found.
    """
    device = _devices().get((engine.name, system), {})
    levels = [device, recipe.factors if recipe else {}]
    return replace(_scaled(engine, levels), measured_on=_found(device, recipe))


def _found(device: Mapping[str, float], recipe: Measured | None) -> MeasuredOn:
    if recipe is None:
        return "device" if device else ""
    if not recipe.own:
        return "recipe"
    return "own" if recipe.scales.points >= TRIED_RUNS else "own_few"


def _scaled(engine: EngineProfile, levels: Iterable[Mapping[str, float]]) -> EngineProfile:
    fields: dict[str, Any] = {}
    for factors in levels:
        for field, factor in factors.items():
            if factor == 1.0:
                continue
            value = fields.get(field, max(getattr(engine, field), _LEAST[field]))
            fields[field] = value * factor
    return replace(engine, **fields)


# ------------------------------------------------------------------------------- the files


def own_file() -> Path:
    """Where the user's own recipes lie; it need not exist."""
    return library.data_folder() / "recipes.csv"


def keep_recipe(key: RecipeKey, measured: Measured) -> Path:
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


def _write_own(recipes: Mapping[RecipeKey, Measured]) -> Path:
    path = own_file()
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    rows = [
        {**asdict(key), "model": found.model, **asdict(found.scales), **found.factors}
        for key, found in recipes.items()
    ]
    names = [*RecipeKey.__slots__, "model", *asdict(Recipe()), *FIELDS]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.DictWriter(handle, names, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise InvalidValue(f"cannot write {path}: {error.strerror or error}") from None
    return path


def _own() -> Mapping[RecipeKey, Measured]:
    path = own_file()
    return _read_own(path, path.stat().st_mtime_ns) if path.is_file() else {}


@lru_cache(maxsize=8)
def _read_own(path: Path, _modified: int) -> Mapping[RecipeKey, Measured]:
    try:
        return _by_key(path.read_text(encoding="utf-8"), own=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidValue(
            f"{path} cannot be read as recipes ({error}); mend it or move it away"
        ) from None


@cache
def _shipped() -> Mapping[RecipeKey, Measured]:
    return _by_key(_text("recipes.csv"), own=False)


@cache
def _devices() -> Mapping[tuple[str, str], Mapping[str, float]]:
    rows = csv.DictReader(_text("devices.csv").splitlines())
    return {(row["engine"], row["system"]): _factors(row) for row in rows}


def _text(name: str) -> str:
    return files("hardware_db").joinpath("engines", name).read_text(encoding="utf-8")


def _by_key(text: str, *, own: bool) -> dict[RecipeKey, Measured]:
    return {
        RecipeKey(row["engine"], int(row["parameters"]), row["system"], row["weights"]): Measured(
            _scales(row), _factors(row), row["model"], own
        )
        for row in csv.DictReader(text.splitlines())
    }


def _scales(row: Mapping[str, Any]) -> Recipe:
    scales = {name: float(row[name]) for name in ("tpot_scale", "ttft_scale", "queue_scale")}
    return Recipe(points=int(row["points"]), **scales)


def _factors(row: Mapping[str, Any]) -> dict[str, float]:
    return {field: float(row[field]) for field in FIELDS if row.get(field)}
