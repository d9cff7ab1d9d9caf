"""What measured runs say of an engine's steps, as every price takes it.

There is one correction: a scale of all steps, and a wait of a request outside of them.  A first
token that came sooner than the steps explain makes what prompts add to steps cheaper.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from genz_core.deployment import run_facts
from genz_core.engine import EngineProfile, Recipe
from genz_core.step import StepEstimate
from genz_core.types import Array, Model, Num, Places, System

_WORTH_A_WORD = 0.005
#: Share of its bound that what runs teach brings a decode step to at most.  Measured kernels that
#: stream weights reach no more of the bandwidth; the figure is judgement.
_REACHED = 0.93


@dataclass(frozen=True, slots=True)
class StepCorrection:
    """Measured over priced times of configurations, [configs].

    steps: of a step.  prompts: of what prompts add to a step, on top; at most 1.  wait: time of a
    request outside of steps, as a share of its first token without it.
    """

    steps: Array
    prompts: Array
    wait: Array

    def picked(self, chosen: Places) -> StepCorrection:
        """That of some configurations."""
        return StepCorrection(self.steps[chosen], self.prompts[chosen], self.wait[chosen])

    @property
    def corrects(self) -> bool:
        """Whether any time is another than the priced one."""
        return bool(np.any(self.steps != 1.0) or np.any(self.prompts != 1.0) or np.any(self.wait))

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said of it beside a single configuration."""
        scales = {"steps": self.steps, "prompts in them": self.prompts}
        said = [
            f"{name} x {float(scale[0]):.3g}"
            for name, scale in scales.items()
            if scale.size == 1 and abs(float(scale[0]) - 1.0) > _WORTH_A_WORD
        ]
        return (f"measured runs near this load: {', '.join(said)}",) if said else ()

    def seconds(self, total: Array, host: Array, least: Array, *, reads: bool = False) -> Array:
        """Time of steps [s], [configs], no shorter than their bounds `least`.

        total, host: priced, with the host's part.  reads: they read prompts and decode nothing.
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
    """What measured runs say of the steps of a deployment.

    Args:
        engine: with the measurements of this model and system applied (`genz_core.deploy`).
        sizes: where loads lie among runs, `genz_core.measured_runs.SIZES`, [configs, sizes].
        least: that runs may make of a step, see `least_scale`, [configs].
        read: tokens of a prompt that are read, where some are cached, [configs].
    """
    learned = corrected(engine.recipe, taught(engine, model, system, sizes, read), least)
    shape = (len(sizes),)
    each = (learned.steps, learned.prompts, learned.wait)
    return StepCorrection(*(np.full(shape, values) for values in each))


def taught(
    engine: EngineProfile, model: Model, system: System, sizes: Array, read: Array | None = None
) -> tuple[Array, Array] | None:
    """What measured runs say of `LATENTS` at loads, as `step_correction` takes them, [configs]
    each; None without any run."""
    if (runs := engine.neighbours) is None:
        return None
    facts = run_facts(engine, model, system)
    wait = runs.expected("wait", facts, _as_read(sizes, read))
    return runs.expected("steps", facts, sizes), wait


def corrected(recipe: Recipe, said: tuple[Num, Num] | None, least: Num) -> StepCorrection:
    """The correction of a recipe and of what measured runs say, see `taught`; numbers or
    [configs].

    least: that runs may make of a step.
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
    """How far loads lie from what was measured, for a TPOT and for a TTFT, [configs] each.

    Standard deviation of what measured runs leave open, over that where no run is near, both with
    noise: 1 where nothing near was measured.  Arguments as of `step_correction`.
    """
    runs, one = engine.neighbours, np.ones(len(sizes))
    if runs is None:
        return one, one
    facts = run_facts(engine, model, system)
    left = {
        latent: runs.correction(latent, facts, where).variance
        for latent, where in (("steps", sizes), ("wait", _as_read(sizes, read)))
    }
    whole = {name: runs.variance(name, facts) for name in left}
    first = np.sqrt((left["steps"] + left["wait"]) / (whole["steps"] + whole["wait"]))
    return np.sqrt(left["steps"] / whole["steps"]), first


def _as_read(sizes: Array, read: Array | None) -> Array:
    """Sizes with the tokens of a prompt that are read in place of all of them."""
    return sizes if read is None else np.column_stack([read, sizes[:, 1:]])


def least_scale(total: Array, bound: Array) -> Array:
    """The least that runs make of decode steps of this time and bound [s], [configs]."""
    return np.minimum(bound / (_REACHED * total), 1.0)
