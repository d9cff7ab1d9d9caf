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

from genz_core.end_to_end import CONSTANTS, FIELDS
from genz_core.errors import InvalidValue
from genz_core.serving import Recipe
from genz_core.types import EngineProfile, MeasuredOn
from hardware_db import library

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
    own: calibrated by the user, not shipped.
    """

    scales: Recipe
    factors: Mapping[str, float]
    own: bool = False


def load_recipe(key: RecipeKey, *, own: bool = True) -> Measured | None:
    """What was measured of a recipe, None where nobody measured it.

    own: whether a calibration of the user's own stands in for a shipped one.
    """
    return (_own().get(key) if own else None) or _shipped().get(key)


def tuned(engine: EngineProfile, system: str, recipe: Measured | None = None) -> EngineProfile:
    """The engine as it was measured on a system, and with a recipe there.

    system: a slug.  `measured_on` of the result says what was found: "own", "recipe", "device",
    or "" for none of them.
    """
    device = _devices().get((engine.name, system), {})
    levels = [device, recipe.factors if recipe else {}]
    found: MeasuredOn = "device" if device else ""
    if recipe is not None:
        found = "own" if recipe.own else "recipe"
    return replace(_scaled(engine, levels), measured_on=found)


def _scaled(engine: EngineProfile, levels: Iterable[Mapping[str, float]]) -> EngineProfile:
    fields: dict[str, Any] = {}
    for factors in levels:
        for field, factor in factors.items():
            value = fields.get(field, max(getattr(engine, field), _LEAST[field]))
            fields[field] = value * factor
    return replace(engine, **fields)


# ------------------------------------------------------------------------------- the files


def own_file() -> Path:
    """Where the user's own recipes lie; it need not exist."""
    return library.data_folder() / "recipes.csv"


def keep_recipe(key: RecipeKey, measured: Measured, model: str) -> Path:
    """Save a recipe of the user's own, in place of an earlier one of the same key.

    Raises:
        InvalidValue: the file cannot be written; what it held stays.
    """
    return _write_own({**_own_rows(), key: {"model": model, **_row(measured)}})


def forget_recipe(key: RecipeKey) -> bool:
    """Remove a recipe of the user's own; whether there was one."""
    rows = _own_rows()
    if rows.pop(key, None) is None:
        return False
    _write_own(rows)
    return True


def _row(measured: Measured) -> dict[str, Any]:
    factors = {field: measured.factors.get(field, 1.0) for field in FIELDS}
    return {**asdict(measured.scales), **factors}


def _write_own(rows: Mapping[RecipeKey, Mapping[str, Any]]) -> Path:
    path = own_file()
    draft = path.with_name(f"{path.name}.{os.getpid()}.part")
    names = [*RecipeKey.__slots__, "model", *asdict(Recipe()), *FIELDS]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("w", newline="", encoding="utf-8") as handle:
            writer = csv.DictWriter(handle, names, lineterminator="\n")
            writer.writeheader()
            writer.writerows({**asdict(key), **row} for key, row in rows.items())
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise InvalidValue(f"cannot write {path}: {error.strerror or error}") from None
    return path


def _own_rows() -> dict[RecipeKey, dict[str, Any]]:
    path = own_file()
    return dict(_read_own(path, path.stat().st_mtime_ns)) if path.is_file() else {}


def _own() -> Mapping[RecipeKey, Measured]:
    return {key: replace(_measured(row), own=True) for key, row in _own_rows().items()}


@lru_cache(maxsize=8)
def _read_own(path: Path, _modified: int) -> Mapping[RecipeKey, dict[str, Any]]:
    try:
        return _by_key(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InvalidValue(
            f"{path} cannot be read as recipes ({error}); mend it or move it away"
        ) from None


@cache
def _shipped() -> Mapping[RecipeKey, Measured]:
    return {key: _measured(row) for key, row in _by_key(_text("recipes.csv")).items()}


@cache
def _devices() -> Mapping[tuple[str, str], Mapping[str, float]]:
    rows = csv.DictReader(_text("devices.csv").splitlines())
    return {(row["engine"], row["system"]): _factors(row) for row in rows}


def _text(name: str) -> str:
    return files("hardware_db").joinpath("engines", name).read_text(encoding="utf-8")


def _by_key(text: str) -> dict[RecipeKey, dict[str, Any]]:
    return {
        RecipeKey(row["engine"], int(row["parameters"]), row["system"], row["weights"]): row
        for row in csv.DictReader(text.splitlines())
        if _measured(row)
    }


def _measured(row: Mapping[str, Any]) -> Measured:
    scales = {name: float(row[name]) for name in ("tpot_scale", "ttft_scale", "queue_scale")}
    return Measured(Recipe(points=int(row["points"]), **scales), _factors(row))


def _factors(row: Mapping[str, Any]) -> dict[str, float]:
    return {field: float(row[field]) for field in FIELDS if row.get(field)}
