"""The measured runs behind a figure under load, each with its weight in the correction."""

import math
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from app.scenario.scenario import Resolved
from app.scenario.served_rows import traffic
from genz_core.deployment import run_facts
from genz_core.measured_runs import LATENTS, SIZES, MeasuredRuns
from genz_core.serving import run_sizes
from genz_core.types import Array
from hardware_db.measured_runs import FIGURES
from hardware_db.tables import table

MOST = 8


def runs_behind(
    resolved: Resolved, arrays: Mapping[str, Array] | None = None, most: int = MOST
) -> list[dict[str, Any]]:
    """The runs with the largest weight in the correction of one load's steps; empty without any.

    A row holds the run's id, what ran, its load, `measured_*` [s], `of_physics_*` (measured over
    the uncorrected prediction), `learned_*` (the factors that it teaches: on steps, and on a first
    token beyond them) and `weight_*` (the exponent of that factor in the prediction).

    arrays: numbers of one load instead of the question's, [1] each.

    Raises:
        InvalidValue: see `genz_core.serve`.
    """
    runs = resolved.engine.neighbours
    if runs is None:
        return []
    model, system, engine = resolved.model, resolved.system, resolved.engine
    load, split = traffic(resolved, arrays), resolved.scenario.parallelism
    sizes = run_sizes(model, system, load, split, engine)
    facts = run_facts(engine, model, system)
    weights = {name: runs.correction(name, facts, sizes[:1]).weights[0] for name in LATENTS}
    order = np.argsort(-np.abs(weights["steps"]), kind="stable")[:most]
    return [_row(runs, int(at), {name: weights[name][at] for name in LATENTS}) for at in order]


def _row(runs: MeasuredRuns, at: int, weights: Mapping[str, float]) -> dict[str, Any]:
    facts, name = runs.facts[at], runs.names[at]
    sizes = map(round, np.exp(runs.sizes[at]).tolist())
    measured, told = _measured().get(name, {}), _of_physics()[name]
    row: dict[str, Any] = {
        "run": name,
        "model": measured.get("model", ""),
        "system": facts.system,
        "weights": facts.weights,
        "version": facts.version,
        "measured_on": measured.get("measured_on", ""),
        **dict(zip(SIZES, sizes, strict=True)),
    }
    for figure in FIGURES:
        row[f"measured_{figure}"] = float(measured.get(f"measured_{figure}") or "nan")
        row[f"of_physics_{figure}"] = round(math.exp(float(told[figure] or "nan")), 3)
    for latent in LATENTS:
        row[f"learned_{latent}"] = round(float(np.exp(runs.latents[latent][at])), 3)
        row[f"weight_{latent}"] = round(float(weights[latent]), 3)
    return row


@cache
def _measured() -> Mapping[str, Mapping[str, str]]:
    """{id: row} of the shipped measured runs."""
    return {row["id"]: row for row in table("measurements", "serving")}


@cache
def _of_physics() -> Mapping[str, Mapping[str, str]]:
    """{id: row} of the residual that the fit left for each run."""
    return {row["id"]: row for row in table("engines", "runs")}
