"""Laws of an estimate for one model per architecture, served by an engine on an H100."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import genz_core
import hardware_db
import model_registry
from genz_core.graphs import Model
from genz_core.types import Parallelism, Workload
from model_registry.finding.catalog import shipped_models
from tests.rules import for_every

#: Growing loads: batch, prompt and output each; the first prompt has one token.
BATCH = np.array([1, 1, 1, 4, 64])
ISL = np.array([1, 40, 4000, 4000, 4000])
OSL = np.array([2, 2, 500, 500, 2000])


@cache
def family_models() -> dict[str, str]:
    """{model_type: the smallest model of it}."""
    smallest: dict[str, tuple[float, str]] = {}
    for name in model_registry.names():
        facts = model_registry.describe(name)
        entry = (facts["parameters"], name)
        kind = facts["model_type"]
        smallest[kind] = min(smallest.get(kind, entry), entry)
    return {kind: name for kind, (_, name) in smallest.items()}


@cache
def estimate(kind: str) -> genz_core.Estimate:
    """The smallest model of a kind, at all loads."""
    return genz_core.estimate(
        model_registry.load(family_models()[kind]),
        hardware_db.load("h100"),
        Workload(BATCH, ISL, OSL),
        Parallelism(),
        hardware_db.load_engine("vllm"),
        on_error="status",
    )


every_family = for_every(sorted({one.model_type for one in shipped_models().values()}), by_day=12)


def test_the_families_are_many():
    assert len(family_models()) >= 60


@every_family
def test_parts_and_waits_sum_to_each_step(kind):
    priced = estimate(kind)
    for step in (priced.prefill, priced.decode):
        parts = sum(part.sum(axis=0) for part in step.parts().values())
        total = parts + step.pipeline_s + step.host_s + step.learned_s
        assert total == pytest.approx(step.total_s, rel=1e-9)
        table = step.table(3)
        assert sum(table["predicted_s"]) == pytest.approx(float(step.operators_s[:, 3].sum()))
        assert sum(table["share"]) == pytest.approx(1.0)


@every_family
def test_the_terms_of_every_operator_sum_to_its_price(kind):
    priced = estimate(kind)
    for step in (priced.prefill, priced.decode):
        for row in range(len(step.graph.ops)):
            explanation = step.explain(row, 3)
            total = sum(explanation.terms.values())
            assert total == pytest.approx(float(step.expected_s[row, 3]), rel=1e-9, abs=1e-15)


@every_family
def test_nothing_is_faster_than_its_bound(kind):
    priced = estimate(kind)
    for step in (priced.prefill, priced.decode):
        assert np.all(step.expected_s >= step.bound_s)
        assert np.all(step.total_s >= step.bound_total_s)
        assert np.all(step.bound_total_s > 0)


@for_every(("bart", "m2m_100", "t5", "t5gemma", "whisper", "llama"))
def test_an_operator_without_work_takes_no_time(kind):
    """An encoder has nothing to read while its decoder generates."""
    for step in (estimate(kind).prefill, estimate(kind).decode):
        assert not np.any(step.expected_s[step.bound_s == 0.0])


@every_family
def test_more_work_never_takes_less_time(kind):
    priced = estimate(kind)
    for step in (priced.prefill, priced.decode):
        assert np.all(np.diff(step.total_s - step.learned_s) >= 0)
        assert np.all(np.diff(step.total_s) >= -0.02 * step.total_s[1:])
    assert np.all(np.diff(priced.memory.total_bytes) >= 0)


@every_family
def test_each_load_is_priced_as_it_is_alone(kind):
    priced = estimate(kind)
    model: Model = priced.model
    for at in (0, 3):
        load = Workload(int(BATCH[at]), int(ISL[at]), int(OSL[at]))
        alone = genz_core.estimate(
            model, priced.system, load, engine=priced.engine, on_error="status"
        )
        assert priced.prefill.expected_s[:, at] == pytest.approx(
            alone.prefill.expected_s[:, 0], rel=1e-9
        )
        assert priced.tpot_s[at] == pytest.approx(alone.tpot_s[0], rel=1e-9, nan_ok=True)
