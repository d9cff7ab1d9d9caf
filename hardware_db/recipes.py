"""Measured factors of an engine on a device, and recipes: factors for one model and format there.

More than half of a prediction's error is common to all runs on a device, or to all runs of one
recipe: kernels, flags, streaming intervals that no label names.  Every engine is loaded with its
measurements (`EngineMeasurements`), and `genz_core.deploy` applies those of the model and system.
Shipped files are written by ``python -m app.engine_fit``; recipes that the user calibrated are in
the data folder and replace shipped ones.  The same file holds step scales from single runs, one per
row; like a recipe, a scale applies to every split of its model, format, engine and system.
"""

from __future__ import annotations

import csv
import itertools
import math
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from genz_core.common.file_lock import locked
from genz_core.engine import EngineMeasurements, MeasuredRecipe, Recipe, RecipeKey
from genz_core.engine_constants import FIELDS
from genz_core.errors import InvalidValue
from genz_core.types import Parallelism
from hardware_db import measured_runs
from hardware_db.data_folder import data_folder, data_folders, dated_files
from hardware_db.own_files import OwnFiles, left_out, read_text
from hardware_db.tables import table
from hardware_db.whole_file import write_whole

_FILE = "recipes.csv"
#: {level of measured factors, which is the name of its file: column with the labels of the level}.
_LEVELS = {"devices": "system", "silicon": "family", "eras": "era"}
_REQUIRED = (*RecipeKey.__slots__, "model", *asdict(Recipe()))
_REMEDY = "fix it, or calibrate again"
#: Columns of a step scale, starting with the degrees of the measured deployment.
_STEP_COLUMNS = ("degrees", "step_scale", "step_tpot_s", "step_load", "step_date")
_COLUMNS = (*_REQUIRED, *FIELDS, *_STEP_COLUMNS)


@dataclass(frozen=True, slots=True)
class StepScale:
    """Measured over simulated time of a step.

    tpot_s: the measured mean that it is derived from.  load: of that measurement, in words.  date:
    of the calibration, YYYY-MM-DD.  degrees: of the measured deployment, "tp4 pp1 dp1 ...".
    """

    scale: float
    tpot_s: float
    load: str
    date: str
    degrees: str

    @property
    def sentence(self) -> str:
        """A sentence on what was measured, when, and its effect."""
        split = [part for part in self.degrees.split() if not re.fullmatch(r"\D+1|expert_.*", part)]
        return (
            f"steps x {self.scale:.3f}: your measured TPOT of {self.tpot_s * 1e3:.4g} ms "
            f"({self.load}, {' '.join(split) or 'one device'}, {self.date})"
        )


def load_recipe(key: RecipeKey, *, own: bool = True) -> MeasuredRecipe | None:
    """The measured recipe of a key, None if there is none.

    own: whether the user's own calibration replaces a shipped one.
    """
    return (_own_recipes().get(key) if own else None) or _shipped().get(key)


def engine_measurements(engine: str, *, own: bool = True) -> EngineMeasurements:
    """Factors by device and era, and recipes, of an engine, by the name of its profile.

    own: whether the user's own calibrations replace shipped recipes.
    """
    recipes = {**_shipped(), **(_own_recipes() if own else {})}
    recipes = {key: recipe for key, recipe in recipes.items() if key.engine == engine}
    levels = {level: _level_factors(level).get(engine, {}) for level in _LEVELS}
    runs = measured_runs.runs_of(engine)
    return EngineMeasurements(recipes=recipes, runs=runs, past=_past(engine), **levels)


# ------------------------------------------------------------------------------- the files


def own_file() -> Path:
    """File that the user's own recipes are written to; it need not exist."""
    return data_folder() / _FILE


def keep_recipe(key: RecipeKey, measured: MeasuredRecipe) -> Path:
    """Save a recipe of the user, replacing an earlier one with the same key; returns the file.

    A damaged file is kept beside it, as recipes.csv.damaged-1.

    Raises:
        InvalidValue: the file cannot be written; the old one is unchanged.
    """
    with _changing(own_file()):
        own = _file_of(own_file())
        return _write_own({**own.recipes, key: measured}, own.step_scales)


def forget_recipe(key: RecipeKey) -> bool:
    """Remove a recipe of the user; returns whether there was one.  Files as `keep_recipe`."""
    with _changing(own_file()):
        own = _file_of(own_file())
        kept = dict(own.recipes)
        if kept.pop(key, None) is None:
            return False
        _write_own(kept, own.step_scales)
    return True


def step_scale(key: RecipeKey) -> StepScale | None:
    """The user's scale of the steps of a key, whatever the split; None if none was kept."""
    found = None
    for folder in data_folders():
        found = _file_of(folder / _FILE).step_scales.get(key, found)
    return found


def keep_step_scale(key: RecipeKey, scale: StepScale) -> Path:
    """Save a step scale, replacing an earlier one with the same key; returns the file.

    Raises:
        InvalidValue: the file cannot be written; the old one is unchanged.
    """
    with _changing(own_file()):
        own = _file_of(own_file())
        return _write_own(own.recipes, {**own.step_scales, key: scale})


def forget_step_scale(key: RecipeKey) -> bool:
    """Remove a step scale; returns whether there was one."""
    with _changing(own_file()):
        own = _file_of(own_file())
        scales = dict(own.step_scales)
        if scales.pop(key, None) is None:
            return False
        _write_own(own.recipes, scales)
    return True


def degrees_of(parallelism: Parallelism) -> str:
    """Degrees of one deployment in words: "tp4 pp1 dp1 ep1 cp1 expert_tp4"."""
    names = ("tp", "pp", "dp", "ep", "cp", "expert_tp")
    return " ".join(f"{name}{getattr(parallelism, name):g}" for name in names)


@contextmanager
def _changing(path: Path) -> Iterator[None]:
    """Lock a file against changes by other processes within the block.

    Raises:
        InvalidValue: the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.with_name(f"{path.name}.lock")):
            yield
    except OSError as error:
        raise InvalidValue(f"cannot write {path}: {error.strerror or error}") from None


def _write_own(
    recipes: Mapping[RecipeKey, MeasuredRecipe], scales: Mapping[RecipeKey, StepScale]
) -> Path:
    """Write the file of the user's own recipes and scales; a damaged one is copied aside."""
    path = own_file()
    rows: list[dict[str, Any]] = [
        {**asdict(key), "model": measured.model, **asdict(measured.scales), **measured.factors}
        for key, measured in recipes.items()
    ]
    rows += [
        {**asdict(key), **dict(zip(_STEP_COLUMNS, _cells(scale), strict=True))}
        for key, scale in scales.items()
    ]
    with write_whole(path) as draft, draft.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, _COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        if _file_of(path).left_out:
            _copy_aside(path)
    return path


def _cells(scale: StepScale) -> tuple[Any, ...]:
    """A step scale as cells of `_STEP_COLUMNS`."""
    return scale.degrees, scale.scale, scale.tpot_s, scale.load, scale.date


def _copy_aside(path: Path) -> None:
    """Copy a damaged file to the first free name recipes.csv.damaged-<n>."""
    names = (path.with_name(f"{path.name}.damaged-{number}") for number in itertools.count(1))
    shutil.copy2(path, next(name for name in names if not name.exists()))


def own_recipes() -> OwnFiles[Mapping[RecipeKey, MeasuredRecipe]]:
    """The user's own recipes by the folder of their file, and reasons why lines or files are left
    out.
    """
    files = {folder: _file_of(folder / _FILE) for folder in data_folders()}
    return OwnFiles(
        {str(folder): file.recipes for folder, file in files.items()},
        {f"{folder} {at}": why for folder, file in files.items()
         for at, why in enumerate(file.left_out)},
    )  # fmt: skip


def _own_recipes() -> Mapping[RecipeKey, MeasuredRecipe]:
    """The user's own recipes; recipes in later folders replace recipes in earlier ones."""
    found: dict[RecipeKey, MeasuredRecipe] = {}
    for recipes in own_recipes().announced().records.values():
        found |= recipes
    return found


@dataclass(frozen=True, slots=True)
class _RecipeFile:
    """The content of a user's file.  left_out: reasons why lines, or the whole file, are
    left out.
    """

    recipes: Mapping[RecipeKey, MeasuredRecipe] = field(default_factory=dict)
    step_scales: Mapping[RecipeKey, StepScale] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


def _file_of(path: Path) -> _RecipeFile:
    """A user's file; an empty one where there is none."""
    found = dated_files(path.parent, path.name)
    return _read_own(*found[0]) if found else _RecipeFile()


@lru_cache(maxsize=8)
def _read_own(path: Path, _modified: int) -> _RecipeFile:
    """The recipes in the user's file, cached by the time of its last change."""
    try:
        rows = csv.DictReader(read_text(path).splitlines(), strict=True)
        _check_header(rows.fieldnames)
        return _by_line(path, rows)
    except (InvalidValue, csv.Error) as error:
        return _RecipeFile(left_out=(left_out(path, str(error), _REMEDY),))


def _check_header(names: Sequence[str] | None) -> None:
    """Refuse a table that lacks a column of recipes or has an unknown one."""
    missing = [name for name in _REQUIRED if name not in (names or ())]
    unknown = [name for name in names or () if name not in _COLUMNS]
    if missing:
        raise InvalidValue(f"it has no column {missing[0]!r}")
    if unknown:
        raise InvalidValue(f"it has a column {unknown[0]!r}, which no recipe has")


def _by_line(path: Path, rows: csv.DictReader[str]) -> _RecipeFile:
    """The recipes of the readable lines, and a sentence for each other line; of several step scales
    of a key, the latest one.
    """
    recipes: dict[RecipeKey, MeasuredRecipe] = {}
    scales: dict[RecipeKey, StepScale] = {}
    refused = []
    for row in rows:
        try:
            if row.get("degrees"):
                key, scale = _key(row), _step(row)
                scales[key] = max(scales.get(key, scale), scale, key=lambda one: one.date)
            else:
                recipes |= _by_key([row], own=True)
        except (ValueError, KeyError, TypeError, OverflowError) as error:
            reason = f"line {rows.line_num} cannot be read as a recipe ({error})"
            refused.append(left_out(path, reason, _REMEDY))
    return _RecipeFile(recipes, scales, tuple(refused))


@cache
def _shipped() -> Mapping[RecipeKey, MeasuredRecipe]:
    """The shipped recipes: measured combinations with their factors.  They have no scales, because
    their runs correct them.
    """
    factors = {_key(row): _factors(row) for row in table("engines", "recipes")}
    return {
        (key := _key(row)): MeasuredRecipe(Recipe(points=count), factors.get(key, {}), row["model"])
        for row, count in measured_runs.shipped_recipes()
    }


@cache
def _level_factors(level: str) -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    """{engine: {label: {constant: factor}}} of a level that was measured, a key of `_LEVELS`."""
    found: dict[str, dict[str, Mapping[str, float]]] = {}
    for row in table("engines", level):
        found.setdefault(row["engine"], {})[row[_LEVELS[level]]] = _factors(row)
    return found


def _past(engine: str) -> frozenset[str]:
    """Boards and families of which no run of an engine's releases of today was measured."""
    return frozenset(
        row[column]
        for level, column in _LEVELS.items()
        if level != "eras"
        for row in table("engines", level)
        if row["engine"] == engine and row["today"] == "0"
    )


def _by_key(rows: Iterable[Mapping[str, str]], *, own: bool) -> dict[RecipeKey, MeasuredRecipe]:
    """Recipes of the rows of a table.  own: whether the user calibrated them."""
    return {
        _key(row): MeasuredRecipe(_scales(row), _factors(row), row["model"], own) for row in rows
    }


def _key(row: Mapping[str, Any]) -> RecipeKey:
    return RecipeKey(row["engine"], int(row["parameters"]), row["system"], row["weights"])


def _scales(row: Mapping[str, Any]) -> Recipe:
    scales = {name: _factor(row, name) for name in ("tpot_scale", "ttft_scale")}
    return Recipe(points=int(row["points"]), **scales)


def _step(row: Mapping[str, Any]) -> StepScale:
    scale, tpot_s = float(row["step_scale"]), float(row["step_tpot_s"])
    return StepScale(scale, tpot_s, row["step_load"], row["step_date"], row["degrees"])


def _factors(row: Mapping[str, Any]) -> dict[str, float]:
    return {name: _factor(row, name) for name in FIELDS if row.get(name)}


def _factor(row: Mapping[str, Any], name: str) -> float:
    """A factor in a row.  Raises `ValueError` for an impossible value."""
    value = float(row[name])
    if not 0.0 < value < math.inf:
        raise ValueError(f"{name} is {value:g}")
    return value
