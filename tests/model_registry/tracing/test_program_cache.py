"""Programs are stored on disk by their config and code, and a trace writes nothing else."""

import os
from pathlib import Path

import pytest

from model_registry.tracing import program_cache, trace
from tests.model_registry.tracing_cases import tiny

pytestmark = pytest.mark.usefixtures("transformers")


def test_a_second_trace_comes_from_disk(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = trace(tiny("llama"))
    monkeypatch.setattr("model_registry.tracing.model.build_on_meta", None)
    assert trace(tiny("llama")).program == first.program
    assert len(list(own_cache.rglob("*.json"))) == 1


def test_a_program_that_is_damaged_or_of_other_code_is_traced_anew(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = trace(tiny("llama"))
    (kept,) = own_cache.rglob("*.json")
    kept.write_text("{")
    assert trace(tiny("llama")).program == first.program
    monkeypatch.setattr(program_cache, "code_version", lambda: "other")
    assert trace(tiny("llama")).program == first.program
    assert len(list(own_cache.rglob("*.json"))) == 2


def test_a_folder_that_cannot_be_written_is_no_error(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = own_cache / "file"
    blocked.write_text("")
    monkeypatch.setenv("RIDGELINE_CACHE", str(blocked))
    assert trace(tiny("llama")).parameters > 0
    assert blocked.read_text() == "" and list(own_cache.iterdir()) == [blocked]


def test_a_trace_asks_nothing_of_the_user_or_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a trace must not do this")

    monkeypatch.setattr("builtins.input", refuse)
    monkeypatch.setattr("socket.socket.connect", refuse)
    assert trace(tiny("qwen3"), use_cache=False).parameters > 0
    assert os.environ["HF_HUB_OFFLINE"] == "1"
