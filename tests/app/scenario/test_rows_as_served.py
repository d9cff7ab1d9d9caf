"""A row of a points file or of a sweep is what `serve` answers to the same question."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from ridgeline import estimate, sensitivity, serve, sweep

from app.question.verbs import parameters_of
from app.scenario import points_file
from genz_core.errors import RidgelineError

BASE = {"model": "meta-llama/Llama-3.1-8B", "system": "h100", "engine": "vllm", "isl": 2000,
        "osl": 200, "concurrency": 16}  # fmt: skip
#: Values of every parameter that `serve` takes beside those of `BASE`, given together where one has
#: no meaning alone.
VALUES: tuple[dict[str, Any], ...] = (
    {"engine_version": "0.9.0"}, {"weights": "fp8"}, {"kv": "fp8"}, {"compute": "bf16"},
    {"weights": "fp8", "activations": "fp8"}, {"tp": 4}, {"pp": 2}, {"dp": 1}, {"replicas": 3},
    {"max_num_seqs": 8}, {"max_num_batched_tokens": 1024}, {"chunked_prefill": False},
    {"memory_fraction": 0.6}, {"stream_interval": 4}, {"recv_interval": 8}, {"batch_wait": 4},
    {"step_scale": 1.2}, {"offload": "kv"}, {"lora_rank": 16, "lora_adapters": 4},
    {"speculation": "ngram", "draft_tokens": 3, "acceptance": 0.5},
    {"speculation": "draft_model", "draft_model": "meta-llama/Llama-3.2-1B", "acceptance": 0.6},
    {"turns": 4, "think_s": 30.0, "host_cache_gib": 100.0, "host_cache_gb_per_s": 40.0},
    {"turns": 3, "think_s": 600.0, "think_spread": 1.0, "disk_cache_gib": 500.0,
     "disk_cache_gb_per_s": 5.0, "cache_writes": "all"},
    {"turns": 3, "think_s": 60.0, "remote_cache_gib": 900.0, "remote_cache_gb_per_s": 9.0},
    {"prefill_workers": 2, "prefill_tp": 2}, {"prefill_workers": 1, "prefill_pp": 2},
    {"prefill_workers": 1, "prefill_system": "h200", "layer_wise": True},
    {"prefill_workers": 1, "transfer_gbps": 100.0, "transfer_latency_us": 50.0},
    {"prefill_workers": 1, "prefill_dp": 1, "prefill_ep": 1, "prefill_weights": "fp8"},
    {"peak": 2.0}, {"bandwidth": 1.5}, {"capacity": 2.0}, {"link": 0.5}, {"tp": 2, "link": 2.0},
    {"rate": 3.0}, {"burst_start": True, "requests": 100}, {"length_ratio": 0.5},
    {"prefix_hits": 0.6}, {"prefix_hits": 0.5, "prefix_tier": "host"}, {"shared_tokens": 500},
    {"turns": 4}, {"turns": 4, "turn_isl": 100}, {"samples": 3}, {"beams": 2}, {"price": "2"},
    {"model": "Qwen/Qwen3-30B-A3B", "ep": 2, "tp": 2}, {"model": "Qwen/Qwen3-30B-A3B", "tp": 2,
     "moe_tp": 2}, {"model": "Qwen/Qwen3-30B-A3B", "tp": 2, "ep": 2, "expert_imbalance": 1.3},
    {"model": "Qwen/Qwen3-30B-A3B", "tp": 1, "dp": 2, "ep": 2, "redundant_experts": 2},
    {"model": "Qwen/Qwen3-30B-A3B", "moe_weights": "fp8"},
    {"model": "Qwen/Qwen3-30B-A3B", "tp": 2, "ep": 2, "overlap": "two_batch"},
    {"model": "Qwen/Qwen2.5-VL-7B-Instruct", "images": 1, "image_size": "640x480"},
    {"model": "openai/whisper-large-v3", "audio_seconds": 20.0, "isl": 4},
)  # fmt: skip
#: Parameters of a pool of experts, which `Llama-3.1-8B` has not.
NOT_DRAWN = {"prefill_moe_tp"}
FIGURES = ("ttft_s", "tpot_s", "e2e_s", "output_tokens_per_s", "prefill_s",
           "memory_bytes_per_device", *(f"{name}_{end}_s" for name in ("ttft", "tpot", "e2e")
                                        for end in ("low", "high")))  # fmt: skip
COSTS = ("devices", "usd_per_million_tokens", "joules_per_token")
LATENCIES = {"ttft_s", "tpot_s", "e2e_s"}
Row = dict[str, Any]


def asked(**given: Any) -> Row:
    values = {**BASE, **given}
    if "rate" in given:
        del values["concurrency"]
    return values


def served(question: Row) -> Row:
    try:
        return serve(**question, on_error="status").table.row()
    except RidgelineError as error:
        return {"status": error.code, "message": str(error)}


def swept(question: Row) -> Row:
    axes = ("isl", "concurrency", "rate")
    lists = {name: [value] if name in axes else value for name, value in question.items()}
    try:
        return sweep(**lists).table.row()
    except RidgelineError as error:
        return {"status": error.code, "message": str(error)}


def cells(question: Row) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in question.items()}  # fmt: skip


def agree(row: Row, expected: Row, names: tuple[str, ...]) -> None:
    """Times of an overloaded deployment are left out of files: its queue grows without bound."""
    assert row["status"] == expected["status"], (row["message"], expected["message"])
    assert row["message"] == expected["message"]
    for name in names if expected["status"] != "overloaded" else ():
        found, known = (float(one.get(name) or "nan") for one in (row, expected))
        assert found == pytest.approx(known, rel=1e-7, nan_ok=True), name
    if expected["status"] == "ok":
        unsure = [set((one.get("not_validated") or "").split()) for one in (row, expected)]
        assert unsure[0] & LATENCIES == unsure[1] & LATENCIES


def test_every_parameter_of_serve_is_among_the_values():
    drawn = {name for values in (BASE, *VALUES) for name in values}
    assert set(parameters_of("serve")) - drawn == NOT_DRAWN


@pytest.mark.parametrize("given", VALUES, ids=str)
def test_a_row_is_what_serve_answers(given: Row):
    question = asked(**given)
    expected = served(question)
    agree(points_file.price([cells(question)])[0], expected, (*FIGURES, "wait_s"))
    agree(swept(question), expected, (*FIGURES, *COSTS))


@pytest.mark.parametrize("seed", range(12))
def test_rows_of_random_questions_are_what_serve_answers(seed: int):
    drawn = random.Random(seed)
    common = [one for one in VALUES if "model" not in one and "rate" not in one]
    questions = []
    for given in drawn.sample(common, 2):
        for _ in range(3):
            load = {drawn.choice(("concurrency", "rate")): drawn.choice((1, 3, 8))}
            sizes = {"isl": drawn.choice((128, 1500, 6000)), "osl": drawn.choice((16, 300))}
            questions.append(asked(**{"tp": drawn.choice((1, 2)), **load, **sizes, **given}))
    rows = points_file.price([cells(one) for one in questions])
    for row, question in zip(rows, questions, strict=True):
        agree(row, served(question), FIGURES)


@pytest.mark.parametrize(
    "given",
    [{"prefix_hits": 0.5}, {"turns": 4, "turn_isl": 300},
     {"turns": 4, "think_s": 60.0, "host_cache_gib": 50.0, "length_ratio": 0.5},
     {"prefill_workers": 2, "prefill_tp": 2}],
    ids=str,
)  # fmt: skip
def test_rows_of_one_call_have_each_their_own_lengths_and_degrees(given: Row):
    """A prefill pool of 4 devices beside 1, 4 or 8: the last ones are on several servers."""
    degrees, lengths = [1, 4, 8], [128, 3000]
    every = [asked(**given, tp=tp, isl=isl) for tp in degrees for isl in lengths]
    alone = [served(question) for question in every]
    table = {(row["tp"], row["isl"]): row
             for row in sweep(**asked(**given, tp=degrees, isl=lengths)).table.rows()}  # fmt: skip
    rows = points_file.price([cells(question) for question in every])
    together = serve(**asked(**given, tp=[q["tp"] for q in every], isl=[q["isl"] for q in every]))
    for at, expected in enumerate(alone):
        agree(table[every[at]["tp"], every[at]["isl"]], expected, (*FIGURES, *COSTS))
        agree(rows[at], expected, FIGURES)
        assert together.ttft_s[at] == pytest.approx(expected["ttft_s"])


def test_a_static_batch_with_adapters_says_that_it_is_not_validated():
    question = {name: value for name, value in BASE.items() if name != "concurrency"}
    question |= {"batch": 4, "lora_rank": 16}
    expected = estimate(**question).table.row()
    for row in (points_file.price([cells(question)])[0],
                sweep(**{**question, "batch": [4]}).table.row()):  # fmt: skip
        assert "LoRA" in row["message"] and row["message"] == expected["message"]
        assert set(row["not_validated"].split()) >= LATENCIES


@pytest.mark.parametrize(
    "given", [{"offload": "weights"}, {"tp": 2, "batch": 400, "offload": "kv"}]
)
def test_what_is_offloaded_fits_and_is_not_on_the_device_in_every_table(given: Row):
    """Two H100 hold neither the weights nor 400 caches of a 70B model."""
    question = {"model": "meta-llama/Llama-3.1-70B", "system": "h100", "engine": "vllm", **given}
    row = estimate(**question).table.row()
    assert row["status"] == "ok" and row["fits"] and row["offloaded_bytes"] > 60e9
    assert row["memory_bytes_per_device"] <= row["usable_bytes"]
    held = sum(row[f"{part}_bytes"] for part in ("weights", "kv", "activations", "reserve"))
    assert row["memory_bytes_per_device"] + row["offloaded_bytes"] == pytest.approx(held)

    line = points_file.price([cells({"batch": 1, **question})])[0]
    assert line["fits"] == "true" and sensitivity(**question)["figures"]["fits"]
    agree(line, row, ("memory_bytes_per_device",))
    agree(sweep(**question).table.row(), row, ("memory_bytes_per_device",))


@pytest.mark.parametrize("load", [{"batch": 8}, {"concurrency": 8}, {"rate": 2}], ids=str)
def test_degrees_that_cannot_split_the_model_have_their_devices_and_no_figure(load: Row):
    """No figure of one device, which is priced in their place, stands in such a row."""
    question = {"model": "meta-llama/Llama-3.1-8B", "system": "h100", "engine": "vllm", **load}
    table = estimate(**question, tp=[3, 2], dp=[4, 1], on_error="status").table
    bad, good = table.rows()
    assert bad["status"] == "invalid_parallelism" and good["status"] == "ok"
    assert (bad["devices"], good["devices"]) == (12, 2) and not bad.get("fits")
    stated = {"tp", "dp", "devices", *load, "isl", "osl", "offloaded_bytes", "usable_bytes", "fits"}
    numbers = {name for name, value in bad.items() if isinstance(value, (int, float))} - stated
    assert {name for name in numbers if not math.isnan(bad[name])} == set()
    assert {"memory_bytes_per_device", "ttft_s"} <= numbers
    assert sweep(**question, tp=[3], dp=[4]).table.row()["devices"] == 12
