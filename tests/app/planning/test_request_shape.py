"""Prefix hits, sessions, several answers, adapters and offload as options of the search."""

from __future__ import annotations

import json
import shlex

import pytest
from typer.testing import CliRunner

from app.cli import cli
from app.planning.demand import lengths
from app.question.question import Question
from genz_core.errors import InvalidValue
from tests.app.planning import asking

MODEL = "meta-llama/Llama-3.1-70B"
ASKED = {"systems": "h100", "engine": "vllm", "devices": "1:16", "rate": 4, "isl": 4096,
         "osl": 256, "target": "tpot < 60ms", "simulate": False}  # fmt: skip


def plan(**more):
    return asking.plan(MODEL, **ASKED | more)


@pytest.fixture(scope="module")
def plain():
    return plan()


def test_a_session_reads_the_new_tokens_of_a_turn():
    """Turns of 100 in and 50 out: prompts of 100, 250, 400, with 0, 150, 300 tokens cached."""

    def of(**shared):
        return lengths(Question(rate=1.0, **{"isl": 100, "osl": 50, "length_ratio": 1.0, **shared}))

    turns, shared, hits = of(turns=3), of(shared_tokens=900), of(isl=1000, prefix_hits=0.25)
    assert (turns.prompt, turns.cached) == (250.0, 150.0)
    assert (shared.prompt, shared.cached) == (1000.0, 900.0)
    assert shared.sharing.shared_tokens == 900.0
    assert (hits.prompt, hits.cached) == (1000.0, 250.0)
    drawn = of(length_ratio=0.5, shared_tokens=900)
    assert drawn.prompt == 975.0 and drawn.cached == 900.0
    usual = of(length_ratio=None, shared_tokens=900)  # lengths vary about the stated mean
    assert (usual.prompt, usual.output, usual.cached) == (1000.0, 50.0, 900.0)


def test_found_prefixes_make_plans_cheaper_and_nothing_claims_to_have_measured_them(plain):
    found = plan(prefix_hits=0.75)
    assert found.best["usd_per_mtok"] < plain.best["usd_per_mtok"]
    assert not any(row["probability_validated"] for row in found.rows)
    assert all("ttft_s" in row["not_validated"] for row in found.rows)
    assert found.best["beyond_measurements"] == ["75% of each prompt in the cache"]
    assert "validates" in found.measurement["words"]
    assert found.to_dict()["demand"]["prefix_hits"] == 0.75


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    "shape", [{"turns": 3, "isl": 1024}, {"shared_tokens": 3072, "isl": 1024}, {"prefix_hits": 0.5}]
)
@pytest.mark.parametrize("load", [{"rate": 3}, {"concurrency": 24, "rate": None}])
def test_simulated_plans_share_prefixes_too(shape, load):
    found = plan(simulate=True, top=1, devices="8:8", **shape, **load)
    assert found.best["percentiles"].startswith("simulated")
    closed = plan(top=1, devices="8:8", **shape, **load)
    if found.best["kind"] == "aggregated":
        assert found.best["simulated_tpot_s"] == pytest.approx(closed.best["tpot_s"], rel=0.25)


def test_several_answers_count_as_output_and_beams_do_not():
    answers, beams = (plan(**{name: 4}).best for name in ("samples", "beams"))
    assert answers["output_tokens_per_s"] == pytest.approx(4 * 256 * 4)
    assert beams["output_tokens_per_s"] == pytest.approx(4 * 256)
    assert beams["usd_per_mtok"] == pytest.approx(4 * answers["usd_per_mtok"])
    assert "not simulated" in plan(samples=4, simulate=True).best["percentiles"]


def test_adapters_cost_and_are_told_to_the_engine(plain):
    found = plan(lora_rank=16, lora_adapters=8)
    assert found.best["usd_per_mtok"] >= plain.best["usd_per_mtok"]
    assert "--enable-lora --max-loras 8 --max-lora-rank 16" in found.best["launch"]
    drafted = plan(lora_rank=16, speculation="none,ngram", acceptance="0.5")
    assert any("LoRA" in left["why"] for left in drafted.to_dict()["left_out"])


def test_offload_lets_a_model_run_on_fewer_devices_and_says_how_much_lies_on_the_host():
    small = {"devices": "1:1", "rate": 0.01, "target": ""}
    assert plan(**small).best is None
    best = plan(offload="weights", **small).best
    assert best["offload"] == "weights" and best["offloaded_bytes"] > 60e9
    assert f"--cpu-offload-gb {-(-int(best['offloaded_bytes']) // 2**30)}" in best["launch"]
    assert best["memory_bytes"] <= best["usable_bytes"] * 1.001


def test_the_command_takes_the_same_words():
    words = (
        f"plan {MODEL} --systems h100 --engine vllm --devices 1:16 --rate 4 --isl 4096 --osl 256 "
        "--target 'tpot < 60ms' --no-simulate --shared-prompt 512 --turns 2 --lora-rank 8 "
        "--lora-adapters 2 --offload weights --json"
    )
    ran = CliRunner().invoke(cli, shlex.split(words))
    assert ran.exit_code == 0, ran.output
    same = plan(shared_tokens=512, turns=2, lora_rank=8, lora_adapters=2, offload="weights")
    assert json.loads(ran.stdout) == json.loads(json.dumps(same.to_dict()))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"prefix_hits": 1.0}, "from 0 to below 1"),
        ({"prefix_hits": 0.5, "turns": 2}, "determine the hits"),
        ({"samples": 2, "beams": 2}, "give one"),
        ({"turns": 2, "samples": 2}, "leave out samples and beams"),
        ({"prefix_tier": "host"}, "prefix_hits"),
        ({"prefix_tier": "disk", "prefix_hits": 0.5}, "choose device, host"),
        ({"turns": 0}, "whole number"),
        ({"lora_adapters": 4}, "lora_rank"),
        ({"lora_rank": -1}, "from 0"),
        ({"offload": "disk"}, "weights, kv, experts"),
    ],
)
def test_invalid_request_shapes_are_refused_in_a_sentence(given, said):
    with pytest.raises(InvalidValue, match=said):
        plan(**given)
