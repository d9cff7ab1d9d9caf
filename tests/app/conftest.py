"""Fixtures: a data folder per test, a tiny model, the command line."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer import testing
from typer.testing import CliRunner, Result

from app.accuracy import measured_points
from app.cli import cli
from app.scenario import points_file

# Typer builds all commands for each call, which takes longer than most of them run.
typer.main.get_command = testing._get_command = functools.cache(typer.main.get_command)


@pytest.fixture
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's data folder, not yet created."""
    folder = tmp_path / "data"
    monkeypatch.setenv("RIDGELINE_DATA", str(folder))
    return folder


@pytest.fixture
def torch_threads() -> Iterator[None]:
    """PyTorch and Transformers are installed; the number of threads is restored after the test."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def free_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cores count as idle, so no run spends 0.4 s on measuring their contention."""
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
    """Runs a command; the result holds its exception."""

    def call(*arguments: object) -> Result:
        return CliRunner().invoke(cli, list(map(str, arguments)), catch_exceptions=True)

    return call


@pytest.fixture
def printed(ridgeline: Callable[..., Result]) -> Callable[..., str]:
    """The standard output of a command that succeeds."""

    def call(*arguments: object) -> str:
        result = ridgeline(*arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    return call


@pytest.fixture
def answer(printed: Callable[..., str]) -> Callable[..., Any]:
    """The document that a command which succeeds prints with --json."""
    return lambda *arguments: json.loads(printed(*arguments, "--json"))


_PRICE = points_file.price


@functools.cache
def _priced(rows: tuple[tuple[tuple[str, str], ...], ...], data: str) -> list[points_file.Row]:
    """Rows of a points file, priced with the user's files in the folder `data`."""
    return _PRICE([dict(row) for row in rows])


@pytest.fixture
def priced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rows are priced once per session; for tests of whole tables of measured runs.

    The files of those tests share a worker, see MEASURED in tests/conftest.py.
    """

    def price(rows: Sequence[points_file.Row], *_: object) -> list[points_file.Row]:
        asked = tuple(tuple(row.items()) for row in rows)
        return [dict(row) for row in _priced(asked, os.environ.get("RIDGELINE_DATA", ""))]

    monkeypatch.setattr(points_file, "price", price)


@pytest.fixture
def published_records(priced_once: None) -> list[dict[str, Any]]:
    """The published batch points with their predictions."""
    return measured_points.published()
