"""Output files of the fit: the engines' YAML, CSVs of devices and recipes, tables of errors."""

import csv
import datetime
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from app.engine_fit.hierarchy import EngineFit
from app.engine_fit.neighbours import by_model
from genz_core.calibration.engine_calibration import moved
from genz_core.engine_constants import CONSTANTS, FIELDS
from genz_core.measured_runs import SIZES, Kernel
from genz_core.types import Array
from hardware_db.tables import folder

ENGINES = folder("engines")
SOURCE = '  fit: {title: "Fit on hardware_db/measurements by python -m app.engine_fit"}'
#: For each constant: its key in an engine's YAML, and that unit in SI.
_KEYS: Mapping[str, tuple[str, float]] = {
    "kernel_floor_s": ("kernel_floor_us", 1e-6),
    "host_step_s": ("host_step_us", 1e-6),
    "host_sequence_s": ("host_sequence_us", 1e-6),
    "moe_floor_s": ("moe_floor_us", 1e-6),
    "expert_s": ("expert_us", 1e-6),
    "host_request_s": ("host_request_ms", 1e-3),
    "prompt_launch_s": ("prompt_launch_us", 1e-6),
    **{name: (name, 1.0) for name in FIELDS if not name.endswith("_s")},
}
_DEVICE = tuple(c.field for c in CONSTANTS if c.device)
#: For each level: the fact of a target that labels it, the columns of the parts of a label, its
#: file, the constants that vary on it.
_LEVELS: Mapping[str, tuple[str, tuple[str, ...], str, tuple[str, ...]]] = {
    "era": ("era", ("era",), "eras.csv", tuple(c.field for c in CONSTANTS if c.era)),
    "silicon": ("family", ("family",), "silicon.csv", _DEVICE),
    "device": ("system", ("system",), "devices.csv", _DEVICE),
    "recipe": (
        "recipe",
        ("parameters", "system", "weights"),
        "recipes.csv",
        tuple(c.field for c in CONSTANTS if c.recipe),
    ),
}


def write_engine(fitted: EngineFit, day: datetime.date) -> None:
    """Write an engine's fitted constants into its YAML, each with the number of fitted points."""
    path = ENGINES / f"{fitted.data.engine}.yaml"
    text = path.read_text(encoding="utf-8")
    text = re.sub(r"^  fit: \{.*\}\n", "", text, flags=re.MULTILINE)
    text = text.replace("sources:\n", f"sources:\n{SOURCE}\n")
    count = int(np.isfinite(fitted.logs).sum())
    level = _level(fitted, "engine", "")
    engine = moved(fitted.data.prior, level)
    for constant, move in zip(CONSTANTS, level, strict=True):
        if not move:  # no measured figure depends on this constant
            continue
        key, unit = _KEYS[constant.field]
        fact = (
            f"{key}: {{value: {getattr(engine, constant.field) / unit:.4g}, source: fit, "
            f'kind: derived, note: "fit on {count} measured figures, {day}"}}'
        )
        pattern = re.compile(rf"^{key}: .*$", re.MULTILINE)
        text = (
            pattern.sub(fact, text) if pattern.search(text) else text.rstrip("\n") + f"\n{fact}\n"
        )
    path.write_text(text, encoding="utf-8")


def write_factors(fitted: Sequence[EngineFit], level: str, folder: Path = ENGINES) -> int:
    """Write the factors of each engine's constants on one level; returns the number of rows.

    Columns: points, and of these how many are of today's era, for boards and families.

    level: "era", "silicon", "device" or "recipe" of `app.engine_fit.hierarchy.Design`.
    """
    fact, columns, file, fields = _LEVELS[level]
    rows = []
    for engine_fit in fitted:
        facts = [target.facts for target in engine_fit.data.targets]
        design = engine_fit.design
        pairs = zip(design.levels, design.labels, strict=True)
        for label in sorted({label for of, label in pairs if of == level}):
            factors = _factors(_level(engine_fit, level, label), fields)
            eras = [of["era"] for of in facts if of[fact] == label]
            named = dict(zip(columns, label.split("|"), strict=True))
            row = {"engine": engine_fit.data.engine, **named, "points": len(eras)}
            today = {"today": eras.count("")} if level in ("silicon", "device") else {}
            rows.append({**row, **today, **factors})
    return write_rows(folder / file, rows, ("engine", *columns))


def write_runs(fitted: Sequence[EngineFit], path: Path) -> int:
    """Write the remaining error of each served run and its correction; returns the number of
    rows.
    """
    rows = []
    for engine_fit in fitted:
        data, learned = engine_fit.data, engine_fit.learned
        named = {target.row: target.facts["named"] for target in data.targets}
        for parameters, runs, places in by_model(data, learned):
            for at, row in enumerate(places):
                rows.append(
                    {
                        "engine": data.engine,
                        "parameters": parameters,
                        "id": runs.names[at],
                        "model": named[row],
                        **asdict(runs.facts[at]),
                        **{
                            size: f"{np.exp(value):.6g}"
                            for size, value in zip(SIZES, runs.sizes[at], strict=True)
                        },
                        **{name: _cell(logs[row]) for name, logs in learned.physics.items()},
                        **{name: _cell(logs[at]) for name, logs in runs.latents.items()},
                    }
                )
    return write_rows(path, rows, ("engine", "parameters", "id"))


def _cell(value: float) -> str:
    return f"{value:.5f}" if np.isfinite(value) else ""


def write_kernels(kernels: Mapping[str, Kernel], path: Path) -> None:
    """Write the spread and reach of each latent of `genz_core.measured_runs`."""
    rows = []
    for latent, kernel in kernels.items():
        terms = [("constant", name, value) for name, value in kernel.constant.items()]
        terms += [("near", name, value) for name, value in kernel.near.items()]
        terms += [("length", *pair) for pair in zip(SIZES, kernel.lengths, strict=True)]
        terms.append(("noise", "", kernel.noise))
        rows += [
            {"latent": latent, "term": term, "of": of, "value": f"{value:.4g}"}
            for term, of, value in terms
        ]
    write_rows(path, rows)


def write_table(path: Path, rows: Sequence[Mapping[str, Any]], day: datetime.date) -> None:
    """Write a table of errors; each row has the date of the fit."""
    write_rows(path, [{**row, "date": str(day)} for row in rows])


def _level(fitted: EngineFit, level: str, label: str) -> Array:
    """Changes of the constants' logarithms on one level, for the label `label`, [constants]."""
    design, moves = fitted.design, np.zeros(len(CONSTANTS))
    for at, parameter in enumerate(zip(design.levels, design.labels, strict=True)):
        if parameter == (level, label):
            moves[design.constants[at]] = fitted.at[at]
    return moves


def _factors(moves: Array, fields: Iterable[str]) -> dict[str, float]:
    return {field: round(float(np.exp(moves[FIELDS.index(field)])), 4) for field in fields}


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]], order: Sequence[str] = ()) -> int:
    ordered = sorted(rows, key=lambda row: [row[name] for name in order])
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(ordered)
    return len(rows)
