"""Steps of the closed form: at its nodes they equal the price of that step."""

from __future__ import annotations

import numpy as np
import pytest

import hardware_db
from genz_core.deployment import deploy
from genz_core.engine import EngineProfile
from genz_core.models.speculative import QueryTokens
from genz_core.phases import mixed
from genz_core.serving.model_times import ModelTimes
from genz_core.serving.step_sizes import Sizes
from genz_core.types import Group, Parallelism
from tests.model_registry.shared_models import built

DENSE, EXPERTS = "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-30B-A3B"
ENGINE, ONE = EngineProfile(), np.ones(1)
SYSTEM = hardware_db.load("h100")
ISL, PIECE, DECODES = 4096.0, 512.0, 256.0


def times(name: str, query: QueryTokens, osl: float = 2.0, **degrees: int) -> ModelTimes:
    """Of prompts of 4,096 tokens in chunks of 512, beside at most 256 decodes per rank."""
    sizes = Sizes(DECODES * ONE, PIECE * ONE, PIECE * ONE, ISL * ONE, osl * ONE)
    split = Parallelism(**{axis: degree * ONE for axis, degree in degrees.items()})
    return ModelTimes.of(deploy(built(name), SYSTEM, ENGINE), split, sizes, query)


def exact_s(name: str, *groups: Group, **degrees: int) -> float:
    step = mixed(built(name), SYSTEM, groups, Parallelism(**degrees), ENGINE)
    return float((step.total_s - step.host_s)[0])


def piece(prompts: float = 1.0) -> Group:
    """The chunk in the middle of a prompt."""
    return Group(prompts, PIECE, (ISL - PIECE) / 2.0, prompt=ISL)


@pytest.mark.parametrize(
    "query", [QueryTokens(), QueryTokens(4, 3, 4)], ids=["plain", "three drafts"]
)
def test_a_step_of_decodes_and_a_piece_is_priced_as_it_is(query):
    step = times(DENSE, query)(DECODES * ONE, PIECE * ONE, 0 * ONE)
    exact = exact_s(DENSE, query.group(DECODES, ISL, ISL), piece())
    assert step.sum() == pytest.approx(exact, rel=0.004)


@pytest.mark.parametrize(
    "query", [QueryTokens(), QueryTokens(4, 3, 4)], ids=["plain", "three drafts"]
)
@pytest.mark.parametrize("degrees", [{}, {"tp": 2}])
def test_a_step_of_decodes_alone_is_priced_as_it_is(query, degrees):
    step = times(DENSE, query, **degrees).of_decodes(DECODES * ONE)
    exact = exact_s(DENSE, query.group(DECODES, ISL, ISL), **degrees)
    assert step.sum() == pytest.approx(exact, rel=0.004)


def test_experts_see_the_tokens_of_all_ranks():
    """Two ranks with 256 decodes each: a chunk on both, or on only one of them."""
    found = times(EXPERTS, QueryTokens(), dp=2, ep=2)
    decodes = QueryTokens().group(2 * DECODES, ISL, ISL)
    both = found(DECODES * ONE, PIECE * ONE, PIECE * ONE).sum()
    assert both == pytest.approx(exact_s(EXPERTS, decodes, piece(2), dp=2, ep=2), rel=0.01)
    alone = found(DECODES * ONE, PIECE * ONE, 0 * ONE).sum()
    none = found.of_decodes(DECODES * ONE).sum()
    assert none < alone < both


def test_a_stage_of_a_pipeline_has_its_own_time():
    stages = times(DENSE, QueryTokens(), pp=2)(DECODES * ONE, PIECE * ONE, 0 * ONE)[:, 0]
    assert len(stages) == 2 and stages[1] > stages[0], "the last one has the head"


def test_contexts_that_grow_cost_their_mean():
    """Decodes over answers of 1,000: attention is linear in the context except for block
    rounding.
    """
    grown = times(DENSE, QueryTokens(), osl=1000.0).of_decodes(DECODES * ONE).sum()
    middle = exact_s(DENSE, QueryTokens().group(DECODES, ISL + 499.0, ISL))
    assert grown == pytest.approx(middle, rel=0.005)


def test_nothing_to_decode_takes_no_time():
    assert times(DENSE, QueryTokens()).of_decodes(0 * ONE).sum() == 0.0
