"""Objects with arrays and tables print as a few lines, whatever their size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import genz_core
from genz_core import EngineProfile, Parallelism, System, Traffic, Workload
from genz_core.common.short_repr import clipped, counts, listed, span
from genz_core.engine import EngineMeasurements, MeasuredRecipe, Recipe, RecipeKey
from genz_core.latency import LatencyProfile
from genz_core.latency.parameters import CLASSES

SIZES = (1, 3, 20_000)


def lines_of(thing: object) -> list[str]:
    """The lines of a repr, checked to have at most ten lines and 600 characters."""
    text = repr(thing)
    assert len(text) <= 600, text
    assert len(text.splitlines()) <= 10
    return text.splitlines()


@pytest.mark.parametrize("size", SIZES)
def test_an_estimate_names_its_objects_and_spans_its_figures(model, system, size):
    load = Workload(np.arange(1, size + 1), 100, 10)
    estimate = genz_core.estimate(model, system, load, on_error="status")
    head, codes, figures = lines_of(estimate)
    assert head == "Estimate(small on Round Numbers under generic:"
    assert codes.strip().startswith(f"{size:,} configurations, ")
    assert f"ttft_s {float(estimate.ttft_s.min()):.4g}" in figures
    assert f"{float(estimate.tpot_s.max()):.4g}" in figures


def test_a_mixed_estimate_counts_its_codes(model, system):
    split = Parallelism(tp=np.array([1, 3, 1]))
    estimate = genz_core.estimate(model, system, parallelism=split, on_error="status")
    assert "2 ok, 1 invalid_parallelism" in repr(estimate)


@pytest.mark.parametrize("size", SIZES)
def test_a_step_says_its_size_and_its_times(model, system, size):
    step = genz_core.decode_step(model, system, np.arange(1.0, size + 1), 100)
    head, figures = lines_of(step)
    assert f"{len(step.graph.ops)} operators x {size:,} configurations" in head
    assert figures.strip().startswith(f"total_s {float(step.total_s.min()):.4g}")


@pytest.mark.parametrize("size", SIZES)
def test_a_serving_estimate_says_its_loads_and_what_users_see(model, system, size):
    users = np.minimum(np.arange(1, size + 1), 500)
    served = genz_core.serve(model, system, Traffic(100, 10, concurrency=users))
    head, figures = lines_of(served)
    assert head.startswith(f"ServingEstimate({size:,} loads, {size:,} ok")
    assert f"tpot_s {float(served.tpot_s.min()):.4g}" in figures


def test_a_graph_lists_its_first_operators(model):
    graph = model.graph(genz_core.Step.decode(1, 10), Parallelism())
    assert "4 layers" in lines_of(graph)[0] and "embedding, input_norm" in lines_of(graph)[1]
    assert lines_of(replace(graph, ops=graph.ops * 100))[1].endswith("...)")


def test_a_system_leaves_out_its_constants(system):
    sets = {name: {"default": kind()} for name, kind in CLASSES.items()}
    fitted = replace(system, latency=LatencyProfile("x", "measured", sets), name="N" * 500)
    assert "launch_s" not in "".join(lines_of(fitted))
    assert "'round'" in lines_of(system)[0] and "1e+12" in lines_of(system)[2]
    many = {f"type{at}": 1e12 for at in range(100)}
    lines_of(replace(system, peak_flops_per_s=many, links=system.links * 100))
    assert lines_of(replace(system, links=()))[3].strip() == "links none)"


def test_an_engine_shows_what_differs_from_the_generic_one():
    key = RecipeKey("fast", 1, "round", "bf16")
    recipes = {replace(key, parameters=at): MeasuredRecipe(Recipe(), {}) for at in range(500)}
    engine = EngineProfile(
        "fast", kernel_floor_s=1e-6, source="x" * 900, measurements=EngineMeasurements({}, recipes)
    )
    assert lines_of(engine) == ["EngineProfile('fast', kernel_floor_s=1e-06)"]
    assert lines_of(EngineProfile()) == ["EngineProfile('generic')"]
    assert "measured_on='recipe'" in repr(replace(engine, measured_on="recipe"))


def test_a_deployment_names_what_meets_and_counts_its_notes(model, system):
    deployed = genz_core.deploy(model, system)
    assert lines_of(deployed) == ["Deployment(small on Round Numbers under generic)"]
    assert repr(replace(deployed, notes=("a", "b"))).endswith("; 2 notes)")


@pytest.mark.parametrize("size", SIZES)
def test_ranges_codes_and_names_are_short(size):
    values = np.linspace(1.0, 2.0, size)
    assert span(values) == ("1" if size == 1 else "1 to 2")
    assert span(np.append(values, np.nan)) == span(values)
    assert counts(["ok"] * size) == f"{size:,} ok"
    assert len(clipped("x" * size)) == min(size, 60)
    assert len(listed(["name"] * size, 100)) <= 100


def test_no_numbers_have_no_range():
    assert span(np.array([np.nan])) == span(np.array([])) == "nan"


def test_the_types_of_the_public_surface_are_exported_with_the_functions():
    assert set(genz_core.__all__) >= {
        "deploy", "estimate", "prefill", "decode", "decode_step", "mixed", "serve", "sweep",
        "max_batch", "max_context", "Estimate", "ServingEstimate", "StepEstimate", "EngineProfile",
        "Graph", "Group", "Model", "Op", "Parallelism", "Precision", "Step", "System", "Traffic",
        "Workload",
    }  # fmt: skip
    assert all(getattr(genz_core, name) for name in genz_core.__all__)
    assert isinstance(System, type)
