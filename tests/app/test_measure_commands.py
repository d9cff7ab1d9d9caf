"""The commands that measure: doctor, measure, collect and calibrate, as a user types them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from app import kept_runs
from app.cli import cli
from genz_core.errors import RidgelineError
from genz_core.types import Parallelism
from profilers import runfile

TINY = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
    "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5, "tie_word_embeddings": True,
}  # fmt: skip


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    before = torch.get_num_threads()
    folder = tmp_path / "data"
    monkeypatch.setenv("RIDGELINE_DATA", str(folder))
    yield folder
    torch.set_num_threads(before)


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(TINY), encoding="utf-8")
    return str(path)


@pytest.fixture
def ridgeline() -> Callable[..., Result]:
    def call(*arguments: str) -> Result:
        return CliRunner().invoke(cli, list(arguments), catch_exceptions=True)

    return call


def answer(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_doctor_answers_in_json(ridgeline) -> None:
    found = answer(ridgeline("doctor", "--json"))
    assert {"cpu", "torch", "nvml", "nsys", "ncu", "nvtx"} <= {c["name"] for c in found["checks"]}
    assert found["calibrated"] is False


def test_measuring_a_model_needs_no_subcommand(ridgeline, tiny: str) -> None:
    run = answer(
        ridgeline(
            "measure", tiny, "--isl", "16", "--osl", "3", "--repeats", "2", "--threads", "1",
            "--device", "cpu", "--json",
        )
    )  # fmt: skip
    assert run["status"] == "ok" and run["batch"] == 1
    assert [len(run["samples_s"][phase]) for phase in ("prefill", "decode")] == [2, 4]
    assert {row["phase"] for row in run["operators"]} == {"prefill", "decode"}
    assert any("ridgeline calibrate machine" in note for note in run["notes"])


def test_a_named_system_brings_prediction_mfu_and_mbu(ridgeline, tiny: str) -> None:
    run = answer(
        ridgeline(
            "measure", "run", tiny, "--isl", "16", "--osl", "3", "--repeats", "1", "--threads", "1",
            "--device", "cpu", "--no-profile", "--system", "epyc-9654", "--json",
        )
    )  # fmt: skip
    for row in run["phases"]:
        assert 0 < row["mfu"] < 1 and 0 < row["mbu"] < 1
        assert row["error"] == pytest.approx(row["predicted_s"] / row["p50_s"] - 1)
        assert row["bound_s"] <= row["predicted_s"]
        ends, inside = (row["low_s"], row["high_s"]), row["inside"]
        if None in ends:
            assert ends == (None, None) and inside is None
        else:
            assert ends[0] <= row["predicted_s"] <= ends[1]
            assert inside is (ends[0] <= row["p50_s"] <= ends[1])


def test_a_run_is_kept_with_its_tag_unless_told_not_to(ridgeline, tiny: str) -> None:
    from app import kept_runs

    arguments = (
        "measure", tiny, "--isl", "16", "--osl", "2", "--repeats", "1", "--threads", "1",
        "--device", "cpu", "--no-profile", "--json",
    )  # fmt: skip
    assert answer(ridgeline(*arguments, "--no-keep"))["run"] is None
    assert kept_runs.store().runs() == []
    kept = answer(ridgeline(*arguments, "--tag", "one", "--tag", "two"))["run"]
    (run,) = kept_runs.store().runs("two")
    assert run.id == kept and run.tags == ("one", "two")


def test_the_trace_goes_where_it_is_asked_and_with_the_run(
    ridgeline, tiny: str, tmp_path: Path
) -> None:
    from app import kept_runs

    trace = tmp_path / "mine.json.gz"
    arguments = ("--isl", "16", "--osl", "2", "--repeats", "1", "--threads", "1", "--device", "cpu")
    kept = answer(ridgeline("measure", tiny, *arguments, "--trace", str(trace), "--json"))["run"]
    assert trace.read_bytes() == (kept_runs.store().path(kept) / "trace.json.gz").read_bytes()
    plain = trace.with_suffix("")
    answer(ridgeline("measure", tiny, *arguments, "--trace", str(plain), "--no-keep", "--json"))
    assert json.loads(plain.read_text())["traceEvents"]


@pytest.mark.parametrize(
    "command",
    [
        ("measure", "no-such-model", "--trace"),
        ("measure", "sweep", "no-such-model", "--output"),
        ("collect", "microbench", "--device", "abacus", "--output"),
        ("collect", "top-kernels", "no-such-report", "--output"),
        ("calibrate", "machine", "--device", "abacus", "--validate", "--output"),
        ("validate", "no-such-set", "--rows"),
    ],
)
def test_a_file_that_has_no_place_is_refused_before_anything_else(
    ridgeline, tmp_path: Path, command: tuple[str, ...]
) -> None:
    places = {tmp_path / "nowhere" / "file": "nowhere is no folder", tmp_path: "is a folder; name"}
    for place, words in places.items():
        done = ridgeline(*command, str(place))
        assert isinstance(done.exception, RidgelineError), done.output
        assert words in str(done.exception)


def test_a_file_that_the_disk_refuses_is_a_sentence(tmp_path: Path) -> None:
    from app.commands.options import write

    with pytest.raises(RidgelineError, match=r"gone\.csv cannot be written: No such file"):
        write(tmp_path / "gone" / "gone.csv", "late")


def test_running_out_of_memory_is_reported_and_exits_well(ridgeline, tiny: str) -> None:
    run = answer(ridgeline("measure", tiny, "--batch", str(2**44), "--device", "cpu", "--json"))
    assert run["status"] == "out_of_memory" and run["phases"] == [] and run["run"] is None


def test_a_sweep_gives_rows_agreement_and_a_csv(ridgeline, tiny: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    sweep = answer(
        ridgeline(
            "measure", "sweep", tiny, "--batches", "1:2:x2", "--lengths", "16,32", "--rounds", "1",
            "--threads", "1", "--device", "cpu", "--system", "epyc-9654", "--output", str(path),
            "--json",
        )
    )  # fmt: skip
    assert len(sweep["rows"]) == 8 and {r["status"] for r in sweep["rows"]} == {"ok"}
    assert set(sweep["agreement"]) == {"all", "prefill", "decode"}
    assert {"mape", "r2", "slope", "intercept_s"} <= set(sweep["agreement"]["decode"])
    assert len(path.read_text().splitlines()) == 9


SMALL = ("--threads", "1", "--device", "cpu", "--system", "epyc-9654", "--rounds", "1")


def test_a_sweep_is_one_kept_run_with_its_steps(ridgeline, tiny: str) -> None:
    said = answer(
        ridgeline(
            "measure", "sweep", tiny, "--batches", "1,2", "--lengths", "16", "--phases", "decode",
            "--tag", "grid", *SMALL, "--json",
        )
    )  # fmt: skip
    (run,) = kept_runs.store().runs("grid")
    assert (said["run"], run.label, run.phases) == (run.id, "tiny, sweep of 2 steps", {})
    steps = kept_runs.store().load(run.id).steps
    assert [str(step.point) for step in steps] == ["decode 1 x 16", "decode 2 x 16"]
    assert [step.median_s for step in steps] == [row["measured_s"] for row in said["rows"]]
    folder = kept_runs.store().path(run.id)
    assert "| decode | 2 | 16 | ok |" in (folder / "report.md").read_text()
    figures = json.loads((folder / "metrics.json").read_text())
    assert figures["agreement"]["decode"]["mape"] == said["agreement"]["decode"]["mape"]
    assert "2 of 2 sizes were timed" in (folder / "stakeholder_summary.md").read_text()


def test_a_sweep_that_is_not_to_be_kept_is_not(ridgeline, tiny: str, own_data: Path) -> None:
    grid = ("--batches", "1", "--lengths", "16", "--phases", "decode", *SMALL)
    said = answer(ridgeline("measure", "sweep", tiny, *grid, "--no-keep", "--json"))
    assert said["run"] is None and not (own_data / "runs").exists()


def test_a_kept_sweep_runs_again_from_its_inputs(ridgeline, tiny: str) -> None:
    grid = ("--batches", "1", "--lengths", "16,32", "--phases", "prefill", *SMALL)
    kept = answer(ridgeline("measure", "sweep", tiny, *grid, "--json"))["run"]
    inputs = kept_runs.store().path(kept) / "inputs.yaml"
    assert ridgeline("runs", "start", "--file", str(inputs)).exit_code == 0
    first, again = ([str(s.point) for s in kept_runs.store().load(run.id).steps]
                    for run in kept_runs.store().runs())  # fmt: skip
    assert first == again == ["prefill 1 x 16", "prefill 1 x 32"]


def test_a_size_beyond_memory_is_kept_as_such(ridgeline, tiny: str) -> None:
    grid = ("--batches", f"1,{2**40}", "--lengths", "16", "--phases", "decode", *SMALL)
    kept = answer(ridgeline("measure", "sweep", tiny, *grid, "--json"))["run"]
    steps = kept_runs.store().load(kept).steps
    assert [step.status for step in steps] == ["ok", "out_of_memory"]


def ranked(monkeypatch: pytest.MonkeyPatch, device: str, backend: str) -> None:
    """`run_ranks` answers at once, as two ranks on such a device would."""
    from profilers.collect import distributed

    def run_ranks(settings: Any, ranks: int, *_: object) -> Any:
        one = {
            "phases": {"prefill": [0.02], "decode": [0.01, 0.012]}, "device": device,
            "facts": {"backend": backend}, "collectives": [],
        }  # fmt: skip
        slow = {**one, "phases": {"prefill": [0.03], "decode": [0.009, 0.013]}}
        return distributed.merge([one, slow], settings)

    monkeypatch.setattr(distributed, "run_ranks", run_ranks)


def test_ranks_are_kept_with_the_times_of_each(ridgeline, tiny: str, monkeypatch) -> None:
    ranked(monkeypatch, "", "gloo")
    said = answer(ridgeline("measure", "ranks", tiny, "--tp", "2", "--tag", "two", "--json"))
    (run,) = kept_runs.store().runs("two")
    assert (said["run"], run.label) == (run.id, "tiny, 2 ranks")
    assert run.phases == {"prefill": 0.03, "decode": 0.0115}
    assert kept_runs.store().load(run.id).facts["world_size"] == 2
    folder = kept_runs.store().path(run.id)
    figures = json.loads((folder / "metrics.json").read_text())
    assert [rank["prefill"] for rank in figures["ranks"]] == [[0.02], [0.03]]
    assert "ranks on CPUs share cores" in (folder / "assumptions.md").read_text()
    assert "tp: 2" in (folder / "inputs.yaml").read_text()
    assert ridgeline("measure", "ranks", tiny, "--no-keep").exit_code == 0
    assert len(kept_runs.store().runs()) == 1


def test_ranks_on_gpus_are_predicted_as_devices_that_share_the_model(
    ridgeline, monkeypatch
) -> None:
    """Two devices read half of the weights each, and the halves hold for products alone."""
    ranked(monkeypatch, "NVIDIA H100 80GB HBM3", "nccl")
    bounds = {}
    for ranks in (2, 0):
        tree = runfile.compose([f"ranks.tp={ranks or 2}", "model=qwen3-8b", "isl=512"])
        outcome = kept_runs.perform(tree, Path())
        known = outcome.known if ranks else replace(outcome.known, split=Parallelism())
        predicted = kept_runs.prediction(outcome.measurement, known)
        assert predicted is not None
        bounds[ranks] = float(predicted.decode.bound_total_s[0])
    assert 0.5 < bounds[2] / bounds[0] < 0.6


@pytest.mark.slow
def test_two_ranks_of_this_machine_are_measured_and_kept(ridgeline, tiny: str) -> None:
    small = ("--isl", "8", "--osl", "3", "--repeats", "2", "--device", "cpu")
    said = answer(ridgeline("measure", "ranks", tiny, *small, "--json"))
    kept = kept_runs.store().load(said["run"])
    assert len(kept.phases["decode"].samples_s) == 4 and kept.facts["backend"] == "gloo"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("measure", "no-such-model"), "unknown model"),
        (("measure", "TINY", "--batch", "0"), "batch = 0"),
        (("measure", "TINY", "--device", "abacus"), "there is no device 'abacus'"),
        (("measure", "TINY", "--dtype", "int3"), "no floating type"),
        (("measure", "TINY", "--layers", "3"), "cut to 3 of 2 layers"),
        (("measure", "TINY", "--trace", "t.json", "--no-profile"), "leave out --no-profile"),
        (("measure", "TINY", "--tag", "one", "--no-keep"), "leave out --no-keep"),
        (("calibrate", "machine", "--output", "a.md"), "give both"),
        (("measure", "sweep", "TINY", "--phases", "lunch"), "unknown phase 'lunch'"),
        (("measure", "sweep", "TINY", "--batches", "x"), "batches 'x': give"),
        (("measure", "sweep", "TINY", "--batches", "0.2"), "sizes start at 1"),
        (("measure", "sweep", "TINY", "--batches", ""), "batches '': give"),
        (
            ("measure", "sweep", "TINY", "--batches", "1:99:1", "--lengths", "1:99:1"),
            "19602 points",
        ),
        (("measure", "sweep", "TINY", "--rounds", "0"), "rounds = 0"),
        (("measure", "sweep", "TINY", "--tag", "one", "--no-keep"), "leave out --no-keep"),
        (("measure", "ranks", "TINY", "--tag", "one", "--no-keep"), "leave out --no-keep"),
        (("measure", "ranks", "TINY", "--tp", "65"), "65 ranks: give 1 to 64"),
        (("runs", "start", "model=TINY", "sweep.batches=1", "ranks.tp=2"), "ask for one of them"),
        (("runs", "start", "model=TINY", "sweep.batches=1", "profile=nsys"), "ask for one of them"),
        (("measure", "infer", "nowhere", "no-file.txt"), "cannot be read"),
        (("collect", "nsys", "TINY", "--capture", "all"), "unknown capture 'all'"),
        (("collect", "nsys", "TINY", "--capture", "nvtx"), "needs the name of a range"),
        (("collect", "top-kernels", "TINY"), 'no "traceEvents"'),
    ],
)
def test_bad_input_is_one_sentence(
    ridgeline, tiny: str, arguments: tuple[str, ...], message: str
) -> None:
    result = ridgeline(*(tiny if part == "TINY" else part for part in arguments))
    assert isinstance(result.exception, RidgelineError), result.exception
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)


def test_a_sweep_of_a_cut_model_is_predicted_cut(ridgeline, tiny: str) -> None:
    arguments = (
        "measure", "sweep", tiny, "--batches", "1", "--lengths", "16", "--phases", "decode",
        "--rounds", "1", "--threads", "1", "--device", "cpu", "--system", "epyc-9654", "--json",
    )  # fmt: skip
    whole, half = (answer(ridgeline(*arguments, *more)) for more in ((), ("--layers", "1")))
    assert half["rows"][0]["bound_s"] < 0.8 * whole["rows"][0]["bound_s"]


def test_commands_for_nsight_can_be_printed_where_it_is_missing(ridgeline, tiny: str) -> None:
    result = ridgeline("collect", "nsys", "--print", tiny, "--isl", "8")
    assert result.exit_code == 0
    assert "--cuda-graph-trace=node" in result.stdout and "--no-profile" in result.stdout
    assert "--isl 8" in result.stdout
    result = ridgeline("collect", "ncu", "--print", "--program", "--", "python", "x.py", "--isl")
    assert result.stdout.strip().endswith("python x.py --isl")


def test_top_kernels_become_a_yaml_and_that_a_run_each(ridgeline, tmp_path: Path) -> None:
    summary = (
        Path(__file__).parents[1] / "fixtures/reports/csv/llm-perf-opt/decode_cuda_gpu_kern_sum.csv"
    )
    top = tmp_path / "top.yaml"
    assert (
        ridgeline(
            "collect", "top-kernels", str(summary), "--topk", "3", "--output", str(top)
        ).exit_code
        == 0
    )
    printed = ridgeline(
        "collect", "ncu", "--print", "--kernels", str(top), "--program", "work"
    ).stdout
    assert printed.count("--kernel-name=regex:^") == 3


def few_cases(device: Any) -> list[Any]:
    """A few real microbenchmarks, so that a calibration takes seconds."""
    from profilers.collect import cases

    return [
        *(cases.gemm(m, 384, 768) for m in (1, 8, 64)),
        cases.prefill_attention(1, 96, 4, 2, 64),
        cases.decode_attention(1, 192, 4, 2, 64),
        *(cases.add(2**power * 96) for power in (5, 10, 13)),
        cases.stream("read", device),
    ]


@pytest.fixture(scope="module")
def calibrated() -> Any:
    """This machine, really calibrated, from those few."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from app import this_machine
    from profilers.collect import microbenchmarks as micro

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(micro, "standard_cases", few_cases)
        return this_machine.calibrate("cpu", 1)


def test_a_calibrated_machine_is_a_system_like_any_other(
    ridgeline, tiny: str, calibrated: Any
) -> None:
    import hardware_db
    from app import this_machine
    from profilers.collect.eager import EagerFacts

    paths = this_machine.save(calibrated)
    assert {path.parent.name for path in paths} == {"systems", "profiles", "engines"}
    system = hardware_db.load("this-machine")
    assert system.latency is not None and system.latency.tier == "measured"
    assert system.latency.fit("gemm", "bf16").points == 3
    assert system.latency.fit("moe", "bf16").tier == "default"
    assert EagerFacts.of(hardware_db.load_engine("hf-this-machine")) is not None
    run = answer(
        ridgeline(
            "measure", tiny, "--isl", "16", "--osl", "3", "--repeats", "1", "--threads", "1",
            "--device", "cpu", "--no-profile", "--json",
        )
    )  # fmt: skip
    assert all(row["predicted_s"] > 0 for row in run["phases"])
    assert answer(ridgeline("doctor", "--json"))["calibrated"] is True


def test_a_calibrated_cpu_does_not_stand_for_a_gpu(calibrated: Any) -> None:
    from app import this_machine
    from app.measuring import setting
    from profilers.collect.building import RunSettings
    from profilers.collect.machine import cpu

    this_machine.save(calibrated)
    settings = RunSettings(TINY)
    gpu = setting(settings, "NVIDIA H100 80GB HBM3")
    assert gpu.system is not None and gpu.system.slug == "h100-sxm5-80gb"
    assert gpu.engine.name == "hf"
    own = setting(settings, cpu().name, threads=9)
    assert own.system is not None and own.system.slug == "this-machine"
    assert own.engine.name == "hf-this-machine"
    assert any("calibrated with 1 threads and ran with 9" in note for note in own.notes)


def test_what_is_saved_prices_as_what_was_fitted(calibrated: Any) -> None:
    import hardware_db
    from app import this_machine

    this_machine.save(calibrated)
    saved, fitted = hardware_db.load("this-machine").latency, calibrated.system.latency
    assert saved is not None
    for operator, fmt in (("gemm", "bf16"), ("decode_attention", "bf16/bf16")):
        for name in fitted.constants(operator, fmt).__dataclass_fields__:
            stored = getattr(saved.constants(operator, fmt), name)
            assert stored == pytest.approx(getattr(fitted.constants(operator, fmt), name), rel=1e-3)


def test_a_second_calibration_does_not_start_from_the_first(calibrated: Any) -> None:
    import hardware_db
    from app import this_machine

    this_machine.save(calibrated)
    again = hardware_db.load({**calibrated.document, "id": "uncalibrated"})
    assert again.latency is not None and again.latency.fit("gemm", "bf16").tier == "default"


def test_a_machine_that_disagrees_with_itself_is_to_be_measured_again(calibrated: Any) -> None:
    """Its stream ran while others used the memory, its attention did not."""
    from app import this_machine

    pieces = calibrated.pieces
    slow = [
        replace(result, samples_s=tuple(1e3 * s for s in result.samples_s))
        if result.operator == "read"
        else result
        for result in pieces.suite.results
    ]
    with pytest.raises(RidgelineError, match="calibrate again while nothing else runs here"):
        this_machine.fitted(replace(pieces, suite=replace(pieces.suite, results=tuple(slow))))


def test_calibrating_from_the_command_line_says_what_it_kept(
    ridgeline, monkeypatch: pytest.MonkeyPatch, calibrated: Any
) -> None:
    from app import this_machine

    monkeypatch.setattr(this_machine, "calibrate", lambda *a, **k: calibrated)
    done = answer(ridgeline("calibrate", "machine", "--json"))
    assert done["system"] == "this-machine" and len(done["files"]) == 3
    assert {"gemm.bf16", "pointwise.default"} <= {row["operator"] for row in done["operators"]}
    assert answer(ridgeline("calibrate", "machine", "--no-save", "--json"))["files"] == []


@pytest.mark.slow
def test_the_loop_predicts_a_model_it_never_saw(ridgeline, tmp_path: Path) -> None:
    page = tmp_path / "accuracy.md"
    done = answer(
        ridgeline(
            "calibrate", "machine", "--threads", "1", "--device", "cpu", "--validate", "--rounds",
            "2", "--output", str(page), "--json",
        )
    )  # fmt: skip
    assert done["points"] >= 12
    assert done["median_error"] <= 0.15
    assert 0 < done["noise"] < 0.5
    assert "Repeats differ by" in page.read_text(encoding="utf-8")


def test_a_model_that_was_fitted_on_says_nothing_and_is_refused(calibrated: Any) -> None:
    from app.machine_accuracy import validate
    from genz_core.errors import MeasurementError

    known = {**TINY, "hidden_size": 768, "intermediate_size": 384, "head_dim": 64}
    with pytest.raises(MeasurementError, match="calibration points"):
        validate(calibrated, known, rounds=1)


def test_an_unwritable_folder_ends_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, calibrated: Any
) -> None:
    from app import this_machine
    from genz_core.errors import MeasurementError

    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("RIDGELINE_DATA", str(tmp_path / "file"))
    with pytest.raises(MeasurementError, match="cannot be written"):
        this_machine.save(calibrated)


def test_figures_from_shared_cores_come_with_their_doubts(
    calibrated: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from app.accuracy_report import markdown, summary
    from app.machine_accuracy import validate
    from profilers.collect import microbenchmarks as micro
    from profilers.steps import StepPoint

    monkeypatch.setattr(micro, "standard_cases", few_cases)
    points = [StepPoint("prefill", 1, 8), StepPoint("decode", 1, 8)]
    found = validate(calibrated, TINY, points, rounds=1)
    assert any("give --rounds 2" in doubt for doubt in found.doubts)
    busy = replace(found.machine, pieces=replace(found.machine.pieces, contention=2.0))
    shared = replace(found, machine=busy, run=replace(found.run, threads=2))
    assert any("--threads 1" in doubt for doubt in shared.doubts)
    assert "Doubt: other programs" in markdown(shared)
    assert summary(shared)["points"] == 2
