"""PyTorch profiler traces: how kernels are attributed to operators, and the variants of files."""

import gzip
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

import profilers
from genz_core.errors import ReportError
from tests.profilers.units import whole_ns

SGLANG_DECODE = "torch/inference_sglang_decode_sglang_Qwen3-8B_decode.json.gz"


def event(category: str, name: str, ts: float, dur: float = 1.0, **args: Any) -> dict[str, Any]:
    shown = {key.replace("_", " "): value for key, value in args.items()}
    return {"ph": "X", "cat": category, "name": name, "ts": ts, "dur": dur, "args": shown}


def kernel(ts: float, dur: float = 1.0, **args: Any) -> dict[str, Any]:
    args = {"device": 0, "stream": 7, "grid": [2, 1, 1], "block": [64, 1, 1]} | args
    return event("kernel", "gemm", ts, dur, **args)


@pytest.fixture
def trace(tmp_path: Path):
    """Writes a trace of the events given."""

    def write(*events: Any, **header: Any) -> Path:
        path = tmp_path / "trace.json"
        path.write_text(json.dumps(header | {"traceEvents": list(events)}))
        return path

    return write


def test_a_kernel_finds_its_operator_by_external_id_or_through_its_launch(trace):
    report = profilers.read_report(
        trace(
            event("cpu_op", "aten::mm", 0, **{"External id": 4, "Input Dims": [[2, 3], [3, 5]]}),
            event("cpu_op", "aten::add", 0, **{"External id": 5}),
            event("cuda_runtime", "cudaLaunchKernel", 1, correlation=9, **{"External id": 5}),
            kernel(10, **{"External id": 4}),
            kernel(20, correlation=9),
            kernel(30, correlation=77),
        )
    )
    assert report.kernels["operator"].tolist()[:2] == ["aten::mm", "aten::add"]
    assert report.kernels["operator"].isna().tolist() == [False, False, True]
    assert report.kernels["input_shapes"].tolist()[0] == "[[2,3],[3,5]]"
    assert report.kernels["flops"].tolist()[0] == 2 * 2 * 3 * 5
    assert "1 kernels have no recorded launch or operator" in report.notes


def test_events_may_come_in_any_order_and_case(trace):
    """Kernels before their operators; categories and keys of the first Kineto versions."""
    report = profilers.read_report(
        trace(
            event("Kernel", "gemm", 10, device=0, stream=7, **{"external id": 4}),
            event("Runtime", "cudaLaunchKernel", 1, correlation=9),
            event("Operator", "aten::mm", 0, **{"external id": 4}),
        )
    )
    assert report.kernels["operator"].tolist() == ["aten::mm"]


def test_what_launched_a_graph_is_not_what_its_kernels_compute(trace):
    launch = event("cuda_runtime", "cudaGraphLaunch", 1, correlation=9, **{"External id": 4})
    report = profilers.read_report(
        trace(
            event("cpu_op", "replay", 0, **{"External id": 4}),
            launch,
            kernel(10, correlation=9),
            kernel(20, **{"graph node id": 3, "External id": 4}),
        )
    )
    assert report.kernels["in_graph"].all()
    assert report.kernels["operator"].isna().all()


def test_annotations_around_the_launch_give_the_phase(trace):
    report = profilers.read_report(
        trace(
            event("user_annotation", "step[DECODE bs=32]", 0, 100),
            event("user_annotation", "layer", 2, 10),
            event("cuda_runtime", "cudaLaunchKernel", 5, correlation=1),
            kernel(500, correlation=1),
        )
    )
    row = report.kernels.iloc[0]
    assert (row["nvtx_path"], row["phase"]) == ("step[DECODE bs=32]/layer", "decode")
    assert row["phase_by"] == "range_pattern"


def test_where_the_launch_was_not_recorded_the_annotation_on_the_device_gives_the_phase(trace):
    report = profilers.read_report(
        trace(
            event("user_annotation", "prefill", 0, 10),
            event("gpu_user_annotation", "prefill", 100, 50),
            kernel(110),
            kernel(300),
        )
    )
    assert report.kernels["phase"].tolist()[0] == "prefill"
    assert report.kernels["phase"].isna().tolist() == [False, True]


def test_times_are_exact_to_the_nanosecond(trace):
    report = profilers.read_report(
        trace(kernel(4909914216204.635, 2417.659), kernel(4909914220000))
    )
    summary = profilers.summarise(report)
    assert whole_ns(summary["kernel_time_s"]) == 2_418_659
    assert summary["span_s"] == pytest.approx(3_796_365e-9, abs=2e-9)


def test_copies_and_sets_are_kept_apart(trace):
    report = profilers.read_report(
        trace(
            event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 1, device=0, bytes=64),
            event("gpu_memset", "Memset (Device)", 2, device=0, bytes=4),
            kernel(5),
        )
    )
    assert report.copies["kind"].tolist() == ["HtoD", "memset"]
    assert profilers.summarise(report)["kernel_count"] == 1


def test_a_trace_of_the_cpu_has_no_kernels_and_says_so(trace):
    report = profilers.read_report(trace(event("cpu_op", "aten::mm", 0, **{"External id": 4})))
    assert profilers.summarise(report)["kernel_count"] == 0
    assert "CPU" in report.notes[0]


def test_operators_of_a_cpu_have_their_own_time_in_the_step_of_their_range(trace):
    """Two decode steps after a prefill, and an operator outside of all."""
    report = profilers.read_report(trace(
        event("user_annotation", "prefill", 0, 100),
        event("cpu_op", "aten::linear", 10, 80), event("cpu_op", "aten::mm", 20, 60),
        event("user_annotation", "decode", 100, 20), event("cpu_op", "aten::mm", 105, 4),
        event("user_annotation", "decode", 120, 40), event("cpu_op", "aten::mm", 125, 6),
        event("cpu_op", "aten::randint", 200, 5),
    ))  # fmt: skip
    run = profilers.measure_from([report])
    rows = run.operators.set_index(["phase", "name"])
    assert rows["time_s"].to_dict() == pytest.approx({
        ("prefill", "aten::mm"): 60e-6, ("prefill", "aten::linear"): 20e-6,
        ("decode", "aten::mm"): 10e-6,
    })  # fmt: skip
    assert rows["count"]["decode", "aten::mm"] == 2 and set(rows["class"]) == {"gemm"}
    assert run.phases["prefill"].samples_s == pytest.approx((100e-6,))
    assert run.phases["decode"].samples_s == pytest.approx((20e-6, 40e-6))


def test_devices_are_those_that_ran_kernels(trace):
    properties = [{"id": i, "name": f"GPU {i}", "numSms": 10} for i in range(8)]
    report = profilers.read_report(trace(kernel(1, device=3), deviceProperties=properties))
    assert [device.name for device in report.devices] == ["GPU 3"]


def test_world_size_and_versions_are_kept_but_nothing_of_the_host(trace):
    report = profilers.read_report(
        trace(
            kernel(1),
            schemaVersion=1,
            cuda_runtime_version=12040,
            distributedInfo={"rank": 1, "world_size": 8, "hostname": "secret"},
            metadata={"system": {"node": "secret"}},
            traceName="/home/secret/trace.json",
        )
    )
    assert report.facts["world_size"] == 8
    assert "secret" not in repr(report) + repr(profilers.summarise(report))


# ------------------------------------------------------------------------------ containers


def test_the_same_trace_reads_alike_plain_in_gzip_and_in_zip(report_path, tmp_path):
    packed = report_path(SGLANG_DECODE)
    plain = tmp_path / "a.dat"
    plain.write_bytes(gzip.decompress(packed.read_bytes()))
    zipped = tmp_path / "b.dat"
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(plain, "trace.json")
    twice = tmp_path / "c.dat"
    with zipfile.ZipFile(twice, "w") as archive:
        archive.write(packed, "trace.json.gz")
    expected = profilers.summarise(profilers.read_report(packed, label="x"))
    for path in (plain, zipped, twice):
        assert profilers.summarise(profilers.read_report(path, label="x")) == expected


def test_gzip_of_several_members_is_read_whole(report_path, tmp_path):
    text = gzip.decompress(report_path(SGLANG_DECODE).read_bytes())
    path = tmp_path / "members.gz"
    path.write_bytes(gzip.compress(text[:100_000]) + gzip.compress(text[100_000:]))
    assert len(profilers.read_report(path).kernels) == 555


@pytest.mark.parametrize("layout", ["list", "pretty", "bom", "header last"])
def test_the_layouts_in_which_traces_are_written_are_read(layout, tmp_path):
    events = [kernel(1), kernel(2)]
    header = {"deviceProperties": [{"id": 0, "name": "GPU"}]}
    texts = {
        "list": json.dumps(events),
        "pretty": json.dumps(header | {"traceEvents": events}, indent=2),
        "bom": "\ufeff" + json.dumps(header | {"traceEvents": events}),
        "header last": json.dumps({"traceEvents": events} | header),
    }
    path = tmp_path / "trace"
    path.write_text(texts[layout], encoding="utf-8")
    report = profilers.read_report(path)
    assert len(report.kernels) == 2
    assert layout == "list" or report.devices[0].name == "GPU"


def test_events_split_over_read_boundaries_are_whole(tmp_path, monkeypatch):
    from profilers.readers import compressed

    path = tmp_path / "trace.json"
    events = [kernel(i + 0.125, padding="x" * (i % 97)) for i in range(300)]
    path.write_text(json.dumps({"traceEvents": events}, indent=1))
    expected = profilers.summarise(profilers.read_report(path))
    for size in (1, 7, 64, 1000):
        monkeypatch.setattr(compressed, "CHUNK_BYTES", size)
        monkeypatch.setattr(
            "profilers.readers.torch_trace.content_chunks",
            lambda p, size=size: compressed.content_chunks(p, size),
        )
        assert profilers.summarise(profilers.read_report(path)) == expected


# ------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"traceEvents": [{"ph": "X"', "cut off"),
        ('{"traceEvents": [', "cut off"),
        ('{"hello": 1}', "traceEvents"),
        ("{}", "traceEvents"),
        ('{"traceEvents": []}', "no event"),
        ('{"traceEvents": {}}', "traceEvents"),
        ('{"traceEvents": [1, 2]}', "not a trace event"),
        ('{"traceEvents": [{"ph":"X","cat":"kernel","name":"a","ts":"soon"}]}', "damaged"),
        ('{"traceEvents": [{"ph":"X","cat":"kernel","name":"a","ts":1,"dur":-1}]}', "damaged"),
        ('{"traceEvents": [{"ph":"X","cat":"kernel","name":"a","ts":NaN,"dur":1}]}', "damaged"),
        ('{"traceEvents": [{"ph":"X","cat":"kernel","name":"a","ts":1e999,"dur":1}]}', "damaged"),
        ('{"traceEvents": [{"ph":"X","cat":"kernel","name":"a","ts":1,"args":[1]}]}', "damaged"),
        ('{"a" 1}', "where ':' is expected"),
        ('{"a": 1 "b": 2}', "between two members"),
        ("{1: 2}", "damaged"),
    ],
)
def test_damaged_traces_are_refused_in_one_sentence(text, message, tmp_path):
    path = tmp_path / "trace.json"
    path.write_text(text)
    with pytest.raises(ReportError, match=message) as caught:
        profilers.read_report(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_json_nested_without_end_is_refused(tmp_path):
    path = tmp_path / "deep.json"
    for text in ("[" * 2_000_000, '{"a":' * 500_000, '{"traceEvents":[' + "[" * 1_000_000):
        path.write_text(text)
        with pytest.raises(ReportError):
            profilers.read_report(path)


def test_a_value_too_large_is_refused_before_it_is_held(tmp_path):
    path = tmp_path / "fat.json"
    path.write_text('{"metadata": "' + "x" * (40 << 20) + '"}')
    with pytest.raises(ReportError, match="too large"):
        profilers.read_report(path)


def test_an_integer_of_a_million_digits_is_refused(tmp_path):
    path = tmp_path / "digits.json"
    path.write_text('{"traceEvents": [' + "9" * 1_000_000 + "]}")
    with pytest.raises(ReportError):
        profilers.read_report(path)


def test_a_trace_cut_in_half_is_read_up_to_the_cut_and_says_so(report_path, report_of, tmp_path):
    packed = report_path(SGLANG_DECODE).read_bytes()
    text = gzip.decompress(packed)
    whole = report_of(SGLANG_DECODE).kernels
    cut = tmp_path / "cut"
    for half in (packed[: len(packed) * 3 // 4], text[: len(text) * 3 // 4]):
        cut.write_bytes(half)
        report = profilers.read_report(cut)
        assert 0 < len(report.kernels) < len(whole)
        assert report.kernels["name"].tolist() == whole["name"].tolist()[: len(report.kernels)]
        assert report.notes[0].startswith("the trace is cut off after event ")


def test_a_trace_that_breaks_off_before_its_first_event_is_refused(report_path, tmp_path):
    packed = report_path(SGLANG_DECODE).read_bytes()
    cut = tmp_path / "cut"
    for head in (packed[:20], gzip.decompress(packed)[:200]):
        cut.write_bytes(head)
        with pytest.raises(ReportError):
            profilers.read_report(cut)


@pytest.mark.slow
def test_events_that_no_profiler_records_are_not_read_for_ever(tmp_path):
    event = b'{"ph":"X","cat":"zzz","name":"n","ts":1.0,"dur":1}'
    bomb = tmp_path / "bomb.json.gz"
    with gzip.open(bomb, "wb", 1) as file:
        file.write(b'{"traceEvents":[')
        for _ in range(70):
            file.write((event + b",") * 20_000)
        file.write(event + b"]}")
    with pytest.raises(ReportError, match=r"first 1,000,001 events"):
        profilers.read_report(bomb)


def test_bombs_are_refused(tmp_path):
    bomb = tmp_path / "bomb"
    content = b'{"traceEvents": [' + b" " * (66 << 20)
    bomb.write_bytes(gzip.compress(content))
    with pytest.raises(ReportError, match="unpacks to more than"):
        profilers.read_report(bomb)
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("trace.json", content)
    with pytest.raises(ReportError, match="unpacks to more than"):
        profilers.read_report(bomb)


def test_an_archive_of_very_many_files_is_refused_before_they_are_listed(tmp_path):
    path = tmp_path / "crowd.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(3000):
            archive.writestr(f"{number}.json", "{}")
    with pytest.raises(ReportError, match="many files"):
        profilers.read_report(path)


def test_names_without_end_are_refused(trace, monkeypatch):
    monkeypatch.setattr("profilers.readers.torch_trace.MAX_TEXT_CHARS", 2000)
    events = [event("kernel", f"kernel {i}", i, device=0) for i in range(300)]
    with pytest.raises(ReportError, match="different names"):
        profilers.read_report(trace(*events))
    monkeypatch.setattr("profilers.readers.torch_trace.MAX_EVENTS", 100)
    with pytest.raises(ReportError, match="over 100 events"):
        profilers.read_report(trace(*events))


def test_an_archive_of_several_files_is_refused(tmp_path):
    path = tmp_path / "two.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.json", "{}")
        archive.writestr("b.json", "{}")
    with pytest.raises(ReportError, match="2 files"):
        profilers.read_report(path)


def on(thread: int, event_: dict[str, Any]) -> dict[str, Any]:
    return event_ | {"tid": thread}


def test_a_launch_without_id_takes_the_operator_around_it_on_its_thread(trace):
    """Versions that write the correlation as "External id" of kernels and launches."""
    report = profilers.read_report(
        trace(
            on(1, event("cpu_op", "aten::linear", 0, 20, **{"External id": 8})),
            on(1, event("cpu_op", "aten::mm", 2, 10, **{"External id": 9})),
            on(2, event("cpu_op", "aten::other", 0, 20, **{"External id": 7})),
            on(1, event("cuda_runtime", "launch", 3, correlation=7, **{"External id": 7})),
            on(1, event("cuda_runtime", "launch", 14, correlation=8)),
            on(2, event("cuda_runtime", "launch", 15, correlation=11)),
            on(3, event("cuda_runtime", "launch", 16, correlation=12)),
            kernel(30, correlation=7, **{"External id": 7}),
            kernel(40, correlation=8),
            kernel(50, correlation=11),
            kernel(60, correlation=12),
        )
    )
    assert report.kernels["operator"].tolist()[:3] == ["aten::mm", "aten::linear", "aten::other"]
    assert report.kernels["operator"].isna().tolist() == [False, False, False, True]
    assert "1 kernels have no recorded launch or operator" in report.notes


def test_a_launch_keeps_the_modules_around_it(trace):
    module = "nn.Module: "
    report = profilers.read_report(
        trace(
            on(1, event("python_function", module + "Model_0", 0, 100)),
            on(1, event("python_function", "model.py(7): forward", 1, 90)),
            on(1, event("python_function", module + "Linear_3", 10, 20)),
            on(1, event("cuda_runtime", "launch", 12, correlation=1)),
            on(1, event("cuda_runtime", "launch", 40, correlation=2)),
            on(1, event("cuda_runtime", "launch", 200, correlation=3)),
            on(1, event("cuda_runtime", "cudaGraphLaunch", 50, correlation=4)),
            *(kernel(300 + 10 * number, correlation=number) for number in range(1, 5)),
        )
    )
    assert report.kernels["module"].tolist()[:2] == ["Model_0/Linear_3", "Model_0"]
    assert report.kernels["module"].isna().tolist() == [False, False, True, True]


def test_calls_that_wait_for_the_device_are_kept(trace):
    report = profilers.read_report(
        trace(event("cuda_runtime", "cudaStreamSynchronize", 5, 7, correlation=1), kernel(1))
    )
    assert report.waits["duration_s"].tolist() == pytest.approx([7e-6])


def test_a_bad_optional_field_costs_that_field_alone(report_path, tmp_path):
    """A string in `grid` once refused a whole trace."""
    trace = json.loads(report_path("torch/h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json").read_bytes())
    kernel = next(event for event in trace["traceEvents"] if event.get("cat") == "kernel")
    kernel["args"] |= {"grid": "large", "block": [1, 2], "stream": "seven"}
    copy = next(event for event in trace["traceEvents"] if event.get("cat") == "gpu_memcpy")
    copy["args"]["bytes"] = "many"
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(trace))
    bad, good = (
        profilers.read_report(path),
        profilers.read_report(report_path("torch/h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json")),
    )
    assert bad.kernels["duration_s"].tolist() == good.kernels["duration_s"].tolist()
    assert bad.kernels["grid"].isna().sum() == good.kernels["grid"].isna().sum() + 1
