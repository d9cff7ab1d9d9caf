"""Measured figures of an engine with a known law, to be fitted."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from app.engine_fit.neighbours import run_facts, run_sizes
from app.engine_fit.targets import Target
from app.question.query import Query
from app.question.question import Question
from app.scenario.points_row import Point
from genz_core.calibration.engine_calibration import moved
from genz_core.engine import EngineProfile
from genz_core.engine_constants import FIELDS
from genz_core.measured_runs import LATENTS

SYSTEMS = ("h100", "h200", "b200")
MODELS = ("7b", "70b")
BATCH = np.array([1.0, 4.0, 16.0, 64.0, 128.0])
#: Rows of `synthetic`.
ROWS = len(SYSTEMS) * len(MODELS) * len(BATCH)
PRIOR = EngineProfile(host_step_s=1e-3, host_request_s=4e-3)


@dataclass
class Synthetic:
    """Measured figures of an engine with a known law: steps read 16 GB, and requests wait for a
    step and 3 ms.
    """

    targets: list
    engine: str = "synthetic"
    prior: EngineProfile = PRIOR

    @property
    def rows(self):
        loads = [int(BATCH[at % len(BATCH)]) for at in range(1 + max(t.row for t in self.targets))]
        query = Query("estimate", Question(osl=128))
        return [Point(str(load), query, {"concurrency": float(load)}) for load in loads]

    def logs(self, moves, wanted=None, under=None):
        engines = [
            moved(PRIOR, row) for row in np.broadcast_to(moves, (len(self.targets), len(FIELDS)))
        ]
        predicted = np.array(
            [
                self.predicted_s([target], engine)[0]
                * (self.learned(at, under(_named(target), [target.row], engine)) if under else 1.0)
                for at, (target, engine) in enumerate(zip(self.targets, engines, strict=True))
            ]
        )
        return np.log(predicted) - np.log([t.measured_s for t in self.targets])

    def learned(self, at, engine):
        """The corrections of a target by a recipe of one row, or by measured runs."""
        target = self.targets[at]
        first, runs = target.metric == "ttft_s", engine.neighbours
        if runs is None:
            scales = engine.recipe
            return float(np.ravel(scales.ttft_scale if first else scales.tpot_scale)[0])
        facts, sizes = run_facts(self, at), np.array([run_sizes(self, target.row)])
        latents = LATENTS if first else LATENTS[:1]
        return float(np.exp(sum(runs.correction(one, facts, sizes).log[0] for one in latents)))

    def predicted_s(self, targets, engine, recipe=None):
        batch = np.array([float(t.facts["batch"]) for t in targets])
        ttft = np.array([t.metric == "ttft_s" for t in targets])
        step = 5e-3 / engine.memory_efficiency + 2e-5 * batch / engine.compute_efficiency
        waiting = 3e-3 * engine.host_request_s / PRIOR.host_request_s
        seconds = step + engine.host_step_s + ttft * waiting
        if recipe is None:
            return seconds
        return seconds * np.where(ttft, recipe.ttft_scale, recipe.tpot_scale)


def _named(target):
    """The names of a target's model and engine as a resolved question states them."""
    model = SimpleNamespace(parameters=float(target.facts["parameters"]))
    return SimpleNamespace(model=model, engine=SimpleNamespace(version=""))


def synthetic(slow=(), scale=1.0, serving=True, era="", costly=()):
    """Figures of every system and model; the systems `slow` reach 70 % of the bandwidth.

    costly: "model|system" of which each sequence takes four times as long.
    era: the one of the runs of 7b, whose steps take 4 ms more.
    """
    targets = []
    for system in SYSTEMS:
        for model in MODELS:
            for batch in BATCH:
                row = len({target.row for target in targets})
                each = 8e-5 if f"{model}|{system}" in costly else 2e-5
                step = 5e-3 / (0.7 if system in slow else 1.0) + each * batch + 1e-3
                step += 4e-3 if era and model == "7b" else 0.0
                for metric in ("tpot_s", "ttft_s") if serving else ("decode",):
                    time = step + (3e-3 if metric == "ttft_s" else 0.0)
                    facts = {
                        "set": "serving" if serving else "published",
                        "model": model, "system": system, "engine": "synthetic", "tier": "measured",
                        "kernels": "",
                        "recipe": f"{len(model)}|{system}|fp8", "named": model,
                        "parameters": str(len(model)), "family": system,
                        "configuration": f"{model}|{system}|{batch}", "batch": str(batch),
                        "plausible": "yes", "load": "high", "era": era if model == "7b" else "",
                        "release": "1.0", "output": "101",
                    }  # fmt: skip
                    run = f"{model}|{system}|{batch}"
                    targets.append(Target(row, metric, time * scale, facts, run))
    return Synthetic(targets)


def level(fitted, name, label, field):
    for at, (of, lab) in enumerate(zip(fitted.design.levels, fitted.design.labels, strict=True)):
        constant = fitted.design.constants[at]
        if (of, lab) == (name, label) and FIELDS[constant] == field:
            return float(np.exp(fitted.at[at]))
    raise LookupError(label)
