"""A scenario means the same everywhere: in an estimate, a sweep, a load, a points file."""

from dataclasses import replace

import numpy as np
import pytest

import hardware_db
import model_registry
from app.dashboard import caches, load_curves
from app.planning import sweep_axes, sweep_block
from app.question.question import Question
from app.scenario import points_file, served_rows
from app.scenario.points_row import Point, parse
from app.scenario.scenario import Resolved, estimate_resolved, resolve
from app.scenario.setup import Setup
from genz_core.deployment import bulk_format
from genz_core.eager import eager_engine
from genz_core.engine import NO_RECIPE, EagerFacts
from genz_core.errors import InvalidValue, UnsupportedEngine
from hardware_db import recipes

EAGER = EagerFacts(2e-3, 1e-3, norm_passes=3.0, rope_passes=3.0, activation_passes=2.0)
#: A shipped recipe: this model, system, engine and format were measured.
MEASURED = Question(model="openai/gpt-oss-120b", system="h100-sxm5-80gb", engine="vllm", tp=2)
OWN = "include: h100-sxm5-80gb\nid: my-h100\nname: My H100\n"
FASTER = (
    OWN
    + """
sources: {mine: {title: A faster memory}}
memory_gb_per_s: {value: 3400, source: mine, kind: assumed, note: a what-if}
"""
)


def test_every_recipe_that_ships_is_found_by_its_model_and_format():
    for key, measured in recipes._shipped().items():
        model = model_registry.load(measured.model, weights=key.weights)
        assert (round(model.parameters), bulk_format(model)) == (key.parameters, key.weights)


#: A model with a published fp8 checkpoint and an 8-bit cache.
PUBLISHED = "meta-llama/Llama-3.1-70B"


@pytest.fixture
def eager() -> Resolved:
    """The default scenario with an engine that runs the model unfused, as calibration writes."""
    asked = resolve(Question())
    return replace(asked, engine=eager_engine(hardware_db.load_engine("hf"), EAGER))


def test_an_eager_engine_costs_the_same_whoever_asks(eager: Resolved):
    expected = estimate_resolved(eager)
    plain = estimate_resolved(replace(eager, engine=hardware_db.load_engine("hf")))
    assert expected.tpot_s[0] > 1.2 * plain.tpot_s[0]

    (block,) = sweep_axes.sweep_axes({"model": eager.scenario.model, "tp": [1]}).blocks
    swept = sweep_block.price(block, eager, 0, 1, bounds_only=False)
    assert swept["tpot_s"][0] == pytest.approx(expected.tpot_s[0])
    (batch,) = points_file.price_group(eager, [_point(batch="1")])
    assert float(batch["tpot_s"]) == pytest.approx(expected.tpot_s[0])
    assert float(batch["decode_step_s"]) == pytest.approx(expected.tpot_s[0], rel=0.01)
    one, user = np.array([1.0]), replace(eager.scenario, concurrency=1)
    loaded = replace(eager, scenario=user)
    alone = served_rows.table(loaded, served_rows.served(loaded), "concurrency", one).row()
    assert alone["tpot_s"] == pytest.approx(expected.tpot_s[0], rel=0.05)
    (served,) = points_file.price_group(loaded, [_point(concurrency="1")])
    assert float(served["tpot_s"]) == pytest.approx(alone["tpot_s"])


def _point(**load: str) -> Point:
    names = {"model": Question().model, "system": Question().system, "engine": "hf"}
    return parse({**names, "osl": "256", "isl": "1024", **load})


@pytest.mark.parametrize(
    ("asked", "cache"),
    [
        (Question(engine="trtllm", model=PUBLISHED, weights="fp8"), "fp8"),
        (Question(engine="vllm", model=PUBLISHED, weights="fp8"), "bf16"),
        (Question(engine="vllm", model=PUBLISHED, weights="fp8", kv="fp8"), "fp8"),
        (Question(engine="vllm", model="nvidia/Llama-3.1-8B-Instruct-FP8"), "fp8"),
        (Question(engine="vllm", weights="nvfp4"), "fp8"),
        (Question(engine="vllm", weights="q4_k_m"), "bf16"),
    ],
    ids=[
        "as-published",
        "the-models-own",
        "asked",
        "the-checkpoints",
        "modelopts",
        "16-bit-as-it-is",
    ],
)
def test_weights_asked_for_bring_the_cache_that_the_engine_keeps(asked: Question, cache: str):
    assert resolve(asked).model.precision.kv == cache


def test_a_cache_other_than_the_published_one_is_said():
    notes = resolve(Question(engine="vllm", model=PUBLISHED, weights="fp8")).notes
    assert "kv cache: bf16, the default of vllm; checkpoints allow fp8" in notes


def test_a_recipe_is_found_by_whoever_asks_and_a_rent_does_not_lose_it():
    recipe = resolve(MEASURED).engine.recipe
    assert recipe.points >= 3
    for setup in (Setup(MEASURED), Setup(replace(MEASURED, price=2.0))):
        assert caches.resolved(setup).engine.recipe == recipe
        assert load_curves.basis(setup).startswith("corrected by")


def test_a_device_that_a_visitor_brought_has_no_recipe_unless_it_is_a_measured_one():
    brought, renamed = (Setup(MEASURED, system_yaml=text) for text in (FASTER, OWN))
    assert caches.resolved(brought).engine.recipe == NO_RECIPE
    assert "not measured" in load_curves.basis(brought)
    assert caches.resolved(renamed).engine.recipe == resolve(MEASURED).engine.recipe


def test_what_a_visitor_brought_is_priced_as_the_same_file_is_elsewhere(tmp_path):
    import ridgeline

    (file := tmp_path / "my-h100.yaml").write_text(OWN)
    question = replace(MEASURED, concurrency=16, batch=1)
    page = load_curves.one_load(Setup(question, system_yaml=OWN))
    python = ridgeline.serve(MEASURED.model, system=file, engine="vllm", tp=2, concurrency=16)
    for name in ("ttft_s", "tpot_s"):
        assert page[name] == pytest.approx(float(getattr(python, name)), rel=1e-12)


def test_what_a_visitor_scaled_keeps_the_recipe_and_is_said_to():
    scaled = Setup(replace(MEASURED, bandwidth=2.0))
    assert caches.resolved(scaled).engine.recipe == resolve(MEASURED).engine.recipe
    assert "hypothetical hardware" in load_curves.basis(scaled)


@pytest.mark.parametrize("moe_tp", [0, -1, 1.5, "x", np.array([1, 0])])
def test_ranks_that_share_an_expert_are_whole_numbers(moe_tp):
    import ridgeline

    with pytest.raises(InvalidValue, match="moe_tp"):
        ridgeline.estimate("mixtral-8x7b", system="H100 SXM", isl=100, osl=10, tp=8, moe_tp=moe_tp)


@pytest.mark.parametrize("load", [{"concurrency": 4}, {"rate": 1.0}])
def test_a_server_starts_with_its_own_share_of_the_memory_unless_it_is_told(load):
    """By name, where the look-up is cached without the load, and by object, where it is not
    cached.
    """
    named = Question(model="meta-llama/Llama-3.1-8B", system="h100", engine="sglang", **load)
    for objects in ({}, {"system": hardware_db.load("h100")}):
        own = resolve(named, objects).engine
        told = resolve(replace(named, memory_fraction=0.7), objects)
        assert own.chunk_tokens == told.engine.chunk_tokens == 8192
        assert own.memory_fraction == pytest.approx(0.836, abs=1e-3)
        usable_bytes = served_rows.served(told).memory.usable_bytes
        assert usable_bytes == pytest.approx(0.7 * told.system.memory_bytes)


def test_a_release_older_than_the_device_is_refused_whatever_is_asked():
    for load in ({}, {"concurrency": 4}, {"rate": 1.0}):
        for named in ({"engine": "trtllm 0.16"}, {"engine": "trtllm", "engine_version": "0.16"}):
            with pytest.raises(UnsupportedEngine, match=r"0\.17 is the first release"):
                resolve(Question(model="meta-llama/Llama-3.1-8B", system="b200", **named, **load))


@pytest.mark.parametrize(
    ("weights", "system", "runs"),
    [
        ("fp8", "a100-sxm4-80gb", "bf16"), ("nvfp4", "h100-sxm5-80gb", "bf16"),
        ("mxfp4", "mi300x-192gb", "bf16"), ("fp8", "h100-sxm5-80gb", ""),
        ("nvfp4", "b200-sxm-180gb", ""), ("bf16", "a100-sxm4-80gb", ""),
        ("q4_0", "rtx-4090", ""), ("q8_0", "m2-ultra-76core", "fp16"),
        ("w8a8", "a100-sxm4-80gb", ""),
    ],
)  # fmt: skip
def test_weights_that_are_only_stored_in_their_format_are_named_once(weights, system, runs):
    question = Question(model=PUBLISHED, weights=weights, system=system)
    said = [note for note in resolve(question).notes if "unpacked" in note]
    assert len(said) == bool(runs)
    assert all(note.startswith(f"{weights} weights are unpacked to {runs} ") for note in said)


@pytest.mark.parametrize(
    ("weights", "system", "faster"),
    [
        ("int4", "h100-sxm5-80gb", "fp8"), ("nvfp4", "h100-sxm5-80gb", "fp8"),
        ("int4", "a100-sxm4-80gb", "w8a8"), ("mxfp4", "mi300x-192gb", "fp8"),
        ("nvfp4", "b200-sxm-180gb", ""), ("fp8", "a100-sxm4-80gb", ""),
    ],
)  # fmt: skip
def test_weights_in_four_bits_that_read_prompts_slower_than_in_eight_are_named(
    weights, system, faster
):
    question = Question(model=PUBLISHED, weights=weights, system=system, batch=8)
    said = "; ".join(resolve(question).notes)
    assert (f"prompts take longer than with {faster} weights" in said) == bool(faster)
    if faster:
        four, eight = (
            estimate_resolved(resolve(replace(question, weights=one))) for one in (weights, faster)
        )
        assert four.ttft_s[0] > 1.2 * eight.ttft_s[0]


def test_weights_that_an_engine_multiplies_in_its_own_arithmetic_are_not_said_to_be_unpacked():
    asked = Question(model="openai/gpt-oss-20b", system="rtx-4090")
    plain, blocks = (resolve(replace(asked, engine=name)).notes for name in ("vllm", "llama.cpp"))
    assert any("mxfp4 weights are unpacked to bf16" in note for note in plain)
    assert not any("unpacked" in note for note in blocks)
