"""Measured runs, from which corrections of an engine's steps are learned.

`engines/runs.csv` has one row per run; `engines/kernels.csv` holds the covariances between runs
(`genz_core.measured_runs`); both are written by `python -m app.engine_fit`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

import numpy as np

from genz_core.measured_runs import (
    LATENTS,
    NEAR,
    SHARED,
    SIZES,
    Kernel,
    MeasuredRuns,
    RunFacts,
)
from genz_core.types import Array
from hardware_db.tables import table

FACTS = ("weights", "system", "family", "version", "drafts")
#: Figures of a run, stored as ln(measured / physics).
FIGURES = ("tpot_s", "ttft_s")


@cache
def runs_of(engine: str) -> Mapping[int, MeasuredRuns]:
    """The runs of an engine by the parameters of their model."""
    rows: dict[int, list[Mapping[str, str]]] = defaultdict(list)
    for row in table("engines", "runs"):
        if row["engine"] == engine:
            rows[int(row["parameters"])].append(row)
    return {parameters: measured_runs(members, kernels()) for parameters, members in rows.items()}


def measured_runs(rows: Sequence[Mapping[str, str]], kernels: Mapping[str, Kernel]) -> MeasuredRuns:
    """Runs of one engine and model from rows of `runs.csv`."""
    return MeasuredRuns(
        names=tuple(row["id"] for row in rows),
        facts=tuple(RunFacts(*(row[name] for name in FACTS)) for row in rows),
        sizes=np.log([[float(row[name]) for name in SIZES] for row in rows]),
        latents={name: _column(rows, name) for name in LATENTS},
        kernels=kernels,
    )


def _column(rows: Sequence[Mapping[str, str]], name: str) -> Array:
    return np.array([float(row[name] or "nan") for row in rows])


def shipped_recipes() -> Iterable[tuple[Mapping[str, str], int]]:
    """A row for each measured engine, model, system and weight format, with the number of runs."""
    counts: dict[tuple[str, ...], int] = defaultdict(int)
    first: dict[tuple[str, ...], Mapping[str, str]] = {}
    for row in table("engines", "runs"):
        key = row["engine"], row["parameters"], row["system"], row["weights"]
        counts[key] += 1
        first.setdefault(key, row)
    return [(first[key], count) for key, count in counts.items()]


@cache
def kernels() -> Mapping[str, Kernel]:
    """The covariance of each of `genz_core.measured_runs.LATENTS`."""
    terms: dict[str, dict[tuple[str, str], float]] = defaultdict(dict)
    for row in table("engines", "kernels"):
        terms[row["latent"]][row["term"], row["of"]] = float(row["value"])
    return {
        latent: Kernel(
            {name: values["constant", name] for name in SHARED},
            {name: values["near", name] for name in NEAR},
            tuple(values["length", name] for name in SIZES),
            values["noise", ""],
        )
        for latent, values in terms.items()
    }
