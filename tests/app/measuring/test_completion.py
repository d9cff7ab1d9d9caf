"""A scenario filled from a report: sizes, degrees, formats, and contradictions."""

from dataclasses import replace

import pytest

import model_registry
from app.measuring.completion import differences, estimate_filled, filled, phase_loads
from app.measuring.model_facts import ModelShape, degree_by_products
from app.question.question import Question
from app.scenario.scenario import resolve
from genz_core.types import Parallelism, Step
from profilers.phases.what_ran import Fact, StepFacts, WhatRan


def fact(value):
    return Fact(value, "the test")


def step(phase, batch=None, length=None, context=None, tokens=None):
    sizes = (fact(v) if v is not None else None for v in (batch, length, context, tokens))
    return {phase: StepFacts(phase, 1, *sizes)}


@pytest.fixture(scope="module")
def qwen():
    return resolve(Question(model="Qwen/Qwen3-8B", system="mi300x", engine="sglang"))


def products(model, tp):
    ops = model.graph(Step.prefill(1.0, 8.0), Parallelism(tp=tp)).ops
    return tuple((int(op.dims["n"]), int(op.dims["k"])) for op in ops if "n" in op.dims)


@pytest.mark.parametrize("tp", [1, 2, 4, 8])
def test_the_degree_is_the_one_whose_products_ran(qwen, tp):
    assert degree_by_products(qwen.model, 8, products(qwen.model, tp)) == tp
    ran = WhatRan(ranks=fact(8), products=products(qwen.model, tp))
    scenario = filled(Question(), ran, qwen.model, ()).scenario
    assert (scenario.tp, scenario.dp) == (tp, 8 // tp)
    assert filled(Question(), ran, qwen.model, {"tp"}).scenario.tp == 1, "typed"


@pytest.mark.parametrize("sizes", [{"batch": 15, "length": 1024}, {"tokens": 1024}])
def test_a_report_shows_the_batch_of_one_attention_rank(qwen, sizes):
    """The step of a rank takes as long as with as many devices as it has itself."""
    whole = products(qwen.model, 1)
    alone = WhatRan(ranks=fact(1), products=whole, steps=step("prefill", **sizes))
    among = replace(alone, ranks=fact(8))
    found = {ran.ranks.value: filled(qwen.scenario, ran, qwen.model, ()) for ran in (alone, among)}
    assert found[8].scenario.batch == 8 * found[1].scenario.batch
    assert found[8].scenario.isl == found[1].scenario.isl == 1024
    priced = {n: replace(qwen, scenario=one.scenario) for n, one in found.items()}
    times = [estimate_filled(priced[n], found[n].loads).prefill.operators_s.sum() for n in (1, 8)]
    assert times[1] == pytest.approx(times[0], rel=0.03)
    assert not differences(priced[8], among, found[8].loads)
    given = replace(priced[8], scenario=replace(priced[8].scenario, batch=15))
    assert differences(given, among)[0].field in ("batch", "batch x ISL")


def test_a_report_of_one_device_tells_by_its_products_whether_the_model_was_split(qwen):
    whole, part = (WhatRan(products=products(qwen.model, tp)) for tp in (1, 4))
    split = Question(model="Qwen/Qwen3-8B", system="mi300x", engine="sglang", tp=4)
    assert filled(split, whole, qwen.model, ()).scenario.tp == 1
    assert filled(split, part, qwen.model, ()).scenario.tp == 4
    assert filled(split, whole, qwen.model, {"tp"}).scenario.tp == 4, "typed"
    (apart,) = differences(resolve(split), whole)
    assert (apart.field, apart.scenario, apart.ran) == ("tp", 4, 1)
    assert not differences(resolve(split), part)


def test_devices_that_ran_and_are_not_priced_are_named(qwen):
    (apart,) = differences(qwen, WhatRan(ranks=fact(8)))
    assert (apart.field, apart.scenario, apart.ran) == ("devices", 1, 8)


def test_six_of_twenty_four_layers_are_not_the_model():
    shape = ModelShape.of(model_registry.load("Qwen/Qwen1.5-0.5B"))
    assert shape.layers == 24 and shape.hidden == 1024
    assert shape.may_run(24, exact=True) and not shape.may_run(6, exact=True)
    assert shape.may_run(48, exact=False) and not shape.may_run(36, exact=False)


def test_layers_of_one_kind_among_others_are_of_the_model():
    """Gated attention is in every fourth of the 48 layers of Qwen3-Next."""
    shape = ModelShape.of(model_registry.load("Qwen/Qwen3-Next-80B-A3B-Instruct"))
    assert shape.may_run(12, exact=True) and shape.may_run(36, exact=True)
    assert not shape.may_run(16, exact=True)


def test_a_decode_is_priced_at_the_context_that_ran(qwen):
    ran = WhatRan(steps=step("decode", 32, 1, 1024))
    found = filled(qwen.scenario, ran, qwen.model, ())
    assert (found.scenario.batch, found.scenario.isl, found.scenario.osl) == (32, 1024, 2)
    priced = replace(qwen, scenario=found.scenario)
    assert differences(priced, ran, found.loads) == ()
    at = replace(priced, scenario=replace(found.scenario, osl=200, isl=900))
    assert differences(at, ran) == (), "the context lies in the output"
    (apart,) = differences(replace(at, scenario=replace(at.scenario, isl=100)), ran)
    assert apart.field == "context"


def test_a_chunk_after_cached_tokens_computes_the_new_ones_alone(qwen):
    ran = WhatRan(steps=step("prefill", 1, 512, 3584))
    found = filled(qwen.scenario, ran, qwen.model, ())
    load = found.loads["prefill"]
    assert (load.isl, load.cached) == (4096, 3584)
    chunk = estimate_filled(replace(qwen, scenario=found.scenario), found.loads).prefill
    whole = estimate_filled(replace(qwen, scenario=found.scenario), {}).prefill
    assert chunk.total_s[0] < 0.35 * whole.total_s[0]  # its launches take as long as for all


def test_tokens_alone_are_taken_for_one_prompt(qwen):
    found = filled(qwen.scenario, WhatRan(steps=step("prefill", tokens=2048)), qwen.model, ())
    assert (found.scenario.batch, found.scenario.isl) == (1, 2048)
    assert "one prompt" in " ".join(map(str, found.fillings))


def test_a_format_that_the_model_lacks_is_filled_and_its_own_is_not(qwen):
    assert filled(Question(), WhatRan(dtype=fact("fp8")), qwen.model, ()).scenario.weights == "fp8"
    for own in ("bf16", "fp16"):
        assert not filled(Question(), WhatRan(dtype=fact(own)), qwen.model, ()).fillings
    (apart,) = differences(qwen, WhatRan(dtype=fact("fp8")))
    assert (apart.field, apart.scenario, apart.ran) == ("weights", "bf16", "fp8")


@pytest.mark.parametrize(
    ("priced", "ran", "other"),
    [("sglang", "vllm", True), ("sglang", "sglang", False), ("generic", "vllm", False),
     ("hf", "hf-compile", False)],
)  # fmt: skip
def test_engines_of_other_families_contradict(priced, ran, other):
    resolved = resolve(Question(model="Qwen/Qwen3-8B", system="mi300x", engine=priced))
    fields = [one.field for one in differences(resolved, WhatRan(engine=fact(ran)))]
    assert fields == (["engine"] if other else [])


def test_a_device_is_known_by_any_of_its_names(qwen):
    for name in ("AMD Instinct MI300X", "AMD Instinct MI300X VF", "a device nobody knows"):
        assert differences(qwen, WhatRan(device=fact(name))) == ()
    (apart,) = differences(qwen, WhatRan(device=fact("NVIDIA H100 80GB HBM3")))
    assert "MI300X" in str(apart) and "H100" in str(apart)


def test_phases_with_batches_of_their_own_are_priced_apart(qwen):
    ran = WhatRan(steps=step("prefill", 15, 1024, 0) | step("decode", 32, 1, 1024))
    agrees = replace(qwen, scenario=replace(qwen.scenario, batch=15))
    assert {p: load.batch for p, load in phase_loads(agrees, ran).items()} == {
        "prefill": 15, "decode": 32,
    }  # fmt: skip
    assert phase_loads(replace(qwen, scenario=replace(qwen.scenario, batch=7)), ran) == {}
