"""Tables of the step model compared with the step model, on real models, systems and splits."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

import genz_core
import hardware_db
from genz_core.eager import eager_engine, under
from genz_core.engine import EagerFacts, EngineProfile
from genz_core.graphs import Model
from genz_core.models.acceptance import Acceptance
from genz_core.models.speculative import Speculation, SpeculativeModel, speculative_model
from genz_core.serving.simulation.model_tables import Extent
from genz_core.serving.simulation.price_grids import (
    cached_nodes,
    nodes,
    prompt_nodes,
    token_nodes,
)
from genz_core.serving.simulation.step_price import RankWork
from genz_core.serving.simulation.step_tables import StepTables
from genz_core.types import Array, Group, Parallelism
from model_registry.drafts import eagle, modules, prediction_module
from tests.model_registry.shared_models import built

ENGINE = EngineProfile()
EXTENT = Extent(tokens=8192, sequences=256, context=16384)


@dataclass(frozen=True)
class Deployed:
    """A model on a system with a split."""

    model: str
    system: str
    degrees: dict[str, int] = field(default_factory=dict)

    @property
    def split(self) -> Parallelism:
        return Parallelism(**self.degrees)


CASES = {
    "dense": Deployed("meta-llama/Llama-3.1-8B", "h100"),
    "dense, tp": Deployed("meta-llama/Llama-3.1-70B", "h100", {"tp": 4}),
    "dense, pp": Deployed("meta-llama/Llama-3.1-70B", "mi300x", {"tp": 2, "pp": 2}),
    "experts": Deployed("mistralai/Mixtral-8x7B-v0.1", "h100", {"tp": 2}),
    "experts, ep": Deployed("Qwen/Qwen3-235B-A22B", "h200", {"tp": 4, "ep": 4}),
    "latent, ep": Deployed("deepseek-ai/DeepSeek-V3", "h200", {"tp": 8, "ep": 8}),
    "latent, dp": Deployed("deepseek-ai/DeepSeek-V3", "b200", {"dp": 8, "ep": 8}),
    "sparse latent": Deployed("deepseek-ai/DeepSeek-V3.2", "b200", {"tp": 8}),
    "windows": Deployed("google/gemma-3-27b-pt", "h100"),
    "windows, experts": Deployed("openai/gpt-oss-20b", "a100"),
    "hybrid": Deployed("Qwen/Qwen3-Next-80B-A3B-Instruct", "h200", {"tp": 2}),
    "state space": Deployed("state-spaces/mamba-2.8b-hf", "a100"),
}
every_case = pytest.mark.parametrize("case", CASES)


def tables(model: Model, case: Deployed) -> StepTables:
    return StepTables.of(model, hardware_db.load(case.system), case.split, ENGINE, EXTENT)


def direct(model: Model, case: Deployed, *groups: Group) -> Array:
    """The step model's own price of work on every rank, [mixes]."""
    ranks = case.degrees.get("dp", 1)
    whole = [Group(ranks * np.asarray(g.sequences), g.new_tokens, g.cached_tokens) for g in groups]
    system = hardware_db.load(case.system)
    return genz_core.mixed(model, system, whole, case.split, ENGINE).total_s


def read(model: Model, case: Deployed, works: list[RankWork]) -> Array:
    """The tables' price of the same work on every rank, [mixes]."""
    ranks, priced = case.degrees.get("dp", 1), tables(model, case)
    return np.array([priced([work] * ranks)[0] for work in works])


@dataclass(frozen=True)
class Mixes:
    """Random mixes of decodes with one chunk of a prompt, [mixes] each."""

    decodes: Array
    context: Array
    new: Array
    cached: Array

    @classmethod
    def drawn(cls, count: int = 80, seed: int = 0) -> Mixes:
        generator = np.random.default_rng(seed)

        def sizes(least: float, most: float) -> Array:
            return np.exp(generator.uniform(np.log(least), np.log(most), count)).round()

        cached = np.where(generator.random(count) < 0.5, 0.0, sizes(64, 8000))
        return cls(sizes(1, 256), sizes(16, 16_000), sizes(16, 8192), cached)

    def work(self) -> list[RankWork]:
        columns = zip(self.decodes, self.context, self.new, self.cached, strict=True)
        return [RankWork(int(n), n * c, [(int(new), int(old))]) for n, c, new, old in columns]

    def groups(self) -> tuple[Group, Group]:
        return (
            Group(self.decodes, 1.0, self.context),
            Group(np.ones_like(self.new), self.new, self.cached),
        )


# ------------------------------------------------------------------------------- the step model


def test_nodes_of_what_the_cache_holds_lie_within_half_of_one_another():
    """Attention is linear in the cache except for its blocks: a node per 128 tokens, and one after
    the last.
    """
    found = cached_nodes(100_000.0)
    whole = found[found % 128 == 0]
    assert found[0] == 0 and found[-1] > 100_000
    assert np.all(whole[2:] / whole[1:-1] <= np.where(whole[1:-1] < 512, 2.0, 1.5))
    assert set(whole[1:] + 1.0) <= set(found)


@every_case
def test_tables_are_exact_at_their_nodes(case):
    case, generator = CASES[case], np.random.default_rng(1)
    model = built(case.model)
    by_tokens = token_nodes(8192)
    decodes, pieces = (
        np.intersect1d(at, by_tokens) for at in (nodes(256, 2**0.25), prompt_nodes(8192))
    )
    n, c = generator.choice(decodes, 30), generator.choice(nodes(16384, 2**0.5), 30)
    seen = read(model, case, [RankWork(int(a), a * b) for a, b in zip(n, c, strict=True)])
    np.testing.assert_allclose(seen, direct(model, case, Group(n, 1.0, c)), rtol=1e-9)
    new, old = generator.choice(pieces, 30), generator.choice(cached_nodes(8192), 30)
    seen = read(
        model, case, [RankWork(0, 0.0, [(int(a), int(b))]) for a, b in zip(new, old, strict=True)]
    )
    expected = direct(model, case, Group(np.ones_like(new), new, old))
    np.testing.assert_allclose(seen, expected, rtol=1e-9)


@every_case
def test_tables_are_within_a_hundredth_between_their_nodes(case):
    case, mixes = CASES[case], Mixes.drawn()
    model = built(case.model)
    near = np.abs(read(model, case, mixes.work()) / direct(model, case, *mixes.groups()) - 1.0)
    assert np.median(near) < 0.001
    assert np.percentile(near, 95) < 0.01
    assert np.max(near) < 0.02  # where latent attention changes its form


@pytest.mark.parametrize("case", ["latent, ep", "latent, dp", "hybrid"])
def test_what_prompts_share_is_paid_once_a_step(case):
    """The exchange with experts, absorbed projections, convolutions and attention run once for all
    prompts of a step.
    """
    case, several = CASES[case], 8
    model, prompts = built(case.model), Group(np.full(1, float(several)), 64.0, 0.0)
    seen = read(model, case, [RankWork(32, 32 * 500.0, [(64, 0)] * several)])
    expected = direct(model, case, Group(np.full(1, 32.0), 1.0, 500.0), prompts)
    np.testing.assert_allclose(seen, expected, rtol=0.02)


@pytest.mark.parametrize("case", ["dense", "latent, ep", "hybrid"])
def test_prompts_of_a_step_take_as_long_as_a_group_of_them(case):
    """Engines read all prompts of a step in one kernel of variable lengths."""
    case = CASES[case]
    for several, new in ((2, 4096), (16, 512), (64, 128), (256, 32)):
        seen = read(built(case.model), case, [RankWork(0, 0.0, [(new, 0)] * several)])
        group = Group(np.full(1, float(several)), float(new), 0.0)
        np.testing.assert_allclose(seen, direct(built(case.model), case, group), rtol=0.02)


@pytest.mark.parametrize("case", ["dense", "dense, tp", "experts, ep", "windows", "hybrid"])
def test_unequal_prompts_of_a_step_take_as_long_as_in_a_mixed_step(case):
    case = CASES[case]
    prompts = [(2048, 0), (300, 1024), (300, 1024), (64, 0), (8, 4096)]
    seen = read(built(case.model), case, [RankWork(0, 0.0, prompts)])
    groups = [Group(np.ones(1), float(new), float(cached)) for new, cached in prompts]
    np.testing.assert_allclose(seen, direct(built(case.model), case, *groups), rtol=0.02)


@pytest.mark.by_day(8)
@every_case
@pytest.mark.parametrize("axis", ["sequences", "context"])
def test_tables_rise_where_the_step_model_does(case, axis):
    case = CASES[case]
    model = built(case.model)
    n = np.arange(1.0, 200.0, 3.0) if axis == "sequences" else np.full(60, 48.0)
    c = np.full(len(n), 3000.0) if axis == "sequences" else np.linspace(100.0, 16_000.0, 60)
    seen = read(model, case, [RankWork(int(a), a * b) for a, b in zip(n, c, strict=True)])
    expected = direct(model, case, Group(n, 1.0, c))
    rises = np.diff(expected) > 1e-3 * expected[:-1]
    assert np.all(np.diff(seen)[rises] > 0)


# ------------------------------------------------------------------------------- drafts


def speculating(name: str, method: str, tokens: int) -> SpeculativeModel:
    target, acceptance = built(name), Acceptance.of_rate(0.7, tokens)
    if method == "mtp":
        draft = prediction_module(target)
        return SpeculativeModel(target, Speculation("mtp", acceptance, draft, modules(target)))
    draft = None if method == "ngram" else eagle(target)
    return SpeculativeModel(target, Speculation(method, acceptance, draft))


@pytest.mark.parametrize(
    ("case", "method", "tokens"),
    [
        ("dense, tp", "eagle", 3),
        ("dense, pp", "eagle", 5),
        ("dense", "ngram", 4),
        ("latent, ep", "mtp", 1),
        ("latent, dp", "mtp", 3),
        ("windows, experts", "eagle", 2),
    ],
)
def test_drafts_and_their_verification_are_priced_as_the_step_model_does(case, method, tokens):
    case, mixes = CASES[case], Mixes.drawn(40)
    model = speculating(case.model, method, tokens)
    near = np.abs(read(model, case, mixes.work()) / direct(model, case, *mixes.groups()) - 1.0)
    assert np.median(near) < 0.003
    assert np.percentile(near, 95) < 0.015


# ------------------------------------------------------------------------------- ranks and host


def test_ranks_in_lock_step_wait_for_the_slowest_and_share_experts():
    case = CASES["latent, dp"]
    priced = tables(built(case.model), case)

    def latency_s(*ranks: RankWork) -> float:
        return priced(ranks)[0]

    few, many, none = (RankWork(n, n * 2000.0) for n in (32, 64, 0))
    even, uneven = latency_s(*[few] * 8), latency_s(many, *[few] * 7)
    assert even < uneven < latency_s(*[many] * 8)
    assert latency_s(few, *[none] * 7) < even


def test_the_next_micro_batch_starts_when_the_slowest_stage_is_free():
    case = CASES["dense, pp"]
    latency_s, stage_s = tables(built(case.model), case)([RankWork(32, 32 * 2000.0)])
    device_s = latency_s - ENGINE.host_step_s - 32 * ENGINE.host_sequence_s
    assert device_s / 2 <= stage_s < device_s


def test_alike_loads_share_their_tables():
    case = CASES["dense"]
    model, system = built(case.model), hardware_db.load(case.system)
    first, alike, larger = (
        StepTables.of(model, system, case.split, ENGINE, extent)
        for extent in (EXTENT, Extent(8000, 130, 9000), Extent(8192, 257, 16384))
    )
    assert first is alike and first is not larger


def test_alike_drafts_share_their_tables():
    case, drafts = CASES["dense"], Speculation("ngram", Acceptance((0.8,)))
    target, system = built(case.model), hardware_db.load(case.system)
    first, again = (
        StepTables.of(speculative_model(target, drafts), system, case.split, ENGINE, EXTENT)
        for _ in range(2)
    )
    assert first is again


def test_a_masked_attention_is_read_from_all_tokens_of_a_step():
    """transformers' server on a CPU: a prompt pays for the keys of the decodes beside it."""
    facts = EagerFacts(4e-4, 2e-4, expand_groups=1.0)
    engine = under("vllm", eager_engine(EngineProfile(), facts))
    model, system = built("meta-llama/Llama-3.1-8B"), hardware_db.load("epyc-9654")
    extent = Extent(tokens=512, sequences=32, context=1024)
    tables = StepTables.of(model, system, Parallelism(), engine, extent)
    for decodes, context, prompts in (
        (1, 80, 0), (8, 128, 0), (32, 1000, 0), (0, 0, 1), (0, 0, 3), (1, 80, 1), (8, 128, 2),
        (24, 500, 1),
    ):  # fmt: skip
        groups = [Group(float(decodes), 1.0, float(context))] * bool(decodes)
        groups += [Group(float(prompts), 64.0, 0.0)] * bool(prompts)
        work = RankWork(decodes, decodes * context, [(64, 0)] * prompts)
        step = genz_core.mixed(model, system, groups, Parallelism(), engine).total_s[0]
        assert tables([work])[0] == pytest.approx(step, rel=0.01), (decodes, context, prompts)
