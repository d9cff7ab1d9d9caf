"""The simulator in place of a server, with constants that the search does not know.

Each constant of the engine is changed at random, by its prior's spread between devices and recipes,
so that the simulated truth differs from the prediction like an unmeasured machine.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from app.question.query import Query
from app.scenario.gate import refuse_meaningless_for
from app.scenario.scenario import Resolved, resolve
from app.simulation import rows
from app.simulation.run import run
from app.tuning.outcome import Outcome
from app.tuning.space import Setting, of_setting
from genz_core.calibration.engine_calibration import moved
from genz_core.common.progress import Cancel, Progress
from genz_core.engine import EngineProfile
from genz_core.engine_constants import CONSTANTS
from genz_core.errors import RidgelineError
from genz_core.types import Array


def hidden_moves(seed: int) -> Array:
    """Random changes of the logarithms of an engine's constants, [constants]."""
    draws = np.random.default_rng(seed).standard_normal(len(CONSTANTS))
    widths = np.array([float(np.hypot(one.device, one.recipe)) for one in CONSTANTS])
    most = np.array([one.most for one in CONSTANTS])
    return np.asarray(np.minimum(draws * widths, most))


@dataclass(frozen=True)
class SimulatedServer:
    """A runner of settings.  moves: changes of the engine's constants, see `hidden_moves`."""

    query: Query
    moves: Array

    def __call__(
        self, setting: Setting, folder: Path | None, progress: Progress, cancelled: Cancel
    ) -> Outcome:
        """The simulated run of a setting; a setting that cannot run is a failed start."""
        try:
            query = of_setting(self.query, setting, "simulate")
            question = replace(query.question, seed=self.query.question.seed)
            resolved = resolve(question, query.objects)
            refuse_meaningless_for(resolved)
            found = run(self._true(resolved), query.objects, progress, cancelled)
        except RidgelineError as error:
            return Outcome("failed", why=str(error))
        figures = rows.figures(found)
        return Outcome("measured", {**_named(figures), "interactivity": _user(figures)})

    def _true(self, resolved: Resolved) -> Resolved:
        engine: EngineProfile = moved(resolved.engine, self.moves)
        return replace(resolved, engine=engine)


def _named(figures: dict[str, float]) -> dict[str, float]:
    """Figures of a simulation by target name."""
    found = {}
    for name, value in figures.items():
        stem = name.removesuffix("_s")
        if stem.startswith(("ttft_", "tpot_", "e2e_")):
            found[stem.removesuffix("_mean")] = float(value)
        elif name.startswith(("output_tokens_per_s", "requests_per_s")):
            found[name] = float(value)
    return found


def _user(figures: dict[str, float]) -> float:
    gap = float(figures["tpot_mean_s"])
    return 1.0 / gap if gap > 0 else float("nan")
