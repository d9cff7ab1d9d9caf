"""Measured factors of an engine on a device, and recipes: of one model and format there.

More than half of a prediction's error is common to all runs on a device, or of one recipe:
kernels, flags, streaming intervals that no label names.  Every engine that is loaded carries its
measurements (`EngineMeasurements`), and `genz_core.deploy` applies those of the model and system.
Shipped files are written by ``python -m app.engine_fit``; recipes that the user calibrated are in
the data folder and stand in for shipped ones.  The same file holds scales of the step that a
simulation applies, a row each, scoped to the degrees of one deployment.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from genz_core.engine import FIELDS, EngineMeasurements, MeasuredRecipe, Recipe, RecipeKey
from genz_core.errors import InvalidValue
from genz_core.types import Parallelism
from hardware_db.data_folder import data_folder, data_folders
from hardware_db.tables import table
from hardware_db.whole_file import write_whole

_FILE = "recipes.csv"
#: Columns of a scale of the step, the degrees of its deployment first.
_STEP_COLUMNS = ("degrees", "step_scale", "step_tpot_s", "step_load", "step_date")


@dataclass(frozen=True, slots=True)
class StepScale:
    """Measured over simulated time of a step of one deployment.

    tpot_s: the measured mean that it came from.  load: under which, in words.  date: of the
    calibration, YYYY-MM-DD.
    """

    scale: float
    tpot_s: float
    load: str
    date: str

    @property
    def sentence(self) -> str:
        """What was measured, when, and what it does."""
        return (
            f"steps x {self.scale:.3f}: your measured TPOT of {self.tpot_s * 1e3:.4g} ms "
            f"({self.load}, {self.date})"
        )


def load_recipe(key: RecipeKey, *, own: bool = True) -> MeasuredRecipe | None:
    """The measured recipe of a key, None if there is none.

    own: whether a calibration of the user stands in for a shipped one.
    """
    return (_own().recipes.get(key) if own else None) or _shipped().get(key)


def engine_measurements(engine: str, *, own: bool = True) -> EngineMeasurements:
    """Factors by device and recipes of an engine, by the name of its profile.

    own: whether calibrations of the user stand in for shipped recipes.
    """
    recipes = {**_shipped(), **(_own().recipes if own else {})}
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
    own = _in_file(own_file())
    return _write_own(_Own({**own.recipes, key: measured}, own.step_scales))


def forget_recipe(key: RecipeKey) -> bool:
    """Remove a recipe of the user; returns whether there was one."""
    own = _in_file(own_file())
    kept = dict(own.recipes)
    if kept.pop(key, None) is None:
        return False
    _write_own(_Own(kept, own.step_scales))
    return True


def step_scale(key: RecipeKey, parallelism: Parallelism) -> StepScale | None:
    """The user's scale of the step of a deployment, None if none was kept."""
    return _own().step_scales.get((key, _degrees(parallelism)))


def keep_step_scale(key: RecipeKey, parallelism: Parallelism, scale: StepScale) -> Path:
    """Save a scale of the step in place of an earlier one of the deployment; returns the file.

    Raises:
        InvalidValue: the file cannot be written; the old one stays.
    """
    own = _in_file(own_file())
    scales = {**own.step_scales, (key, _degrees(parallelism)): scale}
    return _write_own(_Own(own.recipes, scales))


def forget_step_scale(key: RecipeKey, parallelism: Parallelism) -> bool:
    """Remove the scale of a deployment; returns whether there was one."""
    own = _in_file(own_file())
    scales = dict(own.step_scales)
    if scales.pop((key, _degrees(parallelism)), None) is None:
        return False
    _write_own(_Own(own.recipes, scales))
    return True


@dataclass(frozen=True, slots=True)
class _Own:
    """Content of the user's file: recipes, and scales of the step by deployment."""

    recipes: Mapping[RecipeKey, MeasuredRecipe]
    step_scales: Mapping[tuple[RecipeKey, str], StepScale]


def _degrees(parallelism: Parallelism) -> str:
    """Degrees of one deployment in words: "tp4 pp1 dp1 ep1 cp1 expert_tp4"."""
    names = ("tp", "pp", "dp", "ep", "cp", "expert_tp")
    return " ".join(f"{name}{getattr(parallelism, name):g}" for name in names)


def _write_own(own: _Own) -> Path:
    """Write the user's file."""
    path = own_file()
    rows: list[dict[str, Any]] = [
        {**asdict(key), "model": measured.model, **asdict(measured.scales), **measured.factors}
        for key, measured in own.recipes.items()
    ]
    rows += [
        {**asdict(key), "degrees": degrees, **{f"step_{k}": v for k, v in asdict(scale).items()}}
        for (key, degrees), scale in own.step_scales.items()
    ]
    names = [*RecipeKey.__slots__, "model", *asdict(Recipe()), *FIELDS, *_STEP_COLUMNS]
    with write_whole(path) as draft, draft.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return path


def _own() -> _Own:
    """The user's own recipes and scales of steps, of all folders of the user's data."""
    found = [_in_file(folder / _FILE) for folder in data_folders()]
    return _Own(
        {key: recipe for one in found for key, recipe in one.recipes.items()},
        {place: scale for one in found for place, scale in one.step_scales.items()},
    )


def _in_file(path: Path) -> _Own:
    """Content of a user's file, empty where there is none."""
    return _read_own(path, path.stat().st_mtime_ns) if path.is_file() else _Own({}, {})


@lru_cache(maxsize=8)
def _read_own(path: Path, _modified: int) -> _Own:
    """Content of the user's file, cached by the time of its last change."""
    try:
        text = path.read_text(encoding="utf-8")
        rows = list(csv.DictReader(text.splitlines()))
        scales = {(_key(row), row["degrees"]): _step(row) for row in rows if row.get("degrees")}
        return _Own(_by_key((row for row in rows if not row.get("degrees")), own=True), scales)
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


def _step(row: Mapping[str, Any]) -> StepScale:
    scale, tpot_s = float(row["step_scale"]), float(row["step_tpot_s"])
    return StepScale(scale, tpot_s, row["step_load"], row["step_date"])


def _factors(row: Mapping[str, Any]) -> dict[str, float]:
    return {field: float(row[field]) for field in FIELDS if row.get(field)}
