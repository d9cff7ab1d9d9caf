"""Scales of a recipe: they act on steps and first tokens, not on waits, and not below the bound."""

from __future__ import annotations

from dataclasses import replace

import pytest

from genz_core.engine import Recipe
from genz_core.serving import Traffic, serve
from tests.genz_core.serving.closed_loops import ENGINE, closed


@pytest.mark.parametrize("arrivals", [{"concurrency": 16}, {"rate_per_s": 2.0}])
@pytest.mark.parametrize("mixed_steps", [True, False])
def test_no_fitted_share_or_scale_serves_faster_than_physics(model, system, arrivals, mixed_steps):
    hasty = replace(
        ENGINE,
        mixed_steps=mixed_steps,
        recipe=Recipe(1e-3, 1e-3),
    )
    load = serve(model, system, Traffic(isl=4000, **arrivals), engine=hasty)
    assert load.ttft_median_s >= load.bound_prefill_s and load.ttft_s >= load.bound_prefill_s
    assert load.tpot_s >= load.bound_decode_step_s
    assert load.prefill_s >= load.bound_prefill_s


def test_a_recipe_scales_steps_and_first_tokens_down_to_the_bound_and_no_further(model, system):
    plain, slower, least = (
        closed(model, system, 1, replace(ENGINE, recipe=Recipe(tpot, ttft)))
        for tpot, ttft in ((1.0, 1.0), (1.25, 1.5), (1e-6, 1.0))
    )
    assert slower.tpot_s == pytest.approx(1.25 * plain.tpot_s)
    assert slower.ttft_s == pytest.approx(1.5 * plain.ttft_s)
    assert least.tpot_s == pytest.approx(least.bound_decode_step_s)


def test_a_recipe_does_not_scale_the_wait_for_room(model, system):
    """Users who wait for a slot wait for those who hold one, by Little's law."""
    few = replace(ENGINE, max_sequences=16, recipe=Recipe(1.0, 5.0))
    load = closed(model, system, 64, few, isl=500, osl=500)
    waiting = 48 / (load.output_tokens_per_s[0] / 500)
    assert waiting < load.ttft_s[0] < 1.1 * waiting
