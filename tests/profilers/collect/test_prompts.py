"""Prompts of different lengths, each run alone on a small model on this machine's processor."""

from __future__ import annotations

from typing import Any

import pytest

from genz_core.common.progress import Cancelled
from genz_core.errors import MeasurementError
from profilers.collect.measured_model import RunSettings
from profilers.collect.prompts import measure_prompts
from profilers.prompt_sizes import PromptSizes

SHORT, LONG, ONE = PromptSizes("short", 4, 3), PromptSizes("long", 40, 2), PromptSizes("one", 4, 1)


@pytest.fixture
def settings(tiny_llama: dict[str, Any]) -> RunSettings:
    return RunSettings(tiny_llama, device="cpu", dtype="float32", warmup=1, repeats=2, batch=9)


def test_every_prompt_is_timed_in_every_repeat(settings: RunSettings) -> None:
    said: list[float] = []
    run = measure_prompts(settings, [SHORT, LONG, ONE], lambda share, _: said.append(share))
    assert [one.prompt for one in run.prompts] == [SHORT, LONG, ONE]
    assert all(len(one.ttft_s) == 2 and one.status == "ok" for one in run.prompts)
    assert [len(one.tpot_s) for one in run.prompts] == [2, 2, 0]  # one answers with its first token
    assert all(0 < one.median_ttft_s < 60 for one in run.prompts)
    # not a number, so not a step
    assert run.prompts[2].median_tpot_s != run.prompts[2].median_tpot_s
    assert (run.layers, run.cancelled) == (4, False)
    assert said == sorted(said) and said[-1] == 1.0


def test_a_prompt_that_needs_too_much_memory_is_said_and_the_others_run(settings) -> None:
    """10^15 tokens of eight bytes: no host grants them."""
    huge = PromptSizes("huge", 10**15, 2)
    run = measure_prompts(settings, [huge, SHORT])
    assert [one.status for one in run.prompts] == ["out_of_memory", "ok"]
    assert run.prompts[0].ttft_s == [] and len(run.prompts[1].ttft_s) == 2


def test_what_was_complete_when_cancelled_is_kept(settings: RunSettings) -> None:
    asked = iter([False, False, True])  # the warm-up and the first prompt, then stop
    run = measure_prompts(settings, [SHORT, LONG], cancelled=lambda: next(asked))
    assert run.cancelled and [one.status for one in run.prompts] == ["ok", "not_run"]


def test_cancelling_before_a_prompt_is_complete_leaves_nothing(settings: RunSettings) -> None:
    with pytest.raises(Cancelled):
        measure_prompts(settings, [SHORT], cancelled=lambda: True)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"hidden_size": 2**40, "num_hidden_layers": 1}, "memory runs out while the model is buil"),
        ({"vocab_size": -1}, "transformers cannot build|the model does not run"),
    ],
)
def test_a_model_that_does_not_build_ends_in_a_sentence(tiny_llama, changed, said) -> None:
    settings = RunSettings(tiny_llama | changed, device="cpu", dtype="float32")
    with pytest.raises(MeasurementError, match=said):
        measure_prompts(settings, [SHORT])
