"""The list of features: each row a command with a figure by hand, the same at other interfaces."""

from __future__ import annotations

import json
from collections.abc import Callable
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


#: feature: (arguments of a command that prints JSON, figure of it, its value by hand).
ALONE: dict[str, tuple[tuple[str, ...], Callable[[Any], Any], Any]] = {
    "any hardware: memory and its bandwidth of the datasheet": (
        ("systems", "h200-sxm-141gb"), lambda d: d["memory_bytes_per_s"], 4.8e12,
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
def test_commands_give_the_figure_by_hand(feature: str) -> None:
    words, figure, expected = ALONE[feature]
    if words[0] == "modules":
        pytest.importorskip("torch")
    as_json = () if words[0] == "schema" or words[1] == "network" else ("--json",)
    assert figure(yaml.safe_load(run(*words, *as_json))) == expected
