"""The search: every deployment once, priced as alone, and the best as by looking at each."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from app.planning import aggregated
from app.planning.candidates import COLUMNS, joined
from app.planning.demand import Demand
from app.planning.families import families
from app.planning.search import Question, fewest_devices, search
from app.planning.shortlist import shortlist
from app.planning.space import Space, replicated, shapes
from app.planning.targets import parse_targets
from genz_core.errors import InvalidValue

DENSE, EXPERTS = "Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B"
TARGETS = parse_targets("ttft_p95 < 800ms, tpot < 40ms")


def asked(model=DENSE, demand=None, targets=TARGETS, **space):
    space = {"systems": ("h200", "b200"), "engines": ("vllm",), "devices": (1, 16), **space}
    return Question(model, Space(**space), demand or Demand(rate=10.0), targets, simulate=False)


@pytest.mark.parametrize("model", [DENSE, EXPERTS])
@pytest.mark.parametrize("demand", [Demand(rate=8.0), Demand(concurrency=40)])
def test_deployments_side_by_side_are_priced_as_alone(model, demand):
    space = Space(("h200",), ("vllm",), devices=(1, 8), max_num_seqs=(0, 16))
    (family,), _ = families(model, space)
    table = replicated(shapes(family.resolved.model, family.system, space), space, demand)
    chosen = table[:, :: max(table.shape[1] // 12, 1)]
    together = aggregated.of_table(family, chosen, demand)
    for at in range(chosen.shape[1]):
        alone = aggregated.of_table(family, chosen[:, [at]], demand)
        assert alone.status[0] == together.status[at]
        for name in COLUMNS:
            expected = together.columns[name][at]
            assert alone.columns[name][0] == pytest.approx(expected, rel=1e-9, nan_ok=True)


@pytest.mark.parametrize(
    "question",
    [
        asked(),
        asked(targets=()),
        asked(demand=Demand(concurrency=100), max_num_seqs=(0, 8, 32)),
        asked(EXPERTS, Demand(concurrency=300), devices=(1, 64)),
        asked(EXPERTS, Demand(concurrency=5000), devices=(1, 128)),
    ],
)
def test_the_best_is_that_of_looking_at_every_deployment(question):
    found = search(question)
    rows = [found.candidates.row(at) for at in range(len(found.candidates))]
    good = [
        at
        for at, row in enumerate(rows)
        if found.candidates.status[at] == "ok"
        and all(bool(t.met(np.array([row[t.figure.column]]))[0]) for t in question.targets)
    ]
    assert sorted(np.flatnonzero(found.feasible)) == good
    if not good:
        assert not found.order.size
        return
    least = min(rows[at]["usd_per_mtok"] for at in good)
    assert rows[found.order[0]]["usd_per_mtok"] == pytest.approx(least, rel=1e-9)
    costs = [rows[at]["usd_per_mtok"] for at in found.order]
    assert all(later >= before * (1 - 1e-9) for before, later in pairwise(costs))
    fewest = fewest_devices(found)
    assert rows[fewest]["devices"] == min(rows[at]["devices"] for at in good)


def test_a_space_holds_every_sound_shape_and_number_of_replicas_once():
    space = Space(("h200",), ("vllm",), devices=(3, 8))
    (family,), _ = families(DENSE, space)
    table = replicated(shapes(family.resolved.model, family.system, space), space, Demand(rate=1))
    devices = table[4] * table[5]
    assert devices.min() >= 3 and devices.max() <= 8
    rows = {tuple(column) for column in table.T}
    assert len(rows) == table.shape[1]
    wanted = {
        (tp, pp, replicas)
        for tp in (1, 2, 4, 8)
        for pp in (1, 2, 4)
        for replicas in range(1, 9)
        if 3 <= tp * pp * replicas <= 8
    }
    assert {(int(c[0]), int(c[1]), int(c[5])) for c in table.T} == wanted


@pytest.mark.parametrize("model", [DENSE, EXPERTS, "deepseek-ai/DeepSeek-V3"])
@pytest.mark.parametrize("demand", [Demand(rate=30.0), Demand(concurrency=500)])
def test_nothing_recommended_is_out_of_memory_overloaded_or_beyond_the_bound(model, demand):
    question = asked(model, demand, (), systems=("h100", "mi300x"), devices=(1, 32))
    found = search(question)
    for plan in shortlist(found).plans:
        row = found.candidates.row(plan.at)
        assert found.candidates.status[plan.at] == "ok"
        assert row["memory_bytes"] <= row["usable_bytes"] * (1 + 1e-9)
        assert row["ttft_s"] >= row["bound_ttft_s"] * (1 - 1e-9)
        assert row["tpot_s"] >= row["bound_tpot_s"] * (1 - 1e-9)
        assert demand.closed or row["utilisation"] < 1.0
        assert 1 <= row["devices"] <= 32


def test_stricter_targets_never_make_a_cheaper_plan():
    costs = []
    for most in (80, 60, 40, 30, 25):
        found = search(asked(targets=parse_targets(f"tpot < {most}ms")))
        if found.order.size:
            costs.append(float(found.candidates.columns["usd_per_mtok"][found.order[0]]))
    assert len(costs) > 2 and costs == sorted(costs)


def test_candidates_of_several_families_keep_their_own():
    parts = []
    space = Space(("h200", "b200"), ("vllm",), devices=(1, 2))
    for family in families(DENSE, space)[0]:
        parts.append(aggregated.price(family, space, Demand(rate=1000.0)))
    together = joined(parts)
    assert len(together) == sum(map(len, parts))
    assert {together.of(at).system.slug for at in range(len(together))} == {
        "h200-sxm-141gb", "b200-sxm-180gb"
    }  # fmt: skip
    assert all(together.messages[at] for at in np.flatnonzero(together.status == "overloaded"))


@pytest.mark.parametrize(
    ("keywords", "said"),
    [
        ({"devices": (4, 2)}, "devices 4:2"),
        ({"devices": (1, 10**9)}, "devices"),
        ({"kinds": ("split",)}, "aggregated or disaggregated"),
        ({"prices": {"h200": -1.0}}, "price of h200"),
        ({"systems": ()}, "at least one system"),
    ],
)
def test_a_space_that_cannot_be_is_refused(keywords, said):
    with pytest.raises(InvalidValue, match=said):
        Space(**{"systems": ("h200",), **keywords})
