"""Disaggregated prefill as an option of the search."""

from __future__ import annotations

import numpy as np
import pytest

from app.planning import disaggregated
from app.planning.families import families
from app.planning.search import search
from app.planning.space import shapes
from app.wording.quantities import SURE
from hardware_db.intervals import Kind, kind_interval
from tests.app.planning.asking import asked, plan

MODEL = "Qwen/Qwen3-32B"


def question(**changes):
    given = {"system": "h200", "engine": "vllm", "devices": (2, 8), "pp": 1, "rate": 5.0}
    return asked(MODEL, **{**given, "pools": "disaggregated", "simulate": False, **changes})


def test_every_number_of_workers_that_fits_the_devices_is_there_once():
    one = question()
    (family,), _ = families(one)
    degrees = shapes(family.resolved.model, family.system, one)
    table = disaggregated.numbers_of_workers(degrees, degrees, one.question)
    sizes = degrees[0]
    rows = {tuple(column) for column in table.T}
    assert len(rows) == table.shape[1]
    wanted = {
        (float(i), float(j), float(n), float(m))
        for i in range(sizes.size)
        for j in range(sizes.size)
        for n in range(1, 9)
        for m in range(1, 9)
        if 2 <= n * sizes[i] + m * sizes[j] <= 8
    }
    assert rows == wanted


@pytest.mark.parametrize("load", [{"rate": 10.0}, {"rate": None, "concurrency": 50}])
def test_only_workers_that_gain_nothing_are_left_out(load):
    one = question(devices=(2, 16), **load)
    (family,) = disaggregated.pairs(families(one)[0], one)
    degrees = shapes(family.resolved.model, family.system, one)
    table = disaggregated.numbers_of_workers(degrees, degrees, one.question)
    every = disaggregated.of_table(family, degrees, degrees, table)
    kept = disaggregated.price(family, one)
    assert (kept.status != "ok").sum() == (every.status != "ok").sum()
    assert (kept.status == "ok").sum() < 0.7 * (every.status == "ok").sum()
    names = ("tp", "prefill_tp", "replicas", "prefill_workers", "devices", "ttft_s", "tpot_s")
    left = np.stack([kept.columns[name][kept.status == "ok"] for name in names])
    for row in np.stack([every.columns[name][every.status == "ok"] for name in names]).T:
        fewer = (left[:2] == row[:2, None]).all(axis=0) & (left[2:5] <= row[2:5, None]).all(axis=0)
        assert (fewer & (left[5:] <= row[5:, None] * 1.0202).all(axis=0)).any(), row


@pytest.mark.parametrize("load", [{"rate": 10.0}, {"rate": None, "concurrency": 50}])
def test_the_best_pair_is_that_of_looking_at_each(load):
    found = search(question(target="ttft < 1s, tpot < 40ms", **load))
    columns = found.candidates.columns
    good = [
        at
        for at in range(len(found.candidates))
        if found.candidates.status[at] == "ok"
        and columns["ttft_s"][at] <= 1.0
        and columns["tpot_s"][at] <= 0.04
    ]
    assert good and sorted(np.flatnonzero(found.feasible)) == good
    expected = columns["usd_per_mtok"] / np.minimum(found.useful, SURE)
    best = min(good, key=lambda at: expected[at])
    assert expected[found.order[0]] == pytest.approx(expected[best])
    assert np.all(np.isfinite(found.probability))
    assert all(family.validated for family in found.candidates.families)


def test_pools_of_two_systems_are_tried_when_asked_for():
    alone = search(question(system="h200,b200"))
    mixed = search(question(system="h200,b200", cross_systems=True))
    assert len(alone.candidates.families) == 2 and len(mixed.candidates.families) == 4
    both = ("h200-sxm-141gb", "b200-sxm-180gb")
    pools = {(f.prefill.system.slug, f.system.slug) for f in mixed.candidates.families}
    assert pools == {(first, second) for first in both for second in both}


def test_a_disaggregated_plan_says_what_both_pools_are_and_how_far_off_such_runs_were():
    planned = plan(
        MODEL, systems="h200", devices="2:8", engine="vllm", rate=5, kind="disaggregated", top=2
    )
    best = planned.best
    pool = best["prefill"]
    assert best["kind"] == "disaggregated" and pool["workers"] >= 1
    assert best["devices"] == pool["workers"] * pool["tp"] * pool["pp"] * pool["dp"] + (
        best["replicas"] * best["tp"] * best["pp"] * best["dp"]
    )
    known = kind_interval("tpot_s", Kind("pools", best["prefill"]["workers"]))
    assert best["probability_validated"] is True and "tpot_s" not in best["not_validated"]
    assert best["tpot_high_s"] == pytest.approx(best["tpot_s"] * known.high)
    assert best["launch"].count("vllm serve") == pool["workers"] + best["replicas"]
    assert "NixlConnector" in best["launch"]
    assert best["simulated_tpot_s"] == pytest.approx(best["tpot_s"], rel=0.3)
