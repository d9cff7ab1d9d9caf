"""The search: every deployment once, priced as if alone, the best found as by exhaustive
comparison.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from app.planning import aggregated
from app.planning.candidates import COLUMNS, joined
from app.planning.families import families
from app.planning.ranking import SURE
from app.planning.search import fewest_devices, search
from app.planning.shortlist import shortlist
from app.planning.space import replicated, shapes
from genz_core.errors import InvalidValue
from tests.app.planning.asking import asked as ask

DENSE, EXPERTS = "Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B"
TARGETS = "ttft_p95 < 800ms, tpot < 40ms"


def asked(model=DENSE, load=None, target=TARGETS, **more):
    given = {"system": ["h200", "b200"], "engine": "vllm", "devices": (1, 16), **more}
    return ask(model, **given, **(load or {"rate": 10.0}), target=target, simulate=False)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("model", [DENSE, EXPERTS])
@pytest.mark.parametrize("load", [{"rate": 8.0}, {"concurrency": 40}])
def test_deployments_side_by_side_are_priced_as_alone(model, load):
    question = ask(
        model, **load, system="h200", engine="vllm", devices=(1, 8), max_num_seqs=(0, 16)
    )
    (family,), _ = families(question)
    table = replicated(shapes(family.resolved.model, family.system, question), question)
    chosen = table[:, :: max(table.shape[1] // 12, 1)]
    together = aggregated.of_table(family, chosen)
    for at in range(chosen.shape[1]):
        alone = aggregated.of_table(family, chosen[:, [at]])
        assert alone.status[0] == together.status[at]
        for name in COLUMNS:
            expected = together.columns[name][at]
            assert alone.columns[name][0] == pytest.approx(expected, rel=1e-9, nan_ok=True)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    "question",
    [
        asked(),
        asked(target=""),
        asked(load={"concurrency": 100}, max_num_seqs=(0, 8, 32)),
        asked(EXPERTS, {"concurrency": 300}, devices=(1, 64)),
        pytest.param(
            asked(EXPERTS, {"concurrency": 5000}, devices=(1, 128)), marks=pytest.mark.slow
        ),
    ],
)
def test_the_best_is_that_of_looking_at_every_deployment(question):
    found = search(question)
    rows = [found.candidates.row(at) for at in range(len(found.candidates))]
    good = [
        at
        for at, row in enumerate(rows)
        if found.candidates.status[at] == "ok"
        and all(bool(t.met(np.array([row[t.figure.column]]))[0]) for t in found.targets)
        and (found.probability[at] >= SURE or not any(t.figure.percentile for t in found.targets))
    ]
    assert sorted(np.flatnonzero(found.feasible)) == good
    if not good:
        assert not found.order.size
        return
    # cost divided by the probability to be useful, of which no more is claimed than 0.95;
    # without targets, the cost
    chance = np.minimum(np.nan_to_num(found.useful, nan=0.5), 0.95)
    chance = chance if found.targets else np.ones(len(rows))
    costs = [rows[at]["usd_per_mtok"] / chance[at] for at in found.order]
    least = min(rows[at]["usd_per_mtok"] / chance[at] for at in good)
    assert costs[0] == pytest.approx(least, rel=1e-9)
    assert all(later >= before * (1 - 1e-9) for before, later in pairwise(costs))
    fewest = fewest_devices(found)
    assert rows[fewest]["devices"] == min(rows[at]["devices"] for at in good)


def test_a_space_holds_every_sound_shape_and_number_of_replicas_once():
    question = asked(load={"rate": 1}, system="h200", devices=(3, 8))
    (family,), _ = families(question)
    table = replicated(shapes(family.resolved.model, family.system, question), question)
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


@pytest.mark.by_day(2)
@pytest.mark.parametrize("model", [DENSE, EXPERTS, "deepseek-ai/DeepSeek-V3"])
@pytest.mark.parametrize("load", [{"rate": 30.0}, {"concurrency": 500}])
def test_nothing_recommended_is_out_of_memory_overloaded_or_beyond_the_bound(model, load):
    question = asked(model, load, "", system=["h100", "mi300x"], devices=(1, 32))
    found = search(question)
    for plan in shortlist(found).plans:
        row = found.candidates.row(plan.at)
        assert found.candidates.status[plan.at] == "ok"
        assert row["memory_bytes"] <= row["usable_bytes"] * (1 + 1e-9)
        assert row["ttft_s"] >= row["bound_ttft_s"] * (1 - 1e-9)
        assert row["tpot_s"] >= row["bound_tpot_s"] * (1 - 1e-9)
        assert "concurrency" in load or row["utilisation"] < 1.0
        assert 1 <= row["devices"] <= 32


def test_stricter_targets_never_make_a_cheaper_plan():
    costs = []
    for most in (80, 60, 40, 30, 25):
        found = search(asked(target=f"tpot < {most}ms"))
        if found.order.size:
            costs.append(float(found.candidates.columns["usd_per_mtok"][found.order[0]]))
    assert len(costs) > 2 and costs == sorted(costs)


def test_of_equally_good_plans_the_one_whose_requests_end_sooner_is_first():
    """A small batch has the better TPOT, while everyone else waits for a place in it."""
    given = {"system": "h200", "engine": "vllm", "devices": (1, 1), "rank": "devices"}
    for target in ("", "tpot < 200ms"):
        found = search(asked(load={"concurrency": 64}, target=target, **given))
        best, columns = found.order[0], found.candidates.columns
        ends = columns["e2e_s"][found.feasible]
        assert columns["e2e_s"][best] == ends.min() < ends.max() / 2
        assert columns["max_num_seqs"][best] > 64
    by_tpot = search(asked(load={"concurrency": 64}, target="", **{**given, "rank": "tpot"}))
    assert by_tpot.candidates.columns["max_num_seqs"][by_tpot.order[0]] == 4


def test_candidates_of_several_families_keep_their_own():
    parts = []
    question = asked(load={"rate": 1000.0}, devices=(1, 2))
    for family in families(question)[0]:
        parts.append(aggregated.price(family, question))
    together = joined(parts)
    assert len(together) == sum(map(len, parts))
    assert {together.of(at).system.slug for at in range(len(together))} == {
        "h200-sxm-141gb", "b200-sxm-180gb"
    }  # fmt: skip
    assert all(together.messages[at] for at in np.flatnonzero(together.status == "overloaded"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"devices": (4, 2)}, "devices = "),
        ({"devices": (1, 10**9)}, "devices = "),
        ({"devices": "many"}, "devices = 'many'"),
        ({"pools": "split"}, "choose aggregated, disaggregated"),
        ({"price": "h200=-1"}, "price = -1"),
        ({"system": ["h200"] * 65}, "at most 64"),
    ],
)
def test_a_space_that_cannot_be_is_refused(given, said):
    with pytest.raises(InvalidValue, match=said):
        search(asked(**given))


def test_what_the_question_says_beside_the_search_is_honoured():
    """Candidates have the weights, degrees, limits and factors of their question."""
    plain = search(asked(target="")).candidates
    said = {"weights": "fp8", "tp": 4, "max_num_batched_tokens": 2048, "bandwidth": 0.5}
    found = search(asked(target="", **said)).candidates
    assert {family.formats["weights"] for family in plain.families} == {"bf16"}
    assert {family.formats["weights"] for family in found.families} == {"fp8"}
    assert set(found.columns["tp"]) == {4.0} and set(plain.columns["tp"]) > {4.0}
    for one in found.families:
        (same,) = (f for f in plain.families if str(f.system.slug) == str(one.system.slug)
                   and f.kind == one.kind)  # fmt: skip
        half = same.system.memory_bytes_per_s / 2
        assert one.system.memory_bytes_per_s == pytest.approx(half)
        assert one.question.max_num_batched_tokens == 2048


@pytest.mark.parametrize("said", [{"recv_interval": 16}, {"max_num_batched_tokens": 512},
                                  {"step_scale": 1.5}, {"lora_rank": 16}])  # fmt: skip
def test_a_limit_that_is_stated_changes_the_price(said):
    one, other = (
        search(asked(target="", system="h200", engine="sglang", tp=2, devices=2, **more)).candidates
        for more in ({}, said)
    )
    assert len(one) == len(other)
    assert not np.allclose(one.columns["ttft_s"], other.columns["ttft_s"])


def test_experts_of_a_stated_degree_are_spread_over_the_rest():
    found = search(asked(EXPERTS, target="", moe_tp=2, devices=(1, 8), system="h200")).candidates
    ranks = found.columns["tp"] * found.columns["dp"]
    aggregated_ones = found.columns["prefill_workers"] == 0
    assert np.all(found.columns["ep"][aggregated_ones] * 2 == ranks[aggregated_ones])


def test_every_engine_that_runs_on_a_system_is_tried_unless_one_is_named():
    every = search(asked(engine=None, system="h200", pools="aggregated", target=""))
    assert {family.resolved.engine.name for family in every.candidates.families} == {
        "vllm", "sglang", "trtllm"
    }  # fmt: skip
