"""Running a model: separately timed phases, named operators, memory exhaustion, cancelling."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from genz_core.errors import MeasurementError
from profilers.collect.measured_model import RunSettings, build, pick_device
from profilers.collect.model import Cancelled, ModelRun, run_model, run_scaled
from profilers.collect.nvtx_ranges import module_ranges


@pytest.fixture
def settings(tiny_llama: dict[str, Any]) -> RunSettings:
    return RunSettings(tiny_llama, isl=24, osl=4, device="cpu", warmup=1, repeats=3, profile=False)


def test_each_repeat_gives_one_prefill_and_a_step_for_every_further_token(
    settings: RunSettings,
) -> None:
    phases = run_model(settings).measurement.phases
    assert len(phases["prefill"].samples_s) == 3
    assert len(phases["decode"].samples_s) == 3 * 3
    assert all(t > 0 for phase in phases.values() for t in phase.samples_s)


def test_one_output_token_has_no_decode_phase(settings: RunSettings) -> None:
    assert set(run_model(replace(settings, osl=1)).measurement.phases) == {"prefill"}


def test_a_run_says_what_ran(settings: RunSettings) -> None:
    run = run_model(settings)
    facts = run.measurement.facts
    assert facts["dtype"] == "bfloat16" and facts["layers"] == 4 and facts["clock"] == "cpu"
    embedding, attention = 256 * 64, 2 * 64 * 64 + 2 * 64 * 32
    layer = attention + 3 * 64 * 192 + 2 * 64
    assert run.parameters == embedding + 4 * layer + 64
    assert run.use is None


def test_the_operator_table_splits_time_by_phase_and_counts_products(
    settings: RunSettings, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.json.gz"
    run = run_model(replace(settings, repeats=1, profile=True, trace_path=str(trace)))
    table = run.measurement.operators
    products = table[(table["name"] == "aten::mm")].set_index("phase")
    assert set(table["phase"]) == {"prefill", "decode"}
    assert products.loc["prefill", "count"] == 4 * 7 + 1
    assert products.loc["decode", "count"] == 3 * (4 * 7 + 1)
    assert set(products["kind"]) == {"gemm"}
    assert "attention" in set(table["kind"])
    with gzip.open(trace, "rt") as file:
        assert json.load(file)["traceEvents"]


def test_a_trace_that_was_collected_is_read_back(settings: RunSettings, tmp_path: Path) -> None:
    from profilers.readers import read_report

    trace = tmp_path / "trace.json"
    run = run_model(replace(settings, repeats=1, profile=True, trace_path=str(trace)))
    report = read_report(trace)
    assert report.format == "torch-trace" and not len(report.kernels)
    ranges = report.ranges["name"].astype(str).tolist()
    assert ranges.count("prefill") == 1 and ranges.count("decode") == run.settings.osl - 1


def test_running_out_of_memory_is_a_result_and_not_a_crash(settings: RunSettings) -> None:
    run = run_model(replace(settings, batch=2**44, isl=1024))
    assert run.out_of_memory
    assert "ran out of memory at batch" in run.measurement.notes[0]
    assert run.measurement.phases == {}


@pytest.mark.slow
@pytest.mark.parametrize("width", [2**20, 2**40], ids=["while it is built", "at first sight"])
def test_a_model_too_large_for_the_host_is_a_result_too(settings: RunSettings, width: int) -> None:
    """A product of 2^40 weights, which its embedding of 8 words does not suggest."""
    config = {**dict(settings.config), "vocab_size": 8, "intermediate_size": 8}  # type: ignore[arg-type]
    huge = {**config, "hidden_size": width, "num_attention_heads": 16}
    run = run_model(replace(settings, config=huge))
    assert run.out_of_memory and run.measurement.phases == {}


def test_a_cancelled_run_keeps_the_repeats_that_were_complete(settings: RunSettings) -> None:
    answers = iter([False, False, False, True])
    run = run_model(settings, cancelled=lambda: next(answers))
    assert run.cancelled
    assert len(run.measurement.phases["prefill"].samples_s) == 2
    assert "cancelled after 2 of 3 repeats" in run.measurement.notes


def test_cancelling_before_anything_is_complete_says_so(settings: RunSettings) -> None:
    with pytest.raises(Cancelled):
        run_model(settings, cancelled=lambda: True)


def test_progress_never_runs_backwards_and_ends_at_one(settings: RunSettings) -> None:
    seen: list[float] = []
    run_model(replace(settings, profile=True), progress=lambda share, what: seen.append(share))
    assert seen == sorted(seen) and seen[-1] == 1.0


def test_a_cut_model_is_scaled_back_to_all_layers(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []

    def watched(*asked: Any) -> ModelRun:
        runs.append(run_model(*asked))
        return runs[-1]

    monkeypatch.setattr("profilers.collect.model.run_model", watched)
    scaled = run_scaled(replace(settings, layers=2)).measurement
    assert "measured with 2 and 1 of 4 layers" in scaled.notes[0]
    two, one = (run.measurement.phases["decode"] for run in runs)
    per_layer = [t - one.median_s for t in two.samples_s]
    expected = [max(t, t + 2 * d) for t, d in zip(two.samples_s, per_layer, strict=True)]
    assert scaled.phases["decode"].samples_s == pytest.approx(expected)


def test_operators_of_a_cut_model_run_as_often_as_those_of_the_whole_one(
    settings: RunSettings,
) -> None:
    profiled = replace(settings, profile=True, repeats=1)
    whole = run_model(profiled).measurement.operators
    scaled = run_scaled(replace(profiled, layers=2)).measurement.operators
    keys = ["phase", "name"]
    both = scaled.merge(whole[whole["name"].isin(["aten::mm", "aten::silu"])], on=keys)
    assert len(both) == 4 and (both["count_x"] == both["count_y"]).all()
    assert both["flops_x"].dropna().to_numpy() == pytest.approx(both["flops_y"].dropna())
    assert len(both["flops_x"].dropna()) == 2
    assert scaled["time_s"].is_monotonic_decreasing


def test_eager_attention_and_fp32_run_too(settings: RunSettings) -> None:
    other = replace(settings, attention="eager", dtype="float32", repeats=1)
    assert run_model(other).measurement.facts["attention"] == "eager"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch": 0}, "batch = 0"),
        ({"isl": 0}, "isl = 0"),
        ({"repeats": 0}, "repeats = 0"),
        ({"dtype": "int8"}, "no floating type 'int8'"),
        ({"dtype": "nonsense"}, "no floating type 'nonsense'"),
        ({"device": "tpu"}, "there is no device 'tpu'"),
        ({"attention": "owner/kernel"}, "attention = 'owner/kernel': choose sdpa, eager"),
        ({"layers": 9}, "cannot cut to 9 of 4 layers"),
        ({"config": {"model_type": "nothing-known"}}, "cannot read this config"),
        ({"config": "/nowhere/at/all"}, "cannot read this config"),
    ],
)
def test_settings_that_cannot_run_end_in_one_sentence(
    settings: RunSettings, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(MeasurementError) as caught:
        run_model(replace(settings, **change))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_module_ranges_leave_no_hooks_behind(settings: RunSettings) -> None:
    import torch

    model, _ = build(settings, pick_device("cpu"))
    with module_ranges(model), torch.inference_mode():
        model(torch.zeros(1, 4, dtype=torch.long))
    assert not any(module._forward_hooks for module in model.modules())
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_a_saved_checkpoint_needs_no_default_device(
    settings: RunSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers requires accelerate if it loads a checkpoint under a default device."""
    import torch
    import transformers
    from transformers.integrations import accelerate

    folder = tmp_path / "real"
    built, _ = build(settings, torch.device("cpu"))
    built.save_pretrained(folder)
    monkeypatch.setattr(accelerate, "is_accelerate_available", lambda *_: False)
    with pytest.raises(ValueError, match="accelerate"), torch.device("cpu:0"):
        transformers.AutoModelForCausalLM.from_pretrained(folder)
    real = replace(settings, config=str(folder), device="cpu:0")
    loaded, layers = build(real, pick_device("cpu:0"))
    assert layers == 4 and next(loaded.parameters()).dtype == torch.bfloat16
    for name, weight in built.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], weight), name
    assert len(run_model(real).measurement.phases["decode"].samples_s) == 3 * 3
    assert run_model(replace(real, layers=2)).measurement.facts["layers"] == 2
