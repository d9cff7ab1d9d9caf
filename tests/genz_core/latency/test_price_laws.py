"""Laws of every price, over all kinds of operators, both phases and random shapes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genz_core.common.registry import KINDS
from genz_core.engine import EngineProfile
from genz_core.graphs import Graph
from genz_core.latency import Pricer
from genz_core.latency.roofline import roofline
from genz_core.steps.step import price
from genz_core.types import Group, Parallelism, Step
from tests.draws import cases
from tests.genz_core.operator_cases import (
    BUILDERS,
    CASES,
    OF_SEQUENCES,
    SIZES,
    SYSTEM,
    built,
    shapes,
)

ENGINES = {
    "plain": EngineProfile(),
    "slow host": EngineProfile(launch_s=30e-6),
    "other kernels": EngineProfile(
        compute_efficiency=0.8, memory_efficiency=0.9, attention_efficiency=0.9,
        thin_products=True, all_reduce="tree",
    ),
}  # fmt: skip
every_case = pytest.mark.parametrize(("kind", "phase"), CASES)
several = settings(max_examples=cases(25))

#: Sizes that grow; a decode step has one new token per sequence.
GROWING = [
    (kind, phase, size)
    for kind, phase in CASES
    for size in SIZES.get(kind, ())
    if not (size == "new_tokens" and phase == "decode")
]


def test_every_kind_of_operator_has_cases():
    for name, known in (("SIZES", SIZES), ("BUILDERS", BUILDERS)):
        apart = sorted(set(known) ^ set(KINDS))
        assert not apart, f"{name} of operator_cases.py and the registered kinds differ in {apart}"
    kinds_of_both = {kind for kind, phase in CASES if phase == "decode"}
    assert kinds_of_both == set(OF_SEQUENCES)


@pytest.mark.by_day(10)
@every_case
@several
@given(data=st.data())
def test_every_door_gives_the_same_price(kind, phase, data):
    """Alone, split up, and as a row of a step."""
    operator = built(kind, [data.draw(shapes(kind, phase))])
    engine = ENGINES[data.draw(st.sampled_from(sorted(ENGINES)))]
    pricer = Pricer(SYSTEM, engine)
    seconds = pricer.expected_s(operator)
    assert pricer.explain(operator).seconds == pytest.approx(seconds, rel=1e-12)
    step = Step((Group(1.0, 1.0, 0.0),))
    row = price(Graph((operator,), 1), step, SYSTEM, Parallelism(), engine)
    assert row.expected_s[0] == pytest.approx(seconds, rel=1e-12)
    assert row.explain(0).seconds == pytest.approx(float(seconds[0]), rel=1e-12)


@pytest.mark.by_day(12)
@every_case
@several
@given(data=st.data())
def test_the_terms_of_a_price_are_no_less_than_nothing_and_sum_to_it(kind, phase, data):
    operator = built(kind, [data.draw(shapes(kind, phase))])
    for engine in ENGINES.values():
        explanation = Pricer(SYSTEM, engine).explain(operator)
        total = sum(explanation.terms.values())
        assert total == pytest.approx(explanation.seconds, rel=1e-9, abs=1e-18)
        for term in explanation.terms.values():
            assert np.all(term >= -1e-12 * explanation.seconds)


@pytest.mark.by_day(12)
@every_case
@several
@given(data=st.data())
def test_no_price_lies_below_the_roofline(kind, phase, data):
    operator = built(kind, data.draw(st.lists(shapes(kind, phase), min_size=1, max_size=4)))
    least = roofline(operator, SYSTEM).bound_s
    for engine in ENGINES.values():
        assert np.all(Pricer(SYSTEM, engine).expected_s(operator) >= least)


@pytest.mark.by_day(6)
@pytest.mark.parametrize("kind", KINDS)
@several
@given(data=st.data())
def test_an_array_of_shapes_is_priced_as_each_alone_whatever_their_phases(kind, data):
    either = st.one_of(shapes(kind, "prefill"), shapes(kind, "decode"))
    rows = data.draw(st.lists(either, min_size=2, max_size=6))
    pricer = Pricer(SYSTEM, ENGINES["plain"])
    together = pricer.expected_s(built(kind, rows))
    alone = [float(pricer.expected_s(BUILDERS[kind](row))) for row in rows]
    assert together == pytest.approx(alone, rel=1e-12)


@pytest.mark.by_day(20)
@pytest.mark.parametrize(("kind", "phase", "size"), GROWING)
@several
@given(data=st.data(), factor=st.integers(2, 8))
def test_a_larger_size_never_takes_less_time(kind, phase, size, data, factor):
    small = data.draw(shapes(kind, phase))
    large = {**small, size: small[size] * factor}
    low, high = Pricer(SYSTEM, ENGINES["plain"]).expected_s(built(kind, [small, large]))
    assert high >= low * (1 - 1e-9)


@pytest.mark.by_day(12)
@every_case
@several
@given(data=st.data())
def test_better_hardware_never_takes_more_time(kind, phase, data):
    operator = built(kind, [data.draw(shapes(kind, phase))])
    faster = replace(
        SYSTEM,
        peak_flops_per_s={name: 2 * peak for name, peak in SYSTEM.peak_flops_per_s.items()},
        memory_bytes_per_s=2 * SYSTEM.memory_bytes_per_s,
        links=tuple(replace(link, bytes_per_s=2 * link.bytes_per_s) for link in SYSTEM.links),
    )
    slow, fast = (Pricer(s, ENGINES["plain"]).expected_s(operator) for s in (SYSTEM, faster))
    assert np.all(fast <= slow * (1 + 1e-9))
