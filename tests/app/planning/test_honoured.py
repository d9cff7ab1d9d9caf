"""Plans whose parameters cannot run, are not simulated, or are stated under other names."""

from __future__ import annotations

import shlex

import pytest

import model_registry
from app.planning import search
from app.planning.manifests.bundle import bundle
from app.planning.ranking import SURE
from app.question.query import ask
from app.scenario.gate import context_complaint
from genz_core.errors import InvalidValue
from tests.app.planning.asking import asked, plan
from tests.app.planning.launch_faults import faults

MODEL, SHORT = "Qwen/Qwen3-32B", "meta-llama/Llama-2-7b-hf"
GIVEN = {"system": "h100", "engine": "vllm", "devices": 4, "rate": 2.0}


# ------------------------------------------------------------------------------- context


def test_a_context_beyond_the_models_positions_is_refused_with_both_numbers():
    with pytest.raises(InvalidValue, match=r"4,096 tokens.*8,448"):
        plan(SHORT, **GIVEN, isl=8192, osl=256)
    with pytest.raises(InvalidValue, match=r"4,096 tokens.*4,600"):
        plan(SHORT, **GIVEN, isl=500, osl=100, shared_tokens=4000)


def test_a_server_is_started_with_no_more_tokens_than_positions():
    line = plan(SHORT, **GIVEN, isl=3840, osl=256, simulate=False).best["launch"].splitlines()[0]
    assert "--max-model-len 4096" in line


def test_positions_are_those_that_rotary_scaling_leaves():
    config = {**_config(), "max_position_embeddings": 32768}
    assert model_registry.load(config).max_context == 32768
    for scaling, most in (
        ({"rope_type": "linear", "factor": 2.0}, 65536),
        ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, 131072),
        ({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 8192}, 32768),
        ({"rope_type": "llama3", "factor": 8.0}, 32768),
    ):
        model = model_registry.load({**config, "rope_scaling": scaling})
        assert model.max_context == most
        assert context_complaint(model, most - 8, 8) == "" and context_complaint(model, most, 8)


def _config():
    return {
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 100,
        "num_hidden_layers": 1, "num_attention_heads": 4,
    }  # fmt: skip


# ------------------------------------------------------------------------------- percentiles


def test_a_plan_that_was_not_simulated_has_no_percentile_and_says_so():
    best = plan(MODEL, **GIVEN, simulate=False).best
    assert best["percentiles"].startswith("none, not simulated")
    assert all(best[f"{name}_p95_s"] is None for name in ("ttft", "tpot", "e2e"))
    simulated = plan(MODEL, **GIVEN, top=1).best
    assert simulated["percentiles"].startswith("simulated") and simulated["ttft_p95_s"] > 0


@pytest.mark.slow
def test_a_target_on_a_percentile_is_met_by_a_simulation_or_by_probability():
    """Without a simulation, a plan meets it if the probability model gives at least 80 %."""
    wanted = {**GIVEN, "devices": "1:8", "target": "ttft_p95 < 150ms"}
    rows = plan(MODEL, **wanted, simulate=False).rows
    assert all(row["probability"] >= SURE and row["margins"]["ttft_p95"] is None for row in rows)
    found = search.search(asked(MODEL, **wanted, simulate=False))
    unsure = ~(found.probability >= SURE)
    assert unsure.any() and not found.feasible[unsure].any()
    sure = plan(MODEL, **wanted, confidence=0.99, simulate=False).rows
    assert all(row["probability"] >= 0.99 for row in sure)
    assert all(row["ttft_p95_s"] < 0.15 for row in plan(MODEL, **wanted, top=2).rows)


# ------------------------------------------------------------------------------- other words


@pytest.mark.by_day(1)
@pytest.mark.parametrize("said", [
    {"rate": 2.0, "target": "tpot < 40ms", "weights": "checkpoint,fp8", "price": "h100=2"},
    {"concurrency": 8, "speculation": "none,ngram", "acceptance": "0.6", "devices": (1, 4)},
    {"rate": 3.0, "turns": 3, "max_num_batched_tokens": 4096, "bandwidth": 1.5, "cross_systems":
     True, "tp": "1,2", "confidence": 0.5},
])  # fmt: skip
def test_the_options_of_an_answer_ask_the_same_again(said):
    one = plan(MODEL, system="h100", engine="vllm", simulate=False, top=2, **said).to_dict()
    words, given = list(one["options"]), {}
    while words:
        name = words.pop(0).removeprefix("--")
        flag = name.startswith("no-") or not words or words[0].startswith("--")
        given[name.removeprefix("no-")] = not name.startswith("no-") if flag else words.pop(0)
    other = plan(MODEL, **given).to_dict()
    assert other == one


def test_options_of_the_engine_are_in_its_launch_line_or_in_a_note():
    best = plan(MODEL, **GIVEN, simulate=False, max_num_batched_tokens=4096, memory_fraction=0.8,
                max_num_seqs=64, stream_interval=8).best  # fmt: skip
    line = best["launch"].splitlines()[0]
    for words in ("--max-num-batched-tokens 4096", "--gpu-memory-utilization 0.8",
                  "--max-num-seqs 64"):  # fmt: skip
        assert words in line
    assert "--stream-interval 8" in line or any("stream_interval = 8" in note
                                                for note in best["launch_notes"])  # fmt: skip
    assert faults(line) == []
    judged = shlex.split(best["guard"])
    assert judged[judged.index("--memory-fraction") + 1] == "0.8"


def test_what_means_nothing_to_a_plan_is_refused_by_name():
    for name, value in {"cp": 2, "batch": 4, "replicas": 2, "burst_start": True}.items():
        with pytest.raises(InvalidValue, match=name):
            ask("plan", {"model": MODEL, "rate": 1.0, name: value})


# ------------------------------------------------------------------------------- manifests


def test_the_best_that_has_manifests_is_deployed_and_the_reason_is_said():
    given = {**GIVEN, "devices": 8, "engine": "trtllm,vllm", "pools": "aggregated", "rank": "tpot"}
    named = plan(MODEL, **given, simulate=False, top=20).to_dict()
    order = [row["engine"] for row in named["plans"]]
    assert set(order) == {"trtllm", "vllm"}
    named["plans"].sort(key=lambda row: row["engine"] != "trtllm")
    made = bundle(named, "kubernetes")
    assert named["plans"][made.plan]["engine"] == "vllm"
    assert made.notes[0].startswith("plan 1 cannot be deployed this way: ")
    with pytest.raises(InvalidValue, match="trtllm"):
        bundle(named, "kubernetes", 0)
    named["plans"] = [row for row in named["plans"] if row["engine"] == "trtllm"]
    with pytest.raises(InvalidValue, match="plan 1 cannot be deployed this way"):
        bundle(named, "kubernetes")
