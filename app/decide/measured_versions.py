"""Measurements of each version of an engine, compared with a scenario."""

import math
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import hardware_db
from app.answers.columns import COLUMNS
from app.scenario.scenario import Resolved
from hardware_db.engine_files import known_versions
from hardware_db.engine_versions import era_of
from hardware_db.tables import table

_FEW = 4


def measured_versions(engine: str) -> list[str]:
    """Measured versions of an engine, and the last version of each era; oldest first.

    Builds without a number ("nightly-...") come last.
    """
    return known_versions(hardware_db.engine_facts(engine))


def usual_versions(resolved: Resolved) -> list[str]:
    """Default versions to compare: those measured for the model, otherwise for the engine;
    newest.
    """
    model = {row["version"] for row in _runs(resolved.engine.name) if _of_model(row, resolved)}
    every = measured_versions(resolved.engine.name)
    return [one for one in every if one in model][-_FEW:] or every[-_FEW:]


def measured_of(resolved: Resolved, versions: Sequence[str]) -> list[dict[str, Any]]:
    """One row per version: its era, its measured runs, and the errors of their predictions.

    The last columns are for the scenario's model on its system: median measured over predicted of
    TPOT and TTFT before any correction by runs; None without a run.
    """
    runs, eras = _runs(resolved.engine.name), hardware_db.engine_facts(resolved.engine.name).eras
    rows = []
    for version in versions:
        own = [row for row in runs if row["version"] == version]
        here = [row for row in own if _of_model(row, resolved)]
        there = [row for row in here if row["system"] == resolved.system.slug]
        era = era_of(eras, version)
        rows.append(
            {
                "version": version or "today's",
                "era": f"up to {era.until}" if era else "today's",
                "runs": len(own),
                "of this model": len(here),
                "on this system": len(there),
                **{
                    f"{COLUMNS[name].head} measured / predicted": _ratio(there, name)
                    for name in ("tpot_s", "ttft_s")
                },
            }
        )
    return rows


def _runs(engine: str) -> list[Mapping[str, str]]:
    return [row for row in table("engines", "runs") if row["engine"] == engine]


def _of_model(row: Mapping[str, str], resolved: Resolved) -> bool:
    """Whether a run is of the scenario's model, by its name."""
    return row["model"].rpartition("/")[2] == resolved.model.name.rpartition("/")[2]


def _ratio(rows: Sequence[Mapping[str, str]], figure: str) -> float | None:
    """Median measured over predicted; `runs.csv` keeps its logarithm."""
    logs = [float(row[figure]) for row in rows if row[figure]]
    return math.exp(median(logs)) if logs else None
