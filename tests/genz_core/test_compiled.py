"""Plans give the prices of graphs: random questions both ways, and what a symbol refuses."""

from __future__ import annotations

import gc
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple

import numpy as np
import pytest

import genz_core
import hardware_db
import model_registry
from genz_core import errors, schedule, workload
from genz_core.alone import program_choice as alone
from genz_core.alone.straight import straight
from genz_core.common.memo import ByIdentity
from genz_core.compiled import pricing
from genz_core.compiled.kinds import Kind
from genz_core.deployment import deploy
from genz_core.graphs import Graph
from genz_core.symbolic.formulas import Formulas
from genz_core.symbolic.programs import Program
from genz_core.symbolic.symbols import Unresolved, item, number
from genz_core.types import Parallelism, Workload
from tests.draws import cases, seed

MODELS, SYSTEMS = sorted(model_registry.names()), sorted(hardware_db.names())
ENGINES = sorted(hardware_db.engine_names())
FIGURES = (
    "compute_s", "memory_s", "communication_s", "expected_s", "stage_s", "wait_s", "least_s",
    "micro_batches", "stages", "host_s", "learned_s", "flops", "bytes", "total_s",
)  # fmt: skip
DIFFERENCES = ("wait_s", "learned_s")
NEVER = 10**9
ROUNDING = 1e-12  # sums are added in a different order


def question(draw: random.Random) -> tuple[Workload, Parallelism]:
    """Sizes and degrees of one configuration, or of several at once."""
    many = draw.choice([1, 1, 3, 70])

    def size(low: float, high: float) -> np.ndarray:
        found = [round(low * (high / low) ** draw.random()) for _ in range(many)]
        return np.array(found, dtype=float)

    def degree(*values: int) -> int | np.ndarray:
        if many == 1 or draw.random() < 0.7:
            return draw.choice(values)
        return np.array([draw.choice(values[:2]) for _ in range(many)])

    isl = size(1, 30000)
    load = Workload(size(1, 600), isl, size(1, 3000), draw.choice([0.0, np.floor(isl / 2)]))
    tp, dp = degree(1, 8, 2, 4, 3), degree(1, 2, 6)
    return load, Parallelism(
        tp=tp,
        dp=dp,
        pp=degree(1, 2) if draw.random() < 0.2 else 1,
        cp=draw.choice([1] * 6 + [2]),
        ep=draw.choice([1, tp * dp]),
        sequence_parallel=draw.random() < 0.1,
        expert_imbalance=draw.choice([1.0] * 5 + [1.3]),
    )


def compare(number_of: int, start: int, monkeypatch) -> tuple[int, int]:
    """Price questions by plans, by graphs, and one configuration by its own program; returns the
    number of plans and of such programs.
    """
    planned, programs, known = 0, 0, pricing.plans

    def none(deployed, lanes):
        return None

    def program(deployed, *given):
        nonlocal programs
        found = one_program(deployed, *given)
        programs += found is not None
        return found

    one_program = alone.priced
    monkeypatch.setattr(workload, "priced_alone", program)

    def asked(deployed, lanes):
        nonlocal planned
        found = known(deployed, lanes)
        planned += found is not None
        return found

    for at in range(number_of):
        draw = random.Random(start + at)
        model = model_registry.load(draw.choice(MODELS))
        system = hardware_db.load(draw.choice(SYSTEMS))
        engine = hardware_db.load_engine(draw.choice(ENGINES))
        load, split = question(draw)
        priced = []
        numbers = np.size(load.batch) == 1
        for plans, worth in ((asked, NEVER), (none, NEVER), (asked, 0))[: 2 + numbers]:
            monkeypatch.setattr(pricing, "plans", plans)
            monkeypatch.setattr(schedule, "plans", plans)
            monkeypatch.setattr(alone, "WORTH", worth)
            monkeypatch.setattr(alone, "_ASKED", ByIdentity())
            sizes = load if worth else Workload(*(float(np.max(n)) for n in astuple(load)))
            try:
                priced.append(
                    genz_core.estimate(model, system, sizes, split, engine, on_error="status")
                )
            except genz_core.errors.RidgelineError as error:
                priced.append(str(error))
        one, *others = priced
        for other in others:
            if isinstance(one, str):
                assert one == other
            else:
                same(one, other)
    return planned, programs


def same(one, other):
    """Assert that two estimates with valid degrees are equal except for rounding."""
    model = one.model
    assert one.status.tolist() == other.status.tolist()
    priced = one.status != "invalid_parallelism"
    for phase in ("prefill", "decode"):
        steps = getattr(one, phase), getattr(other, phase)
        for name in FIGURES:
            found, expected = (getattr(step, name) for step in steps)
            assert found.shape == expected.shape, (model.name, name)
            if found.shape[-1:] == priced.shape:
                found, expected = found[..., priced], expected[..., priced]
            near = np.allclose(found, expected, rtol=ROUNDING, atol=1e-30)
            # A wait is the difference of two rounded times.
            slack = ROUNDING * steps[1].total_s[priced] if name in DIFFERENCES else 0.0
            assert near or np.all(np.abs(found - expected) <= slack), (model.name, name)
        names = ([op.name for op in step.graph.ops] for step in steps)
        assert next(names) == next(names)
    for name in ("weights_bytes", "kv_bytes", "activations_bytes", "reserve_bytes"):
        both = (getattr(answer.memory, name)[priced] for answer in (one, other))
        assert np.allclose(*both, rtol=ROUNDING), (model.name, name)


@pytest.mark.draws
@pytest.mark.filterwarnings("ignore")
def test_plans_price_as_graphs_do(monkeypatch):
    drawn = cases(40)
    planned, programs = compare(drawn, seed(1), monkeypatch)
    assert planned > drawn  # at least three of a question that has one
    assert programs > drawn / 10


def test_the_launches_of_all_chunks_of_a_prompt_run_ahead_together(monkeypatch):
    """The last chunk takes the device less time than its launches take the host."""
    model = model_registry.load("EleutherAI/pythia-1.4b")
    asked = (hardware_db.load("rx-9070"), Workload(42, 2016, 8), Parallelism(tp=4))
    by_plans = genz_core.estimate(model, *asked, hardware_db.load_engine("sglang"))
    for module in (pricing, schedule):
        monkeypatch.setattr(module, "plans", lambda deployed, lanes: None)
    by_graphs = genz_core.estimate(model, *asked, hardware_db.load_engine("sglang"))
    same(by_plans, by_graphs)


@pytest.mark.slow
@pytest.mark.draws
@pytest.mark.filterwarnings("ignore")
def test_ten_thousand_plans_price_as_graphs_do(monkeypatch):
    compare(cases(10_000), seed(1_000_000), monkeypatch)


def test_what_depends_on_no_size_is_a_number_and_equal_results_are_one():
    formulas = Formulas()
    tokens = formulas.size("tokens", 1.0)
    assert np.where(tokens > 0.5, 3.0, tokens) == 3.0
    assert tokens * 0.0 == 0.0 and tokens - tokens == 0.0
    assert np.maximum(tokens, 1.0).key == tokens.key
    assert np.minimum(tokens * 2.0, tokens * 3.0).factor == 2.0
    assert (np.ceil(tokens / 3.0) * 2.0).at == np.ceil(tokens / 3.0).at
    assert (tokens / 3.0).at != tokens.at, "a third is rounded: it is a result of its own"


def test_a_program_evaluates_formulas_for_arrays_and_leaves_out_what_nobody_wants():
    formulas = Formulas()
    tokens, cached = formulas.size("tokens", 1.0), formulas.size("cached", 0.0)
    wanted = np.where(cached > 10.0, tokens * cached, number(tokens) + 1.0) * 2.0
    np.exp(cached)  # no caller needs it
    program = Program.of(formulas, [wanted])
    sizes = {"tokens": np.array([2.0, 3.0]), "cached": np.array([20.0, 5.0])}
    (found,) = program(sizes)
    assert (found * wanted.factor + wanted.constant).tolist() == [80.0, 8.0]
    assert np.exp not in [function for _, function, _ in program.steps]


def test_systems_and_engines_that_run_a_model_alike_share_its_graph():
    model = model_registry.load("deepseek-ai/DeepSeek-V3")
    kind = Kind(reads=False)

    def graph(system: str, engine: str) -> Graph:
        deployed = deploy(model, hardware_db.load(system), hardware_db.load_engine(engine))
        return pricing.plan_of(deployed, Parallelism(tp=8), kind).graph

    assert graph("h100", "vllm") is graph("b200", "vllm") is not graph("h100", "hf")
    assert graph("h100", "trtllm") is graph("b200", "sglang"), "both pad experts"


def test_formulas_take_results_of_several_threads_at_once():
    formulas = Formulas()
    tokens = formulas.size("tokens", 1.0)

    def ask(first: int) -> list[int]:
        return [np.exp(tokens * (n // 2 + 1.0)).at for n in range(first, 4000)]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            every = list(threads.map(ask, [0, 0, 2000, 2000]))
    finally:
        sys.setswitchinterval(interval)
    assert every[0] == every[1] and every[2] == every[3] == every[0][2000:]
    assert len(formulas.steps) == len(formulas.least) == len(formulas.shapes) == 2001


def test_formulas_and_their_programs_are_freed_without_a_search_for_garbage():
    def used() -> None:
        formulas = Formulas(arrays=True)
        tokens = formulas.size("tokens", 1.0)
        longest = (np.ceil(tokens / np.array([2.0, 3.0])[:, None]) * 3.0 + 1.0).min(axis=0)
        straight(Program.of(formulas, [np.sqrt(longest) + tokens]), ["tokens"])(4.0)

    gc.collect()
    gc.disable()
    try:
        before = sum(isinstance(kept, Formulas) for kept in gc.get_objects())
        used()
        assert sum(isinstance(kept, Formulas) for kept in gc.get_objects()) == before
    finally:
        gc.enable()


def test_straight_line_python_gives_what_the_program_gives():
    formulas = Formulas(arrays=True)
    tokens, cached = formulas.size("tokens", 1.0), formulas.size("cached", 0.0)
    ways = np.array([1.0, 2.0, 4.0])[:, None]
    best = (np.ceil(tokens / ways) * 3.0 + np.maximum(cached, ways) ** 1.5).min(axis=0)
    wanted = [
        np.where(cached > 10.0, tokens * cached, number(tokens) + 1.0),
        np.sqrt(tokens) + np.floor(cached / 3.0) - np.log2(tokens),
        formulas.result(item, best, 0, shape=()),
    ]
    program = Program.of(formulas, wanted)
    run = straight(program, ("tokens", "cached"))
    for one in ({"tokens": 7.0, "cached": 20.0}, {"tokens": 1.0, "cached": 0.0}):
        found = np.array(run(**one), dtype=float)
        assert found == pytest.approx([float(each) for each in program(one)], rel=1e-15)


def test_a_symbol_stands_beside_arrays_only_where_its_formulas_allow_it():
    ways = np.array([1.0, 2.0])
    assert (Formulas(arrays=True).size("tokens", 1.0) * ways).shape == (2,)
    with pytest.raises(Unresolved):
        Formulas().size("tokens", 1.0) * ways


@pytest.mark.parametrize(
    ("load", "split", "error"),
    [
        (Workload(0, 1000, 128), Parallelism(), errors.InvalidValue),
        (Workload(1, 1000.5, 128), Parallelism(), errors.InvalidValue),
        (Workload(1, float("nan"), 128), Parallelism(), errors.InvalidValue),
        (Workload(1, 10**400, 128), Parallelism(), errors.InvalidValue),
        (Workload(1, 1000, 128), Parallelism(tp=3), errors.InvalidParallelism),
        (Workload(10_000, 10_000, 128), Parallelism(), errors.OutOfMemory),
    ],
)
def test_one_configuration_is_refused_alike_with_a_program_and_without(
    load, split, error, monkeypatch
):
    model, system = model_registry.load("meta-llama/Llama-3.1-8B"), hardware_db.load("h100")
    said = []
    for worth in (NEVER, 0):
        monkeypatch.setattr(alone, "WORTH", worth)
        monkeypatch.setattr(alone, "_ASKED", ByIdentity())
        with pytest.raises(error) as refused:
            genz_core.estimate(model, system, load, split)
        said.append(str(refused.value))
    assert said[0] == said[1]


def test_a_program_is_made_of_what_is_asked_for_often(monkeypatch):
    """Its first answers come from arrays, the later ones are equal except for rounding."""
    monkeypatch.setattr(alone, "_ASKED", ByIdentity())
    monkeypatch.setattr(alone, "WORTH", 2)
    model, system = model_registry.load("meta-llama/Llama-3.1-8B"), hardware_db.load("h100")
    engine = hardware_db.load_engine("vllm")
    for isl in (1000, 20_000):  # in one step, and in several
        load = Workload(4, isl)
        answers = [genz_core.estimate(model, system, load, None, engine) for _ in range(4)]
        for answer in answers[1:]:
            same(answers[0], answer)
    ((_, asked),) = alone._ASKED._kept.values()
    assert asked.made is not None and set(asked.made.made) == {False, True}


@pytest.mark.parametrize("ask", [bool, float, np.any, lambda symbol: np.asarray(symbol, float)])
def test_a_symbol_refuses_to_be_a_number(ask):
    with pytest.raises(Unresolved):
        ask(Formulas().size("tokens", 1.0))
