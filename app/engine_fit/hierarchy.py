"""The fit of one engine: its constants on the levels engine, device and recipe, together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.engine_fit.targets import EngineFitData, Target
from genz_core.engine import CONSTANTS, FIELDS, Recipe
from genz_core.engine_calibration import (
    MOST_WIDTHS,
    SCALES,
    SPREAD,
    first_token,
    map_step,
    optimum,
    slopes,
    waited,
)
from genz_core.types import Array, Mask

#: Share of a device's prior widths by the tier of its latency profile: what its kernels reach is
#: known where they were timed.
_OF_TIER = {"measured": 0.5, "sibling": 0.7, "default": 1.0}
_STEPS = [FIELDS.index("queue_steps"), FIELDS.index("balance_steps")]


@dataclass(frozen=True, slots=True)
class Design:
    """The parameters of a fit and the targets that each acts on.

    levels, labels: of each parameter: "engine", "device" or "recipe" with its name, or "scale" with
    metric and recipe.  constants: the constant it moves, -1 for a scale.  widths: of its prior.
    All [parameters].  acts: [targets, parameters].
    """

    levels: tuple[str, ...]
    labels: tuple[str, ...]
    constants: NDArray[np.int_]
    widths: Array
    acts: Mask

    @classmethod
    def of_targets(cls, targets: Sequence[Target]) -> Design:
        """Constants of the engine, of each device, and of each recipe that was measured serving."""
        systems = np.array([t.facts["system"] for t in targets])
        tiers = {t.facts["system"]: t.facts["tier"] for t in targets}
        recipes = np.array([t.facts["recipe"] for t in targets])
        metrics = np.array([t.metric for t in targets])
        serving = np.array([t.facts["set"] == "serving" for t in targets])
        rows: list[tuple[str, str, int, float, Mask]] = []
        for at, constant in enumerate(CONSTANTS):
            rows.append(("engine", "", at, constant.engine, np.ones(len(targets), dtype=bool)))
            if constant.device:
                for name in np.unique(systems):
                    width = constant.device * _OF_TIER[tiers[name]]
                    rows.append(("device", name, at, width, systems == name))
            if constant.recipe:
                for name in np.unique(recipes[serving]):
                    rows.append(("recipe", name, at, constant.recipe, recipes == name))
        for metric, width in SCALES.items():
            for name in np.unique(recipes[serving]):
                acts = (recipes == name) & (metrics == metric)
                rows.append(("scale", f"{metric}|{name}", -1, width, acts))
        levels, labels, constants, widths, acted = zip(*rows, strict=True)
        return cls(levels, labels, np.array(constants), np.array(widths), np.stack(acted, axis=1))

    def moves(self, at: Array) -> Array:
        """Moves of the logarithm of each target's constants off the prior, [targets, constants].

        at: the parameters, [parameters].
        """
        total = np.zeros((self.acts.shape[0], len(CONSTANTS)))
        for number in range(len(CONSTANTS)):
            chosen = self.constants == number
            total[:, number] = self.acts[:, chosen] @ at[chosen]
        return total

    def scales(self, at: Array) -> Array:
        """The sum of the scales that act on each log, [targets].  at: [parameters]."""
        chosen = self.constants < 0
        return np.asarray(self.acts[:, chosen] @ at[chosen])

    def matrix(self, slope: Array) -> Array:
        """Derivatives by every parameter, [targets, parameters].

        slope: derivatives by the constants, [targets, constants].
        """
        padded = np.hstack([slope, np.ones((slope.shape[0], 1))])
        return np.asarray(padded[:, self.constants] * self.acts)

    def limited(self, at: Array) -> Array:
        """The parameters, each clipped to its largest distance from the level above."""
        most = [
            CONSTANTS[constant].most if level == "engine" else MOST_WIDTHS * width
            for level, constant, width in zip(self.levels, self.constants, self.widths, strict=True)
        ]
        return np.clip(at, -MOST_WIDTHS * np.maximum(self.widths, 1.0), most)


@dataclass(frozen=True, slots=True)
class EngineFit:
    """The fit of an engine: its parameters, the logs without any scale, and their derivatives.

    at: [parameters].  logs: ln(predicted / measured), [targets].  matrix: [targets, parameters].
    """

    data: EngineFitData
    design: Design
    at: Array
    logs: Array
    matrix: Array

    @property
    def waiting(self) -> Array:
        """Share of each TTFT that requests wait for decode steps, [targets]."""
        design = self.design
        of_engine = (np.array(design.levels) == "engine") & np.isin(design.constants, _STEPS)
        return np.asarray(self.matrix[:, of_engine].sum(axis=1))

    def refitted(self, kept: Mask) -> Array:
        """The parameters fitted on the kept targets alone, by one step from the whole fit."""
        if kept.all():
            return self.at
        logs = self.logs + self.design.scales(self.at)
        step = map_step(
            logs[kept], self.matrix[kept], _spread(self.data)[kept], self.at, self.design.widths
        )
        return self.design.limited(self.at + step)

    def priced(self, kept: Mask) -> Array:
        """Logs with constants and recipes fitted on the kept targets alone, [targets].

        Where some are left out, those that share no recipe with them are NaN.
        """
        at = self.refitted(kept)
        if kept.all():
            return with_recipes(self, self.logs, recipe_scales(self, self.logs, at, kept))
        recipes = np.array([target.facts["recipe"] for target in self.data.targets])
        wanted = np.isin(recipes, recipes[~kept])
        logs = self.data.logs(self.design.moves(at), wanted)
        return with_recipes(self, logs, recipe_scales(self, logs, at, kept))


def fit(data: EngineFitData, say: Callable[[str], None] = lambda text: None) -> EngineFit:
    """Fit an engine's parameters by Gauss-Newton on the logs, around its prior.

    say: called with a line of progress each round.
    """
    design = Design.of_targets(data.targets)

    def around(at: Array) -> tuple[Array, Array]:
        moves = design.moves(at)
        logs = data.logs(moves)
        start = np.zeros(len(CONSTANTS))
        slope = slopes(lambda nudge: data.logs(moves + nudge), start, logs)
        return logs + design.scales(at), design.matrix(slope)

    def report(number: int, logs: Array) -> None:
        typical = np.nanmedian(np.abs(np.expm1(logs)))
        say(f"{data.engine} round {number}: median {typical:.1%}")

    at, logs, matrix = optimum(around, _spread(data), design.widths, design.limited, report)
    return EngineFit(data, design, at, logs - design.scales(at), matrix)


def _spread(data: EngineFitData) -> Array:
    return np.array([SPREAD[target.metric] for target in data.targets])


# ------------------------------------------------------------------------------- recipes


def recipe_scales(fitted: EngineFit, logs: Array, at: Array, kept: Mask) -> dict[str, Recipe]:
    """The scales of every recipe with a kept serving point, by name.

    logs: with the constants of the recipes and without their scales, [targets].  at: [parameters].
    TPOT takes the scale of the fit; TTFT its own, with the steps waited for.
    """
    design, targets = fitted.design, fitted.data.targets
    tpot_scales = {
        label.partition("|")[2]: float(np.exp(value))
        for level, label, value in zip(design.levels, design.labels, at, strict=True)
        if level == "scale" and label.startswith("tpot_s|")
    }
    members: dict[str, list[int]] = {}
    for row in (int(row) for row in np.flatnonzero(kept & np.isfinite(logs))):
        if targets[row].metric == "ttft_s":
            members.setdefault(targets[row].facts["recipe"], []).append(row)
    recipes = {}
    for name, rows in members.items():
        steps, scale = first_token(logs[rows], fitted.waiting[rows])
        recipes[name] = Recipe(tpot_scales[name], scale, steps, len(rows))
    return recipes


def with_recipes(fitted: EngineFit, logs: Array, recipes: dict[str, Recipe]) -> Array:
    """The logs with each serving target's recipe applied, where it has one, [targets]."""
    after = logs.copy()
    for at, target in enumerate(fitted.data.targets):
        recipe = recipes.get(target.facts["recipe"])
        if recipe is not None and target.metric == "tpot_s":
            after[at] += np.log(recipe.tpot_scale)
        elif recipe is not None and target.metric == "ttft_s":
            after[at] += np.log(recipe.ttft_scale)
            after[at] += waited(fitted.waiting[at : at + 1], recipe.queue_scale)[0]
    return after
