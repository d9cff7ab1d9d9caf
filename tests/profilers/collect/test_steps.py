"""Steps of one model at many sizes: which are timed, which are skipped, and what remains after a
stop.
"""

from __future__ import annotations

from typing import Any

import pytest

from genz_core.common.progress import Cancelled
from profilers.collect.measured_model import RunSettings, build, pick_device
from profilers.collect.steps import filled_cache, measure_steps
from profilers.steps import StepPoint


@pytest.fixture
def settings(tiny_llama: dict[str, Any]) -> RunSettings:
    return RunSettings(tiny_llama, device="cpu")


def test_every_point_is_timed_in_every_round(settings: RunSettings) -> None:
    points = [StepPoint("prefill", 2, 16), StepPoint("decode", 2, 32)]
    run = measure_steps(settings, points, rounds=2)
    assert [len(step.samples_s) for step in run.steps] == [2, 2 * 4]
    assert [step.status for step in run.steps] == ["ok", "ok"]
    assert run.steps[1].context == 33.5


def test_a_decode_step_sees_exactly_the_context_asked_for(settings: RunSettings) -> None:
    device = pick_device("cpu")
    model, _ = build(settings, device)
    cache = filled_cache(model, batch=3, context=40, device=device)
    assert cache.get_seq_length() == 40
    assert len(cache.layers) == 4
    assert tuple(cache.layers[0].keys.shape) == (3, 2, 40, 16)


def test_what_ran_out_of_memory_is_skipped_at_larger_sizes(settings: RunSettings) -> None:
    points = [
        StepPoint("decode", 1, 16),
        StepPoint("decode", 2**40, 16),
        StepPoint("decode", 2**40, 32),
        StepPoint("prefill", 1, 16),
    ]
    run = measure_steps(settings, points, rounds=1)
    assert [step.status for step in run.steps] == ["ok", "out_of_memory", "skipped", "ok"]
    assert run.steps[1].samples_s == ()


def test_a_stopped_sweep_keeps_its_complete_points(settings: RunSettings) -> None:
    points = [StepPoint("prefill", 1, length) for length in (8, 16, 32)]
    answers = iter([False, False, False, True])
    run = measure_steps(settings, points, rounds=1, cancelled=lambda: next(answers))
    assert run.cancelled
    assert [step.status for step in run.steps] == ["ok", "ok", "not_run"]


def test_a_sweep_stopped_at_once_has_nothing_to_keep(settings: RunSettings) -> None:
    with pytest.raises(Cancelled):
        measure_steps(settings, [StepPoint("prefill", 1, 8)], cancelled=lambda: True)


def test_a_model_without_plain_caches_is_filled_by_its_own_prefill() -> None:
    config = {
        "model_type": "gemma3_text", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 16,
        "vocab_size": 256, "sliding_window": 8,
        "layer_types": ["sliding_attention", "full_attention"],
    }  # fmt: skip
    device = pick_device("cpu")
    model, _ = build(RunSettings(config, device="cpu"), device)
    assert filled_cache(model, 1, 20, device).get_seq_length() == 20
