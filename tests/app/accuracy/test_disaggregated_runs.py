"""Measured runs with separate prefill workers: protocol, prices, and how errors are counted."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from app.accuracy import disaggregated_runs as runs
from app.accuracy.measured_points import measured_rows
from app.simulation import points
from genz_core.errors import InvalidValue

ROWS = {row["id"]: row for row in measured_rows("disaggregated")}


def test_every_row_counts_its_devices_and_splits_its_experts_over_them():
    assert len(ROWS) == 216
    for row in ROWS.values():
        n = {
            name: int(row[name])
            for name in row
            if name.endswith(("tp", "dp", "pp", "ep")) and row[name]
        }
        prefill = n["prefill_tp"] * n["prefill_dp"] * n["prefill_pp"]
        decode = n["tp"] * n["dp"] * n["pp"]
        total = int(row["prefill_workers"]) * prefill + int(row["replicas"]) * decode
        assert int(row["devices"]) == total, row["id"]
        assert n["prefill_moe_tp"] * n["prefill_ep"] == prefill
        assert n["moe_tp"] * n["ep"] == decode


def test_runs_are_asked_as_the_benchmark_ran_them():
    for row in ROWS.values():
        question = points.parse(runs.asked(row)).question
        users = int(row["concurrency"])
        assert (question.concurrency, question.length_ratio, question.burst_start) == (
            users, 0.8, True
        )  # fmt: skip
        assert question.requests == max(5 * users, 64)
        drafts = int(row["mtp_tokens"] or 0)
        assert bool(question.speculation) == (drafts > 0)
        if drafts:
            assert question.draft_tokens == drafts
        slots = int(row["eplb_slots"] or 0)
        assert question.redundant_experts == max(slots - 256, 0)


@pytest.mark.parametrize("drafts", ["", "0"])
def test_zero_or_missing_draft_tokens_mean_no_drafting(drafts):
    plain = dict(runs.asked(ROWS["d0002"]), requests="8", concurrency="8", mtp_tokens="")
    asked = points.simulate_row(plain | {"draft_tokens": drafts}, "")
    assert (
        asked["status"] == "ok"
        and asked["tpot_mean_s"] == points.simulate_row(plain, "")["tpot_mean_s"]
    )


def test_a_prefill_worker_splits_its_experts_as_it_is_told():
    row = dict(runs.asked(ROWS["d0002"]), requests="8", concurrency="8", prefill_ep="")
    split = {
        name: points.simulate_row(row | {"prefill_moe_tp": name}, "") for name in ("1", "4", "3")
    }
    assert split["1"]["status"] == split["4"]["status"] == "ok"
    assert split["1"]["ttft_mean_s"] != split["4"]["ttft_mean_s"]
    same = points.simulate_row(row | {"prefill_ep": "4"}, "")
    assert same["ttft_mean_s"] == split["1"]["ttft_mean_s"]
    assert split["3"]["status"] == "invalid_parallelism"
    assert "prefill_moe_tp x prefill_ep = 3 x 1 must equal" in split["3"]["message"]


def test_slots_below_the_experts_are_refused_with_their_number():
    with pytest.raises(InvalidValue, match=r"eplb_slots = 200: .* has 256 experts per layer"):
        points.parse({"model": "deepseek-ai/DeepSeek-V3", "eplb_slots": "200", "concurrency": "1"})


def row(engine, tpot, ttft, status="ok"):
    ends = {"predicted_tpot_s": tpot, "predicted_ttft_s": ttft}
    measured = {"measured_tpot_s": 1.0, "measured_ttft_s": 1.0}
    return {
        "engine": engine,
        "system": "s",
        "model": "m",
        "status": status,
        "message": "",
        "step_s": 0.1,
        "hand_over_steps": 2.0,
        **ends,
        **measured,
    }


def test_errors_are_of_what_is_priced_and_the_rest_is_said():
    found = [row("a", 1.1, 2.0), row("a", 0.7, 0.5), row("b", None, None, "out_of_memory")]
    whole = runs.errors(found)
    assert whole == {
        "runs": 3, "priced %": 66.7, "TPOT mean %": 20.0, "TPOT median %": 20.0, "TPOT ratio": 0.9,
        "TTFT mean %": 75.0, "TTFT median %": 75.0, "TTFT ratio": 1.25,
    }  # fmt: skip
    assert runs.errors(found[2:])["TPOT mean %"] is None
    assert [one["engine"] for one in runs.group_table(found, ("engine",))] == ["a", "b"]
    assert runs.refusals(found) == [{"status": "out_of_memory", "runs": 1, "reason": ""}]
    table = runs.split_table(found, found[:2])
    assert [one["split"] for one in table] == [runs.AS_SHIPPED, *runs.SPLITS]
    assert {one["runs"] for one in table[1:]} == {2}


def test_what_is_left_out_is_priced_with_the_hand_over_that_others_teach():
    """Two engines whose first tokens come five and ten steps later than without a hand-over."""
    late = {"a": 5, "b": 10}
    found = [row(engine, 1.0, 1.0 - 0.1 * (steps - 2)) for engine, steps in late.items()]
    assert [runs.hand_over_steps([one]) for one in found] == [5, 10]
    for one in runs.left_out(found, "engine"):
        own, taught = late[one["engine"]], late["b" if one["engine"] == "a" else "a"]
        assert one["predicted_ttft_s"] == pytest.approx(1.0 + 0.1 * (taught - own))
        assert one["hand_over_steps"] == taught


def test_a_run_is_priced_with_and_without_what_runs_teach():
    shipped, physics = (runs.record(ROWS["d0072"], learned=learned) for learned in (True, False))
    assert shipped["status"] == physics["status"] == "ok"
    assert shipped["predicted_tpot_s"] != physics["predicted_tpot_s"]


def test_requests_that_were_not_simulated_are_as_those_in_the_middle():
    """Ten requests a user: of five that were simulated the fourth stands for six."""

    class Answers:
        arrival_s = np.arange(20.0)
        ttft_s = np.array([9.0] * 4 + [6.0] * 4 + [4.0] * 4 + [2.0, 3.0, 2.0, 3.0] + [1.0] * 4)
        tpot_s = np.ones(20)

    def run(users, values=Answers):
        return SimpleNamespace(question=SimpleNamespace(concurrency=users), simulation=values)

    expected = (9.0 + 6.0 + 4.0 + 6 * 2.5 + 1.0) / 10
    assert runs.mean_of_all(run(4), "ttft_s") == pytest.approx(expected)
    assert runs.mean_of_all(run(1), "ttft_s") == pytest.approx(Answers.ttft_s[:10].mean())
    assert runs.mean_of_all(run(4), "tpot_s") == 1.0
