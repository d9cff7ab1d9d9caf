"""Prediction errors outside the measured range, and how often intervals hold there.

Serving runs of one engine and model are split at each value of their users, lengths or
tensor-parallel degree; runs on one side predict those on the other, whose recipe is known.
`hardware_db/beyond_range.yaml` uses the result.

    python -m app.engine_fit.range_ends

writes hardware_db/engines/range_ends.csv from the results of the last fit.  It takes a minute.
"""

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.answers.table import TableFormat, render
from app.engine_fit.fit_files import ENGINES, write_table
from genz_core.measured_runs import LATENTS, SIZES, MeasuredRuns
from genz_core.types import Array
from hardware_db.engine_files import engine_names
from hardware_db.intervals import LEVEL, held_out_interval, stretch
from hardware_db.measured_runs import FIGURES, runs_of

#: The size that each figure depends on if no request queues.
_OF_FIGURE: Mapping[str, tuple[str, ...]] = {"tpot_s": LATENTS[:1], "ttft_s": LATENTS}
_CUT = ("isl", "osl", "concurrency", "tp")
_LEAST = 10  # fewest runs on the known side of a cut
_BINS = (0.0, 0.8, 1.5, 2.2, 3.0)  # lower ends of the distance classes


@dataclass(frozen=True, slots=True)
class FarRun:
    """A figure of a run outside the kept range.

    distance: from the nearest kept size, in natural logarithms.  log: of measured over predicted.
     novelty, users: see `genz_core.serving.Novelty`.
    """

    engine: str
    figure: str
    distance: float
    log: float
    novelty: float
    users: float


def far_runs() -> Iterator[FarRun]:
    """Every run beyond every cut, for both figures."""
    for engine in engine_names():
        for runs in runs_of(engine).values():
            for name in _CUT:
                sizes = runs.sizes[:, SIZES.index(name)]
                for side in (sizes, -sizes):
                    for cut in np.unique(np.round(side, 6))[:-1]:
                        near = side <= cut + 1e-6
                        if near.sum() >= _LEAST:
                            yield from _beyond(engine, runs, near, side - cut)


def _beyond(engine: str, runs: MeasuredRuns, near: Any, distance: Array) -> Iterator[FarRun]:
    kept = runs.picked(near)
    per_rank = runs.sizes[:, SIZES.index("concurrency")] - runs.sizes[:, SIZES.index("dp")]
    for figure, latents in _OF_FIGURE.items():
        taught = np.sum([runs.latents[name] for name in latents], axis=0)
        if np.isfinite(taught[near]).sum() < _LEAST:
            continue
        for at in np.flatnonzero(~near & np.isfinite(taught)):
            if not kept.count(runs.facts[at]):
                continue
            sizes = np.exp(runs.sizes[at : at + 1])
            found = [kept.correction(name, runs.facts[at], sizes) for name in latents]
            whole = sum(kept.variance(name, runs.facts[at]) for name in latents)
            yield FarRun(
                engine,
                figure,
                float(distance[at]),
                float(taught[at] - sum(one.log[0] for one in found)),
                float(np.sqrt(sum(one.variance[0] for one in found) / whole)),
                float(np.exp(per_rank[at])),
            )


def _missed(run: FarRun, known: str) -> float:
    """The residual divided by the half-width of its interval on that side; 1 at the interval's
    end.
    """
    interval = held_out_interval(run.figure, "measured", known, run.engine)
    wide = float(
        stretch(np.array(run.novelty), np.array(run.users), interval.novelty, interval.crowd)
    )
    end = interval.low if run.log < 0 else interval.high
    return abs(run.log) / max(abs(float(np.log(end))) * wide, 1e-9)


def growth(distances: Array, missed: Array) -> float:
    """Least growth of the width per unit of distance with which intervals hold `LEVEL` of runs."""
    return float(np.quantile(np.maximum(missed - 1.0, 0.0) / distances, LEVEL))


def range_ends() -> list[dict[str, Any]]:
    """One row per figure, state of knowledge and distance: runs, coverage, and the overall growth.

    known: "recipe", widened by novelty, or "none", for a model without served runs.  Coverage is
    without the growth.
    """
    every = list(far_runs())
    rows = []
    for figure in FIGURES:
        runs = [run for run in every if run.figure == figure]
        distances = np.array([run.distance for run in runs])
        of_bin = np.digitize(distances, _BINS) - 1
        for known in ("recipe", "none"):
            missed = np.array([_missed(run, known) for run in runs])
            rate = round(growth(distances, missed), 2)
            for number, start in enumerate(_BINS):
                here = missed[of_bin == number]
                rows.append(
                    {
                        "figure": figure,
                        "known": known,
                        "distance from": start,
                        "points": here.size,
                        "coverage %": round(100.0 * float(np.mean(here <= 1.0)), 1),
                        "growth": rate,
                    }
                )
    return rows


def main() -> None:
    """Write hardware_db/engines/range_ends.csv."""
    rows = range_ends()
    write_table(ENGINES / "range_ends.csv", rows, datetime.date.today())
    print(render(rows, TableFormat.text))


if __name__ == "__main__":
    main()
