"""What a plan says of itself beside its table."""

from __future__ import annotations

import csv
from functools import cache

import pytest

from app.decide.report import plan_words
from app.planning.document import document
from app.planning.plan_text import launch_lines, long_wait, sentences
from app.planning.result import Planned, brief
from tests.app.planning.asking import plan

LLAMA = "meta-llama/Llama-3.1-8B"


@pytest.mark.parametrize(
    ("target", "users", "waits"),
    [
        ("interactivity > 30", 2000, True),
        ("interactivity > 30, ttft < 600s", 2000, False),
        ("interactivity > 30", 4, False),
    ],
)
def test_a_long_wait_that_no_target_limits_is_said(target: str, users: int, waits: bool):
    planned = plan(
        LLAMA, system="h100", engine="vllm", concurrency=users, target=target, devices="1:1",
        pools="aggregated", max_num_seqs=128, simulate=False,
    )  # fmt: skip
    named = document(planned.answer)
    assert named["plans"]
    assert bool(long_wait(named)) == waits
    assert ("no target limits the wait" in "\n".join(sentences(named))) == waits


def test_of_overloaded_deployments_the_one_that_sustains_most_is_named():
    planned = plan(
        LLAMA, system="h100", engine="vllm", rate=1000, target="tpot < 30ms", devices="4:4",
        pools="aggregated", simulate=False,
    )  # fmt: skip
    candidates, (loser,) = planned.answer.found.candidates, planned.answer.losers
    assert set(candidates.status.tolist()) == {"overloaded"} and loser.at is not None
    load = candidates.columns["utilisation"]
    assert load[loser.at] == load.min() < load.max()


def test_a_load_that_nothing_sustains_is_said_without_targets():
    planned = plan(
        LLAMA, system="h100", engine="vllm", rate=5000, devices="8:8",
        pools="aggregated,disaggregated", simulate=False,
    )  # fmt: skip
    said = "\n".join(sentences(document(planned.answer)))
    assert "no deployment sustains the load" in said and "every target" not in said
    whys = [loser.why for loser in planned.answer.losers]
    assert any(why.startswith("does not sustain the load (the same") for why in whys)
    assert not any("replicas does not" in why for why in whys)


@pytest.mark.parametrize(("replicas", "shown"), [(8, 8), (101, 3)])
def test_of_many_equal_servers_the_first_and_the_last_line_are_shown(replicas: int, shown: int):
    servers = [f"vllm serve m --port {8001 + at}" for at in range(replicas)]
    best = {
        "launch": "\n".join([*servers, "router --port 8000"]),
        "launch_servers": [{"count": replicas}],
    }
    *lines, router = launch_lines(best)
    assert len(lines) == shown and (lines[0], lines[-1]) == (servers[0], servers[-1])
    assert router == "router --port 8000"
    assert replicas == 8 or lines[1] == "# 99 more like these, on the ports between"


@cache
def capped() -> Planned:
    """The plan of a server whose batch is limited for the target."""
    return plan(
        LLAMA, system="h100", engine="vllm", concurrency=64, target="tpot < 8ms", devices="1:1",
        max_num_batched_tokens=4096, simulate=False,
    )  # fmt: skip


def test_a_limit_of_the_batch_is_shown_with_its_plan():
    best = capped().best
    assert f"--max-num-seqs {best['max_num_seqs']}" in best["launch"]
    assert brief(best)["max_num_seqs"] == plan_words(best)["Max num seqs"] == best["max_num_seqs"]
    assert best["max_num_seqs"] < 64


def test_whether_a_plan_meets_its_targets_is_the_second_column_of_its_tables():
    best = capped().best
    assert list(brief(best))[:2] == ["system", "probability"]
    assert list(plan_words(best))[1] == "Probability"


def test_the_guard_prices_the_server_with_the_limits_it_was_started_with():
    best = capped().best
    assert best["max_num_seqs"] < 64 and best["max_num_batched_tokens"] == 4096
    assert f"--max-num-seqs {best['max_num_seqs']} " in best["guard"]
    assert "--max-num-batched-tokens 4096 " in best["guard"]
    alone = plan(LLAMA, system="h100", engine="vllm", rate=1.0, devices="1:1", simulate=False).best
    assert alone["guard"] and "--max-num" not in alone["guard"]


def test_a_suggested_measurement_draws_the_lengths_of_the_load():
    words = capped().measurement["command"].split()
    longest, ratio = (float(words[words.index(name) + 1]) for name in ("--isl", "--length-ratio"))
    assert longest * (1.0 + ratio) / 2.0 == pytest.approx(1024, rel=1e-3)
    assert longest == pytest.approx(1.1 * 1024, rel=1e-3)
    (row, *_) = csv.DictReader(capped().measurement["points"].splitlines())
    assert (float(row["isl"]), float(row["length_ratio"])) == (longest, ratio)


@pytest.mark.parametrize(
    ("model", "given", "why"),
    [
        (LLAMA, {"tp": 3}, "tp 3 does not divide the 32 attention heads"),
        ("deepseek-v3", {"tp": 8, "ep": 7}, "ep 7 does not divide tp x dp = 8"),
        ("deepseek-v3", {"tp": 8, "ep": 4}, "vllm has no options for these degrees"),
        ("deepseek-v3", {"tp": 8, "ep": 7, "engine": "sglang"}, "ep 7 does not divide tp x dp = 8"),
        (LLAMA, {"tp": 16}, "cannot be split over so few devices"),
    ],
)
def test_stated_degrees_that_do_not_split_the_model_are_refused_with_its_reason(model, given, why):
    asked = {"system": "h100", "engine": "vllm", "devices": "1:8", "pools": "aggregated", **given}
    planned = plan(model, concurrency=8, simulate=False, **asked)
    (loser,) = planned.answer.losers
    assert why in loser.why


@pytest.mark.parametrize(
    ("price", "vain"), [("h200=3", True), ("h200=3,h100=2", True), ("h100=2", False), (2.0, False)]
)
def test_a_price_of_a_system_that_is_not_searched_is_noted(price, vain):
    planned = plan(LLAMA, system="h100", engine="vllm", concurrency=8, devices="1:1", price=price,
                   simulate=False)  # fmt: skip
    note = "the price of h200-sxm-141gb has no effect: it is not among the systems"
    assert (note in planned.answer.notes) == vain


def test_a_plan_that_is_as_sure_but_ends_later_is_said_to():
    planned = plan(
        LLAMA, system="h100", engine="vllm,trtllm", concurrency=64, target="tpot < 14ms",
        devices="1:1", pools="aggregated", rank="devices", simulate=False,
    )  # fmt: skip
    best, other = planned.plans
    assert best["devices"] == other["devices"] and best["e2e_s"] < 0.99 * other["e2e_s"]
    said = "\n".join(sentences(document(planned.answer)))
    assert "but its requests take" in said and "equally good" not in said
