"""The Python module, the command line and the page give the same answer to a question.

Twelve scenarios, static and served, over three models (dense, mixture of experts, latent attention)
and three engines, with formats, degrees and recipes that the engine fills in.
"""

from __future__ import annotations

import json
import math
import shlex
from typing import Any

import pytest
import ridgeline

from app.answers.table import to_json
from app.wording import quantities
from tests.app.commands.test_cli import run
from tests.app.pages import cards, opened

DENSE = "meta-llama/Llama-3.1-70B"
EXPERTS = "mistralai/Mixtral-8x7B-v0.1"
LATENT = "deepseek-ai/DeepSeek-V3"
STATIC: list[dict[str, Any]] = [
    {"model": DENSE, "system": "h100", "engine": "vllm", "weights": "fp8", "tp": 4, "batch": 16,
     "isl": 2048, "osl": 256},
    {"model": DENSE, "system": "h200", "engine": "trtllm", "tp": 4, "pp": 2, "batch": 64,
     "isl": 512, "osl": 512},
    {"model": EXPERTS, "system": "h100", "engine": "sglang", "tp": 2, "ep": 2, "batch": 32,
     "isl": 1024, "osl": 128},
    {"model": EXPERTS, "system": "a100-sxm4-80gb", "engine": "vllm", "weights": "int4", "tp": 2,
     "ep": 1, "batch": 1, "isl": 4096, "osl": 64},
    {"model": LATENT, "system": "h200", "engine": "sglang", "tp": 8, "ep": 8, "batch": 128,
     "isl": 1000, "osl": 1000},
    {"model": LATENT, "system": "b200", "engine": "trtllm", "tp": 8, "ep": 8, "batch": 8,
     "isl": 8192, "osl": 1024, "expert_imbalance": 1.5},
]  # fmt: skip
SERVED: list[dict[str, Any]] = [
    {"model": DENSE, "system": "h100", "engine": "trtllm", "weights": "fp8", "tp": 4,
     "concurrency": 64, "isl": 1024, "osl": 1024},
    {"model": DENSE, "system": "h100", "engine": "sglang", "tp": 8, "concurrency": 256,
     "isl": 8192, "osl": 512},
    {"model": EXPERTS, "system": "h100", "engine": "vllm", "tp": 2, "ep": 2, "concurrency": 64,
     "isl": 512, "osl": 512},
    {"model": EXPERTS, "system": "h200", "engine": "trtllm", "tp": 2, "ep": 1, "concurrency": 16,
     "isl": 2048, "osl": 128},
    {"model": LATENT, "system": "h200", "engine": "vllm", "tp": 8, "ep": 8, "concurrency": 128,
     "isl": 1024, "osl": 1024},
    {"model": LATENT, "system": "b200", "engine": "sglang", "tp": 8, "ep": 8, "concurrency": 1024,
     "isl": 1024, "osl": 256},
]  # fmt: skip


def named(scenario: dict[str, Any]) -> str:
    return f"{scenario['model'].split('/')[1]}-{scenario['engine']}"


def span_of(row: dict[str, Any], name: str) -> str:
    """The 80 % interval of "TTFT" in a row, as pages print it."""
    low, high = (row[f"{name.lower()}_{end}_s"] for end in ("low", "high"))
    return quantities.span(*(math.nan if end is None else end for end in (low, high)))


def options(keywords: dict[str, Any]) -> list[str]:
    pairs = [(f"--{name.replace('_', '-')}", str(value)) for name, value in keywords.items()]
    return [word for pair in pairs for word in pair]


def printed(verb: str, scenario: dict[str, Any]) -> Any:
    """What the command of a verb prints as JSON for a scenario."""
    keywords = {name: value for name, value in scenario.items() if name != "model"}
    return json.loads(run(verb, scenario["model"], *options(keywords), "--json"))


@pytest.mark.by_day(1)
@pytest.mark.parametrize("scenario", STATIC, ids=named)
def test_a_static_batch_has_one_answer(scenario: dict[str, Any]):
    module = ridgeline.estimate(**scenario).to_dict()

    command = printed("estimate", scenario)
    operators = command.pop("operators")
    assert command == json.loads(to_json(module))
    assert operators["decode"] and operators["prefill"]

    page = opened("answer", **{"batch": 1, **scenario})
    assert not page.exception and not page.error
    shown = cards(page)
    trust = next(text.value for text in page.caption if text.value.startswith("80 % intervals"))
    for name in ("TTFT", "TPOT"):
        assert shown[name] == quantities.seconds(module[f"{name.lower()}_s"])
        assert f"{name} {span_of(module, name)}" in trust
    pinned = opened("compare", part="Pinned", **scenario)
    compared = pinned.dataframe[0].value.set_index("figure")["A"]
    for name, figure in (("TTFT", "TTFT"), ("TPOT", "TPOT"), ("E2E", "E2E")):
        value = quantities.seconds(module[f"{figure.lower()}_s"])
        assert compared[name].startswith(f"{value} [{span_of(module, figure)}]")
    assert shown["Output throughput"] == quantities.tokens_rate(module["output_tokens_per_s"])
    assert shown["Memory per device"] == quantities.size(module["memory_bytes_per_device"])


@pytest.mark.by_day(1)
@pytest.mark.parametrize("scenario", SERVED, ids=named)
def test_a_load_has_one_answer(scenario: dict[str, Any]):
    (module,) = ridgeline.serve(**scenario).rows

    (command,) = printed("serve", scenario)
    assert command == json.loads(to_json(module))

    pinned = opened("compare", part="Pinned", **scenario)
    compared = pinned.dataframe[0].value.set_index("figure")["A"]
    for name in ("TTFT", "TPOT", "E2E"):
        value = quantities.seconds(module[f"{name.lower()}_s"])
        assert compared[name].startswith(f"{value} [{span_of(module, name)}]")
    page = opened("serving", **scenario)
    assert not page.exception and not page.error
    table = next(frame.value for frame in page.dataframe if "prompt_share" in frame.value)
    row = table[table["concurrency"] == scenario["concurrency"]].iloc[0]
    figures = [name for name in module if isinstance(module[name], float)]
    assert {"ttft_s", "tpot_s", "output_tokens_per_s", "running"} <= set(figures)
    for name in figures:
        assert row[name] == pytest.approx(module[name], rel=1e-9, nan_ok=True), name
    overview = opened("answer", **scenario)
    assert not overview.exception and not overview.error
    for shown in (page, overview):
        for name in ("TTFT", "TPOT"):
            (card,) = (metric for metric in shown.metric if metric.label == name)
            assert card.value == quantities.seconds(module[f"{name.lower()}_s"])
            assert card.delta == span_of(module, name)
    rate = quantities.tokens_rate(module["output_tokens_per_s"])
    assert cards(overview)["Output throughput"] == rate


@pytest.mark.parametrize("scenario", SERVED[:3], ids=named)
def test_the_command_that_the_overview_shows_prints_its_figures(scenario: dict[str, Any]):
    page = opened("answer", **{**scenario, "concurrency": 48})
    name, *words = shlex.split(page.code[0].value)
    assert name == "ridgeline"
    (row,) = json.loads(run(*words, "--json"))
    assert row["concurrency"] == 48
    assert cards(page)["TTFT"] == quantities.seconds(row["ttft_s"])
    assert cards(page)["TPOT"] == quantities.seconds(row["tpot_s"])
