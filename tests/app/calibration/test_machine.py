"""`calibrate machine`: this machine as a system, calibrated from a few real kernels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from genz_core.errors import RidgelineError
from profilers.collect.clock import OVERLOADED, contention

pytestmark = pytest.mark.usefixtures("torch_threads", "own_data", "free_cores")
HERE = ("--threads", "1", "--device", "cpu")


def few_cases(device: Any) -> list[Any]:
    """A few real microbenchmarks, so that a calibration takes seconds."""
    from profilers.collect import cases

    return [
        *(cases.gemm(m, 384, 768) for m in (1, 8, 64)),
        cases.gemm(256, 1536, 1536),
        cases.prefill_attention(1, 96, 4, 2, 64),
        cases.decode_attention(1, 192, 4, 2, 64),
        *(cases.add(2**power * 96) for power in (5, 10, 13)),
        cases.stream("read", device),
    ]


@pytest.fixture(scope="module")
def calibrated() -> Any:
    """This machine, calibrated from those few cases."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from app.calibration import machine
    from profilers.collect import microbenchmarks as micro

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(micro, "standard_cases", few_cases)
        return machine.calibrate("cpu", 1, anyway=True)


@pytest.mark.slow
def test_a_calibrated_machine_is_a_system_like_any_other(
    answer, tiny: str, calibrated: Any
) -> None:
    import hardware_db
    from app.calibration import machine

    paths = machine.save(calibrated)
    assert {path.parent.name for path in paths} == {"systems", "profiles", "engines"}
    system = hardware_db.load("this-machine")
    assert system.latency is not None and system.latency.tier == "measured"
    assert system.latency.fit("gemm", "bf16").points == 4
    assert system.latency.fit("moe", "bf16").tier == "default"
    assert hardware_db.load_engine("hf-this-machine").eager is not None
    run = answer(
        "measure", tiny, "--isl", "16", "--osl", "3", "--repeats", "1", *HERE, "--no-profile"
    )
    prefill, decode = run["phases"]
    assert prefill["predicted_s"] > 0 and decode["predicted_s"] > 0
    assert answer("doctor")["calibrated"] is True


def test_a_calibrated_cpu_does_not_stand_for_a_gpu(calibrated: Any, config: dict[str, Any]) -> None:
    from app.calibration import machine
    from app.measuring.prediction import run_context
    from profilers.collect.machine import cpu
    from profilers.collect.measured_model import RunSettings

    machine.save(calibrated)
    settings = RunSettings(config)
    gpu = run_context(settings, "NVIDIA H100 80GB HBM3")
    assert gpu.system is not None and gpu.system.slug == "h100-sxm5-80gb"
    assert gpu.engine.name == "hf"
    own = run_context(settings, cpu().name, threads=9)
    assert own.system is not None and own.system.slug == "this-machine"
    assert own.engine.name == "hf-this-machine"
    assert any("calibrated with 1 threads and ran with 9" in note for note in own.notes)


def test_what_is_saved_prices_as_what_was_fitted(calibrated: Any) -> None:
    import hardware_db
    from app.calibration import machine

    machine.save(calibrated)
    saved, fitted = hardware_db.load("this-machine").latency, calibrated.system.latency
    assert saved is not None
    for operator, fmt in (("gemm", "bf16"), ("decode_attention", "bf16/bf16")):
        for name in fitted.constants(operator, fmt).__dataclass_fields__:
            stored = getattr(saved.constants(operator, fmt), name)
            assert stored == pytest.approx(getattr(fitted.constants(operator, fmt), name), rel=1e-3)


def test_a_second_calibration_does_not_start_from_the_first(calibrated: Any) -> None:
    import hardware_db
    from app.calibration import machine

    machine.save(calibrated)
    again = hardware_db.load({**calibrated.document, "id": "uncalibrated"})
    assert again.latency is not None and again.latency.fit("gemm", "bf16").tier == "default"


def test_a_machine_that_disagrees_with_itself_is_to_be_measured_again(calibrated: Any) -> None:
    """Its bandwidth was measured while other programs used the memory, its attention was not."""
    from app.calibration import machine

    measured = calibrated.measurements
    slow = [
        replace(result, samples_s=tuple(100 * s for s in result.samples_s))
        if result.operator == "read"
        else result
        for result in measured.suite.results
    ]
    with pytest.raises(
        RidgelineError, match="calibrate again while nothing else runs on this machine"
    ):
        suite = replace(measured.suite, results=tuple(slow))
        machine.fit_machine(replace(measured, suite=suite))


def test_calibrating_from_the_command_line_says_what_it_kept(
    answer, monkeypatch: pytest.MonkeyPatch, calibrated: Any
) -> None:
    from app.calibration import machine

    monkeypatch.setattr(machine, "calibrate", lambda *a, **k: calibrated)
    done = answer("calibrate", "machine")
    assert done["system"] == "this-machine" and len(done["files"]) == 3
    assert {"gemm.bf16", "pointwise.default"} <= {row["operator"] for row in done["operators"]}
    assert answer("calibrate", "machine", "--no-save")["files"] == []


@pytest.mark.slow
def test_the_loop_predicts_a_model_it_never_saw(answer, tmp_path: Path) -> None:
    """Within 15 % on cores that were idle during the calibration; on busy cores it measures the
    load.
    """
    pytest.importorskip("torch")
    page = tmp_path / "accuracy.md"
    before = contention(1)
    done = answer(
        "calibrate", "machine", *HERE, "--validate", "--rounds", "2", "--output", str(page)
    )
    assert done["points"] >= 12
    assert 0 < done["noise"] < 0.5
    assert "Repeats differ by" in page.read_text(encoding="utf-8")
    busy = max(before, contention(1))
    if done["median_error"] > 0.15 and busy > OVERLOADED:
        pytest.skip(f"other programs use the cores: {busy:.2f} times the processor time")
    assert done["median_error"] <= 0.15, f"at a contention of {busy:.2f}"


def test_a_model_that_was_fitted_on_says_nothing_and_is_refused(
    calibrated: Any, config: dict[str, Any]
) -> None:
    from app.calibration.machine_validation import validate
    from genz_core.errors import MeasurementError

    fitted_on = {**config, "hidden_size": 768, "intermediate_size": 384, "head_dim": 64}
    with pytest.raises(MeasurementError, match="calibration points"):
        validate(calibrated, fitted_on, rounds=1)


def test_an_unwritable_folder_ends_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, calibrated: Any
) -> None:
    from app.calibration import machine
    from genz_core.errors import MeasurementError

    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path / "file"))
    with pytest.raises(MeasurementError, match="cannot write"):
        machine.save(calibrated)


@pytest.mark.slow
def test_figures_from_shared_cores_come_with_their_doubts(
    calibrated: Any, monkeypatch: pytest.MonkeyPatch, config: dict[str, Any]
) -> None:
    from app.calibration.machine_document import markdown, summary
    from app.calibration.machine_validation import validate
    from profilers.collect import microbenchmarks as micro
    from profilers.steps import StepPoint

    monkeypatch.setattr(micro, "standard_cases", few_cases)
    points = [StepPoint("prefill", 1, 8), StepPoint("decode", 1, 8)]
    validation = validate(calibrated, config, points, rounds=1)
    assert any("give --rounds 2" in doubt for doubt in validation.doubts)
    busy = replace(
        validation.machine, measurements=replace(validation.machine.measurements, contention=2.0)
    )
    shared = replace(validation, machine=busy, run=replace(validation.run, threads=2))
    assert any("--threads 1" in doubt for doubt in shared.doubts)
    assert "Doubt: other programs" in markdown(shared)
    assert summary(shared)["points"] == 2


def test_a_small_model_takes_the_time_that_a_few_kernels_of_this_machine_say(
    answer, tmp_path: Path, config: dict[str, Any], calibrated: Any
) -> None:
    """Kernels are measured, constants fitted, a model priced and then measured: only the machine is
    common to both ends.  The tolerance is a factor of three, because other tests may run during one
    of the two measurements.
    """
    from app.calibration import machine

    machine.save(calibrated)
    sizes = {"hidden_size": 1024, "intermediate_size": 2816, "num_hidden_layers": 6}
    model = tmp_path / "small.json"
    model.write_text(json.dumps({**config, **sizes, "num_attention_heads": 16}), encoding="utf-8")
    run = answer(
        "measure", str(model), "--isl", "64", "--osl", "4", "--repeats", "2", *HERE, "--no-profile"
    )
    for phase in run["phases"]:
        assert 1 / 3 < phase["predicted_s"] / phase["p50_s"] < 3.0


def test_products_of_narrow_weights_are_fed_as_products_were_measured(calibrated: Any) -> None:
    gemm = calibrated.system.latency.parameters["gemm"]
    rows = [one for one in calibrated.suite.results_of("gemm") if one.dims["m"] == 1]
    reached = max(one.moved / one.median_s for one in rows) / calibrated.suite.memory_bytes_per_s
    within = min(max(reached, 0.2), 1.0)  # the bounds of the constant
    assert gemm["int8_weight_only"].memory_efficiency == pytest.approx(within)
    assert gemm["int8_weight_only"].overlap == gemm["bf16"].overlap
    assert gemm["int8_weight_only"].launch_s != gemm["bf16"].launch_s


def test_the_time_of_a_request_is_not_said_to_be_measured(calibrated: Any) -> None:
    import hardware_db

    stated = hardware_db.engine_facts("hf").model_dump(mode="json")["host_request_ms"]
    assert calibrated.engine_document["host_request_ms"] == stated
