"""The list of features: each row a command with a figure computed by hand, equal at other
interfaces.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ridgeline
import yaml
from starlette.testclient import TestClient

from app.api.answers import Answers
from app.api.rest import application
from tests.app.commands.test_cli import run

LLAMA = "meta-llama/Llama-3.1-8B"
SCOUT = "meta-llama/Llama-4-Scout-17B-16E-Instruct"


def attention(document: dict[str, Any]) -> float:
    return float(next(row["flops"] for row in document["rows"] if row["node"] == "attention"))


def weights(document: dict[str, Any]) -> float:
    storage = document["storage"]
    return float(storage["weights"] + storage["embedding_table"])


def prompt(document: dict[str, Any]) -> float:
    return float(document["queries"][0][1])


#: feature: (arguments of the command, the same for Python and REST, figure, its value by hand).
OPS: dict[str, tuple[str, dict[str, Any], Callable[[dict[str, Any]], float], float]] = {
    "operators with FLOPs; queries of several caches": (
        f"ops {LLAMA} --cached-tokens 1048576 1024",
        {"model": LLAMA, "cached_tokens": [1048576, 1024]},
        attention,
        4 * 32 * 128 * (1048577 + 1025),
    ),
    "storage: every parameter once, in 16 bit": (
        f"ops {LLAMA}", {"model": LLAMA}, weights, 2 * 8_030_261_248,
    ),
    "formats: fp8 weights, 16-bit ends": (
        f"ops {LLAMA} --weights fp8",
        {"model": LLAMA, "weights": "fp8"},
        weights,
        (8_030_261_248 - 2 * 128256 * 4096 - 65 * 4096) + 2 * (2 * 128256 * 4096 + 65 * 4096),
    ),
    "images in prompts: Llama 4's tiles": (
        f"ops {SCOUT} --input-tokens 10 --images 1 --image-size 336x336",
        {"model": SCOUT, "input_tokens": 10, "images": 1, "image_size": "336x336"},
        prompt,
        10 + 144 + 3,
    ),
}  # fmt: skip


@pytest.mark.parametrize("feature", OPS)
def test_counts_are_those_by_hand_at_every_interface(feature: str) -> None:
    line, given, figure, expected = OPS[feature]
    assert figure(json.loads(run(*line.split(), "--json"))) == pytest.approx(expected, rel=1e-9)
    asked = dict(given)
    assert figure(ridgeline.ops(asked.pop("model"), **asked).to_dict()) == pytest.approx(expected)
    with TestClient(application(answers=Answers())) as api:
        assert figure(api.post("/ops", json=given).json()) == pytest.approx(expected)


MISTRAL, MIXTRAL = "mistralai/Mistral-7B-v0.1", "mistralai/Mixtral-8x7B-v0.1"
#: feature: (parameters of `estimate`, column of its row, the value by hand).
ESTIMATES: dict[str, tuple[dict[str, Any], str, float]] = {
    "memory: two vectors a token and layer of every KV head": (
        {"model": LLAMA, "batch": 4, "isl": 1024, "osl": 256}, "kv_bytes",
        4 * 1280 * 32 * 8 * 128 * 2 * 2,
    ),
    "memory: an 8-bit cache is half": (
        {"model": LLAMA, "batch": 4, "isl": 1024, "osl": 256, "kv": "fp8"}, "kv_bytes",
        4 * 1280 * 32 * 8 * 128 * 2,
    ),
    "memory: every parameter": ({"model": LLAMA}, "weights_bytes", 2 * 8_030_261_248),
    "tensor parallel: half of the KV heads a device": (
        {"model": LLAMA, "batch": 4, "isl": 1024, "osl": 256, "tp": 2}, "kv_bytes",
        4 * 1280 * 32 * 4 * 128 * 2 * 2,
    ),
    "expert parallel: two of eight experts a device": (
        {"model": MIXTRAL, "tp": 4, "ep": 4}, "weights_bytes",
        # experts, attention (a quarter, and KV heads), embedding and head; norms and routers whole
        2 * (32 * (2 * 3 * 4096 * 14336 + (2 * 4096 + 2 * 1024) * 4096 / 4 + 2 * 4096 + 8 * 4096)
             + 2 * 32000 * 4096 / 4 + 4096),
    ),
    "MLA: one latent of 512 and 64 a token and layer": (
        {"model": "deepseek-ai/DeepSeek-V3", "system": "h200", "engine": "sglang", "tp": 8,
         "isl": 1000, "osl": 24}, "kv_bytes", 61 * (512 + 64) * 2 * 1024,
    ),
    "sliding windows: no more than the window": (
        {"model": MISTRAL, "isl": 8192, "osl": 64}, "kv_bytes", 4096 * 32 * 8 * 128 * 2 * 2,
    ),
    "Mamba: a state of one size whatever the length": (
        {"model": "state-spaces/mamba-2.8b-hf", "isl": 8192, "osl": 64}, "kv_bytes",
        64 * 5120 * (16 + 3) * 4,
    ),
    "context parallel: a half of the cache a device": (
        {"model": LLAMA, "batch": 1, "isl": 1024, "osl": 256, "cp": 2}, "kv_bytes",
        640 * 32 * 8 * 128 * 2 * 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("feature", ESTIMATES)
def test_memory_is_that_by_hand_at_every_interface(feature: str) -> None:
    given, column, expected = ESTIMATES[feature]
    body = {"system": "h100", "engine": "generic", **given}
    words = [word for name, value in body.items() if name != "model"
             for word in (f"--{name}", str(value))]  # fmt: skip
    assert json.loads(run("estimate", body["model"], *words, "--json"))[column] == expected
    asked = dict(body)
    assert ridgeline.estimate(asked.pop("model"), **asked).rows[0][column] == expected
    with TestClient(application(answers=Answers())) as api:
        assert api.post("/estimate", json=body).json()["rows"][0][column] == expected


def test_cost_is_the_price_over_the_tokens() -> None:
    row = ridgeline.serve(LLAMA, system="h100", concurrency=64, price=2.5).rows[0]
    per_hour = row["output_tokens_per_s"] * 3600 / 1e6
    assert row["usd_per_million_tokens"] == pytest.approx(2.5 / per_hour)


def test_bound_predicted_and_interval_stand_side_by_side() -> None:
    row = ridgeline.serve(LLAMA, system="h100", concurrency=64).rows[0]
    assert row["bound_tpot_s"] < row["tpot_s"]
    assert row["tpot_low_s"] < row["tpot_s"] < row["tpot_high_s"]


#: feature: (arguments of a command that prints JSON, a figure in it, its value by hand).
ALONE: dict[str, tuple[tuple[str, ...], Callable[[Any], Any], Any]] = {
    "any hardware: memory and its bandwidth of the datasheet": (
        ("systems", "h200-sxm-141gb"), lambda d: d["memory_bytes_per_s"], 4.8e12,
    ),
    "precision multipliers: 8 bit doubles the datasheet's 16": (
        ("systems", "h100"), lambda d: round(d["peak_flops_per_s"]["fp8"] / 989.4e12, 2), 2.0,
    ),
    "all-reduce: the hidden states of a batch, 16 bit": (
        ("chakra", "{trace}"),
        lambda d: {r["name"]: r for r in d["rows"]}["attention_all_reduce"]["message_bytes"],
        32 * 8 * 4096 * 2,
    ),
    "models: every checkpoint of the library": (
        ("models",), lambda d: len(d) >= 436, True,
    ),
    "technology comparison: every combination of the study": (
        ("study", "app/samples/studies/hbm4.yaml"), lambda d: len(d["rows"]), 3 * 2,
    ),
    "links of a system: of a network file": (
        ("systems", "network", "tests/fixtures/ring.yml", "--base", "h100"),
        lambda d: d["links"]["scale_up"]["gb_per_s"]["value"], 200.0,
    ),
    "JSON schemas": (("schema", "arch"), lambda d: d["properties"]["schema"]["const"],
                     "ridgeline/arch/1"),
    "formulas of modules: arguments": (
        ("modules", "derive", "torch.nn.Linear(d, 4*d, bias=False)"),
        lambda d: d["formulas"]["flops"], "8*{batch}*{new_tokens}*{d}**2",
    ),
}  # fmt: skip


@pytest.mark.by_day(2)
@pytest.mark.parametrize("feature", ALONE)
def test_commands_give_the_figure_by_hand(feature: str, tmp_path: Path) -> None:
    words, figure, expected = ALONE[feature]
    if "{trace}" in words:
        run("export", LLAMA, "--system", "h100", "--tp", "2", "--batch", "8", "--output",
            str(tmp_path))  # fmt: skip
        words = tuple(str(tmp_path / "step.0.et") if w == "{trace}" else w for w in words)
    if words[0] == "modules":
        pytest.importorskip("torch")
    as_json = () if words[0] == "schema" or words[1:2] == ("network",) else ("--json",)
    assert figure(yaml.safe_load(run(*words, *as_json))) == expected
