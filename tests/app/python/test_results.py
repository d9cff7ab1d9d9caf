"""What the functions return, as users handle it: shown, compared, copied, sent elsewhere."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import ridgeline

from app.answers.table import to_json

MODEL = "meta-llama/Llama-3.1-8B"
_STUDY = {"question": {"model": MODEL, "batch": 16}, "chips": [{"name": "as it is"},
          {"name": "twice the bandwidth", "bandwidth": 2}]}  # fmt: skip
RESULTS: dict[str, Callable[[], Any]] = {
    "a batch": lambda: ridgeline.estimate(MODEL),
    "batches": lambda: ridgeline.estimate(MODEL, batch=[1, 2]),
    "an encoder": lambda: ridgeline.estimate("openai/whisper-large-v3", audio_seconds=30),
    "a load": lambda: ridgeline.serve(MODEL, concurrency=8),
    "loads": lambda: ridgeline.serve(MODEL, rate=[1, 4], prefill_workers=1),
    "a line": lambda: ridgeline.ask("llama 8b on h100 16 users"),
    "a simulation": lambda: ridgeline.simulate(MODEL, concurrency=2, requests=10),
    "a sweep": lambda: ridgeline.sweep(MODEL, batch=[1, 8], tp=[1, 3]),
    "a plan": lambda: ridgeline.plan(MODEL, concurrency=4, tp=[1, 2], engine="vllm"),
    "a study": lambda: ridgeline.study(_STUDY),
    "operators": lambda: ridgeline.ops(MODEL),
}


def content(result: Any) -> str:
    return to_json(result.to_dict() if hasattr(result, "to_dict") and not hasattr(result, "rows")
                   else result.rows)  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_the_same_in_another_process_and_as_a_copy(name: str):
    result = RESULTS[name]()
    for other in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result), copy.copy(result)):
        assert repr(other) == repr(result)
        assert content(other) == content(result)


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_can_be_compared_and_be_a_key(name: str):
    """Results hold arrays, so two of them are equal only if they are one."""
    result, other = RESULTS[name](), RESULTS[name]()
    assert result == result and result != other
    assert {result: 1}[result] == 1


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_is_shown_as_lines_that_a_screen_holds(name: str):
    lines = repr(RESULTS[name]()).splitlines()
    assert len(lines) < 60 and max(map(len, lines)) < 250


def test_operators_and_combinations_are_frames():
    step = ridgeline.ops(MODEL, input_tokens=128)
    frame = step.to_dataframe()
    assert frame["flops"].tolist() == [row["flops"] for row in step.to_dict()["rows"]]
    assert "Node" in repr(step) and "<table" in step._repr_html_()
    found = ridgeline.study(_STUDY)
    assert found.to_dataframe()["chip"].tolist() == ["as it is", "twice the bandwidth"]
    assert found.to_dict() == {"title": found.title, "rows": found.rows}
