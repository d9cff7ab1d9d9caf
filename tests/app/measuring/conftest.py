"""Shared by tests of measuring: a tiny model, a data folder, free cores, the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app.cli import cli


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    before = torch.get_num_threads()
    folder = tmp_path / "data"
    monkeypatch.setenv("RIDGELINE_DATA", str(folder))
    yield folder
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def free_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """No run first measures for 0.4 s how contended the cores of this machine are."""
    monkeypatch.setattr("profilers.collect.clock.contention", lambda *_: 1.0)


@pytest.fixture(scope="session")
def config() -> dict[str, Any]:
    """A model that takes milliseconds."""
    return {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
        "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 256,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
    }  # fmt: skip


@pytest.fixture
def tiny(tmp_path: Path, config: dict[str, Any]) -> str:
    """The path of its config."""
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    return str(path)


@pytest.fixture
def ridgeline() -> Callable[..., Result]:
    def call(*arguments: str) -> Result:
        return CliRunner().invoke(cli, list(arguments), catch_exceptions=True)

    return call


@pytest.fixture
def answer(ridgeline: Callable[..., Result]) -> Callable[..., Any]:
    """What a command that succeeds says with --json."""

    def call(*arguments: str) -> Any:
        result = ridgeline(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return call
