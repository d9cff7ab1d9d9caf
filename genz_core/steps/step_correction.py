"""Correction of an engine's steps by measured runs, as used in every price.

It consists of a scale of all steps, and a wait of a request outside of them.  If TTFT was shorter
than its steps explain, the correction reduces the time that prompts add to steps instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from genz_core.deployment import run_facts
from genz_core.engine import EngineProfile, Recipe
from genz_core.graphs import Model
from genz_core.steps.step_estimate import StepEstimate
from genz_core.systems import System
from genz_core.types import Array, Num, Places

_WORTH_A_WORD = 0.005
#: Largest share of its bound that a correction lets a decode step reach. Measured kernels that read
#: weights reach no more of the bandwidth; the figure is a judgement.
_REACHED = 0.93


@dataclass(frozen=True, slots=True)
class StepCorrection:
    """Measured over priced times of configurations, [configs].

    steps: of a step.  prompts: additional factor of the time that prompts add to a step; at most 1.
    wait: time of a request outside of steps, as a share of its first token without it.
    """

    steps: Array
    prompts: Array
    wait: Array

    def picked(self, chosen: Places) -> StepCorrection:
        """A selection of the configurations."""
        return StepCorrection(self.steps[chosen], self.prompts[chosen], self.wait[chosen])

    @property
    def corrects(self) -> bool:
        """Whether the correction changes any time."""
        return bool(np.any(self.steps != 1.0) or np.any(self.prompts != 1.0) or np.any(self.wait))

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on the correction of a single configuration."""
        scales = {"steps": self.steps, "prompts in a step": self.prompts}
        said = [
            f"{name} x {float(scale[0]):.3g}"
            for name, scale in scales.items()
            if scale.size == 1 and abs(float(scale[0]) - 1.0) > _WORTH_A_WORD
        ]
        return (f"corrected by measured runs near this load: {', '.join(said)}",) if said else ()

    def seconds(self, total: Array, host: Array, least: Array, *, reads: bool = False) -> Array:
        """Corrected time of steps [s], [configs], at least their bounds `least`.

        total, host: priced, with the host's part.  reads: the steps read prompts and decode
        nothing.
        """
        share = self.prompts if reads else 1.0
        steps = np.maximum(self.steps * (host + share * (total - host)), least)
        return np.where(np.equal(self.steps * share, 1.0), total, steps)

    def of_step(self, step: StepEstimate, *, reads: bool = False) -> StepEstimate:
        """A priced step with this correction, see `seconds`."""
        priced = step.total_s
        total = self.seconds(priced, step.host_s, step.bound_total_s, reads=reads)
        return replace(step, learned_s=total - priced)


def step_correction(
    engine: EngineProfile,
    model: Model,
    system: System,
    sizes: Array,
    least: Array,
    read: Array | None = None,
) -> StepCorrection:
    """The correction of a deployment's steps by measured runs.

    Args:
        engine: with the measurements of this model and system applied (`genz_core.deploy`).
        sizes: sizes of the loads, `genz_core.measured_runs.SIZES`, [configs, sizes].
        least: smallest correction of a step, see `least_scale`, [configs].
        read: uncached tokens of a prompt, where some are cached, [configs].
    """
    learned = corrected(engine.recipe, taught(engine, model, system, sizes, read), least)
    shape = (len(sizes),)
    each = (learned.steps, learned.prompts, learned.wait)
    return StepCorrection(*(np.full(shape, values) for values in each))


def taught(
    engine: EngineProfile, model: Model, system: System, sizes: Array, read: Array | None = None
) -> tuple[Array, Array] | None:
    """Expectations of `LATENTS` at loads, with the arguments of `step_correction`, [configs] each;
    None without any measured run.
    """
    if (runs := engine.neighbours) is None:
        return None
    facts = run_facts(engine, model, system)
    wait, fresh = runs.expected("wait", facts, sizes), _as_read(sizes, read)
    if fresh is not sizes:  # cached tokens lengthen no wait
        wait = np.minimum(wait, runs.expected("wait", facts, fresh))
    return runs.expected("steps", facts, sizes), wait


def corrected(recipe: Recipe, said: tuple[Num, Num] | None, least: Num) -> StepCorrection:
    """The correction from a recipe and from the expectations of `taught`; numbers or [configs].

    least: smallest correction of a step.
    """
    steps = np.log(recipe.tpot_scale)
    wait = np.log(recipe.ttft_scale) - steps
    if said is not None:
        steps = steps + np.maximum(said[0], np.log(least))
        wait = wait + said[1]
    return StepCorrection(
        steps=np.exp(steps),
        prompts=np.exp(np.minimum(wait, 0.0)),
        wait=np.expm1(np.maximum(wait, 0.0)),
    )


def novelty(
    engine: EngineProfile, model: Model, system: System, sizes: Array, read: Array | None = None
) -> tuple[Array, Array]:
    """Distance of loads from measured ones, for a TPOT and for a TTFT, [configs] each.

    Standard deviation given the measured runs, over that without any near run, both with noise: 1
    where nothing near was measured.  Arguments as in `step_correction`.
    """
    runs, one = engine.neighbours, np.ones(len(sizes))
    if runs is None:
        return one, one
    facts = run_facts(engine, model, system)
    fresh = _as_read(sizes, read)
    left = {
        latent: runs.correction(latent, facts, where).variance
        for latent, where in (("steps", sizes), ("wait", fresh))
    }
    whole = {name: runs.variance(name, facts) for name in left}
    first = np.sqrt((left["steps"] + left["wait"]) / (whole["steps"] + whole["wait"]))
    return np.sqrt(left["steps"] / whole["steps"]), first


def _as_read(sizes: Array, read: Array | None) -> Array:
    """Sizes with the uncached tokens of a prompt instead of all of them; the same object where no
    token is cached.
    """
    if read is None or np.array_equal(read, sizes[:, 0]):
        return sizes
    fresh = sizes.copy()
    fresh[:, 0] = read
    return fresh


def least_scale(total: Array, bound: Array) -> Array:
    """Smallest correction factor of decode steps with this time and bound [s], [configs]."""
    return np.minimum(bound / (_REACHED * total), 1.0)
