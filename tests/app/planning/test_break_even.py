"""Drafts in disaggregated serving, where either stops paying off, and combinations without
validation.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from app.planning.candidates import COLUMNS, Candidates
from app.planning.families import families
from app.planning.probability import meets
from app.planning.targets import parse_targets
from hardware_db.intervals import USUAL_NOVELTY
from tests.app.planning.asking import asked, plan

MODEL = "meta-llama/Llama-3.1-8B"
ASKED = {"systems": "h100", "engine": "vllm", "devices": "1:4", "rate": 8, "isl": 2048,
         "speculation": "none,ngram", "acceptance": "0.5", "target": "tpot < 30ms"}  # fmt: skip


@pytest.fixture(scope="module")
def planned():
    return plan(MODEL, pays=True, top=3, kind="aggregated,disaggregated", **ASKED)


@pytest.mark.slow
def test_workers_that_decode_apart_may_draft(planned):
    candidates = planned.answer.short.candidates
    both = [family.prefill is not None and family.speculation is not None
            for family in candidates.families]  # fmt: skip
    assert sum(both) == 1
    plain = [family.prefill is not None and family.speculation is None
             for family in candidates.families]  # fmt: skip
    figures = candidates.columns

    def least(kinds):
        chosen = np.isin(candidates.family, np.flatnonzero(kinds)) & (candidates.status == "ok")
        return figures["tpot_s"][chosen].min(), chosen

    drafted, chosen = least(both)
    assert drafted < least(plain)[0]
    assert np.all(figures["tpot_s"][chosen] >= figures["bound_tpot_s"][chosen])


@pytest.mark.slow
def test_the_simulation_of_drafting_pools_stands_by_the_closed_form():
    simulated = plan(MODEL, top=20, **ASKED | {"kind": "disaggregated"})
    closed = plan(MODEL, simulate=False, **ASKED | {"kind": "disaggregated", "top": 12})

    def drafting(result):
        degrees = ("replicas", "tp", "pp", "dp")
        return {
            (str(row["prefill"]), *(row[name] for name in degrees)): row["tpot_s"]
            for row in result.rows
            if row["speculation"] and row["prefill"]
        }

    one, other = drafting(simulated), drafting(closed)
    same = set(one) & set(other)
    assert len(same) >= 3
    for what in same:
        assert one[what] == pytest.approx(other[what], rel=0.25), what


def test_where_drafts_stop_paying_is_where_their_gain_ends(planned):
    said = {one["words"].split(" (")[0]: one for one in planned.to_dict()["pays"]}
    rows = said["drafts"]["rows"]
    gains = [row["gain"] for row in rows if row["gain"] is not None]
    assert gains[0] > 1.0 and gains[0] == max(gains)
    for row in rows:
        if row["gain"] is not None:
            assert row["gain"] == pytest.approx(row["tpot_s_without"] / row["tpot_s_with"])
    ends = [row["open_requests"] for row in rows if row["gain"] is not None and row["gain"] > 1.005]
    assert f"{ends[-1]:g} open requests" in said["drafts"]["words"]


def test_pools_are_compared_by_the_devices_that_either_needs(planned):
    (pools,) = [one for one in planned.to_dict()["pays"] if "prefill pool" in one["words"]]
    undrafted = ASKED | {"speculation": "", "acceptance": None, "kind": "aggregated"}
    alone = plan(MODEL, simulate=False, **undrafted)
    asked = next(row for row in pools["rows"] if row["requests_per_s"] == 8)
    assert asked["devices_without"] == alone.to_dict()["fewest_devices"]["devices"]
    counts = [row["devices_without"] for row in pools["rows"] if row["devices_without"]]
    assert counts == sorted(counts)
    assert plan(MODEL, simulate=False, **ASKED).to_dict()["pays"] == []


def test_pools_of_a_scaled_system_have_no_validated_probability():
    load = {"engine": "vllm", "rate": 1.0, "target": "tpot < 30ms", "simulate": False}
    planned = plan(
        MODEL, system="h100", devices="2:2", pools="disaggregated", bandwidth=2.0, **load
    )
    (best, *_) = planned.to_dict()["plans"]
    assert best["probability"] is None and not best["probability_validated"]
    assert best["not_validated"] == "ttft_s tpot_s"


def test_what_nothing_validated_has_a_wider_error_and_says_so():
    (family,), _ = families(asked(MODEL, engine="vllm", rate=1.0))
    (other,), _ = families(asked(MODEL, engine="vllm", rate=1.0, turns=3))
    assert other.beyond == ("sessions of 3 turns",)
    assert family.validated and not other.validated
    for name in ("ttft_s", "tpot_s"):
        own, wide = family.error_model()[name], other.error_model()[name]
        assert math.isclose(math.log(wide.high), 2.0 * math.log(own.high), abs_tol=1e-12)
        assert math.isclose(math.log(wide.low), 2.0 * math.log(own.low), abs_tol=1e-12)
    columns = {name: np.full(2, np.nan) for name in COLUMNS} | {
        "tpot_s": np.array([0.02, 0.02]), "ttft_s": np.array([0.1, 0.1]),
        "utilisation": np.array([0.1, 0.1]), "users": np.ones(2),
        **dict.fromkeys(("ttft_novelty", "tpot_novelty"), np.full(2, USUAL_NOVELTY)),
    }  # fmt: skip
    two = Candidates((family, other), np.array([0, 1]), columns, np.array(["ok", "ok"]), {})
    for target in ("tpot < 40ms", "ttft < 400ms"):
        known, assumed = meets(two, parse_targets(target), family.question)
        assert assumed < known
