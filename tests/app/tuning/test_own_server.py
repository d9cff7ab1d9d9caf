"""The search against transformers' own server on this machine's CPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from app.question.query import ask
from app.tuning.answer import answer
from app.tuning.real_server import Commands
from profilers.collect.serving import own_server

#: Token budgets per step for the server; a small budget splits a prompt over many steps.
BUDGETS = (8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64, 72, 80, 96, 112, 128, 160, 192, 224, 256,
           320, 384, 448, 512)  # fmt: skip


def commands(model: Path) -> Commands:
    server = (
        f"{sys.executable} -m transformers.cli.transformers serve {model} --continuous-batching "
        "--device cpu --dtype bfloat16 --attn-implementation sdpa --cb-num-blocks 128 "
        "--cb-block-size 32 --cb-max-batch-tokens {max_num_batched_tokens} --host 127.0.0.1 "
        "--port {port}"
    )
    return Commands(server, "own", served=str(model), start_s=240.0)


def question(budgets: tuple[int, ...]):
    return ask("tune", {
        "model": "Qwen/Qwen3-0.6B", "system": "epyc-9654", "engine": "hf", "concurrency": 4,
        "burst_start": True, "requests": 32, "isl": 96, "osl": 16,
        "max_num_batched_tokens": list(budgets),
    })  # fmt: skip


@pytest.mark.slow
def test_a_search_starts_loads_and_ends_a_real_server(tmp_path: Path, own_data, monkeypatch):
    for name in ("torch", "transformers", "fastapi", "uvicorn", "openai", "accelerate"):
        pytest.importorskip(name)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    model, asked = tmp_path / "model", question(BUDGETS)
    own_server.write_model(model, {**own_server.CONFIG, "num_hidden_layers": 4})
    done = answer(asked, runs=2, commands=commands(model), folder=tmp_path / "search")
    assert done.records and {one.outcome.status for one in done.records} == {"measured"}
    rates = [one.outcome.figures["output_tokens_per_s"] for one in done.records]
    assert done.best.outcome.figures["output_tokens_per_s"] == max(rates) > 0
