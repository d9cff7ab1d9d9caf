"""The joint fit of one engine's constants on the levels engine, era, silicon, device and recipe.

A recipe is a model and weight format on a device, as served by today's releases.  Its constants
describe how its error changes with loads, lengths and degrees.  It also has a scale for TTFT and
one for TPOT, which absorb the rest of its deviation, so that it does not move the other levels.
The scales are discarded: measured runs correct what remains (`app.engine_fit.neighbours`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.engine_fit.neighbours import Latents, by_row, corrected, latents
from app.engine_fit.targets import EngineFitData, Target
from genz_core.calibration.engine_calibration import (
    MOST_WIDTHS,
    SPREAD,
    map_step,
    optimum,
    slopes,
)
from genz_core.engine_constants import CONSTANTS
from genz_core.types import Array, Mask

#: Factor on a device's prior widths, by the tier of its latency profile: kernel rates are known if
#: the kernels were timed on the device.
_OF_TIER = {"measured": 0.5, "sibling": 0.7, "default": 1.0}
#: Further factor on the widths of `_RATES` of a board, or of a silicon with all its boards, if the
#: profile's kernels are the engine's own: the profile then gives the engine's rates to about 3 %.
#: Judgement.
_OF_OWN_KERNELS = 0.2
_RATES = ("compute_efficiency", "memory_efficiency", "attention_efficiency")
#: How a device's prior width is divided between silicons and between boards of one silicon: all
#: boards of a silicon run the same kernels.  Judgement; together they give the whole width.
_OF_SILICON, _OF_BOARD = 0.92, 0.39
#: Share of the widths of `EngineConstant.recipe` that a shipped recipe has: its runs determine a
#: few constants only.  Judgement, chosen by its results on configurations, models, devices and
#: releases left out of hardware_db/measurements; so are the spreads of a recipe's scales.
_OF_RECIPE = 0.5
_SCALES: Mapping[str, float] = {"tpot_s": 0.5, "ttft_s": 0.3}


@dataclass(frozen=True, slots=True)
class Design:
    """The parameters of a fit and the targets that each one affects.

    levels, labels: of each parameter: "engine", "era", "silicon", "device" or "recipe" with its
    name, or "scale" with metric and recipe.  constants: index of the constant it moves, -1 for a
    scale.  widths: standard deviation of its prior.  All [parameters].  acts: [targets,
    parameters].
    """

    levels: tuple[str, ...]
    labels: tuple[str, ...]
    constants: NDArray[np.int_]
    widths: Array
    acts: Mask

    @classmethod
    def of_targets(cls, targets: Sequence[Target]) -> Design:
        """Parameters for the engine, each era, silicon, device and served recipe, and the scales of
        each served recipe.
        """
        eras = np.array([t.facts["era"] for t in targets])
        systems = np.array([t.facts["system"] for t in targets])
        silicons = np.array([t.facts["family"] for t in targets])
        tiers = np.array([_OF_TIER[t.facts["tier"]] for t in targets])
        own = np.array([_OF_OWN_KERNELS if t.facts["kernels"] == "own" else 1.0 for t in targets])
        recipes = np.array([t.facts["recipe"] for t in targets])
        metrics = np.array([t.metric for t in targets])
        serving = np.array([t.facts["set"] == "serving" for t in targets])
        rows: list[tuple[str, str, int, float, Mask]] = []
        for at, constant in enumerate(CONSTANTS):
            rows.append(("engine", "", at, constant.engine, np.ones(len(targets), dtype=bool)))
            if constant.era:
                for name in np.unique(eras[eras != ""]):
                    rows.append(("era", name, at, constant.era, eras == name))
            if constant.device:
                for level, share, names in (
                    ("silicon", _OF_SILICON, silicons),
                    ("device", _OF_BOARD, systems),
                ):
                    for name in np.unique(names):
                        known = tiers * own if constant.field in _RATES else tiers
                        width = constant.device * share * known[names == name].max()
                        rows.append((level, name, at, width, names == name))
            if constant.recipe:
                for name in np.unique(recipes[serving & (eras == "")]):
                    acts = (recipes == name) & (eras == "")
                    rows.append(("recipe", name, at, _OF_RECIPE * constant.recipe, acts))
        for metric, width in _SCALES.items():
            for name in np.unique(recipes[serving]):
                acts = (recipes == name) & (metrics == metric)
                rows.append(("scale", f"{metric}|{name}", -1, width, acts))
        levels, labels, constants, widths, acted = zip(*rows, strict=True)
        return cls(levels, labels, np.array(constants), np.array(widths), np.stack(acted, axis=1))

    def moves(self, at: Array) -> Array:
        """Changes of the logarithm of each target's constants from the prior, [targets, constants].

        at: the parameters, [parameters].
        """
        total = np.zeros((self.acts.shape[0], len(CONSTANTS)))
        for number in range(len(CONSTANTS)):
            chosen = self.constants == number
            total[:, number] = self.acts[:, chosen] @ at[chosen]
        return total

    def scales(self, at: Array) -> Array:
        """Sum of the scales that apply to each target, [targets].  at: [parameters]."""
        chosen = self.constants < 0
        return np.asarray(self.acts[:, chosen] @ at[chosen])

    def matrix(self, slope: Array) -> Array:
        """Derivatives with respect to every parameter, [targets, parameters].

        slope: derivatives with respect to the constants, [targets, constants].
        """
        padded = np.hstack([slope, np.ones((slope.shape[0], 1))])
        return np.asarray(padded[:, self.constants] * self.acts)

    def limited(self, at: Array) -> Array:
        """The parameters, each clipped to its largest allowed distance from the level above."""
        most = [
            CONSTANTS[constant].most if level == "engine" else MOST_WIDTHS * width
            for level, constant, width in zip(self.levels, self.constants, self.widths, strict=True)
        ]
        return np.clip(at, -MOST_WIDTHS * np.maximum(self.widths, 1.0), most)


@dataclass(frozen=True, slots=True)
class Errors:
    """ln(predicted / measured) of an engine's targets, [targets]; NaN for targets not evaluated.

    physics: without corrections from runs.  logs: with them; novelty: distance from these runs.
    """

    logs: Array
    novelty: Array
    physics: Array


@dataclass(frozen=True, slots=True)
class EngineFit:
    """The fit of an engine: parameters, residuals without any scale, and their derivatives.

    at: [parameters].  logs: ln(predicted / measured), [targets].  matrix: [targets, parameters].
    learned: the correction from each measured row, beyond the constants.
    """

    data: EngineFitData
    design: Design
    at: Array
    logs: Array
    matrix: Array
    learned: Latents

    def refitted(self, kept: Mask) -> Array:
        """The parameters fitted on the kept targets only, by one Gauss-Newton step from the whole
        fit.
        """
        if kept.all():
            return self.at
        logs = self.logs + self.design.scales(self.at)
        step = map_step(
            logs[kept], self.matrix[kept], _spread(self.data)[kept], self.at, self.design.widths
        )
        return self.design.limited(self.at + step)

    def priced(self, kept: Mask) -> Errors:
        """Errors with constants and corrections from the kept targets only.

        If some targets are left out, only targets of the same models as those are evaluated.
        """
        models = np.array([target.facts["parameters"] for target in self.data.targets])
        wanted = np.isin(models, models[~kept]) | kept.all()
        moves = self.design.moves(self.refitted(kept))
        physics = self.logs if kept.all() else self.data.logs(moves, wanted)
        learned = self.learned.shifted(by_row(self.data, physics))
        return Errors(*corrected(self.data, moves, learned, kept, wanted), physics)


def fit(data: EngineFitData, say: Callable[[str], None] = lambda text: None) -> EngineFit:
    """Fit an engine's parameters to the residuals by Gauss-Newton, with a prior.

    say: called with a line of progress in each iteration.
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
    physics = logs - design.scales(at)
    learned = latents(data, design.moves(at), physics)
    return EngineFit(data, design, at, physics, matrix, learned)


def _spread(data: EngineFitData) -> Array:
    return np.array([SPREAD[target.metric] for target in data.targets])
