"""Calibration points from reports: shapes, times per call, and kernels that give no point."""

import gzip
import json
from pathlib import Path

import pytest

import profilers
from genz_core.errors import ReportError
from profilers import gemm_table
from profilers.operators.operator_points import OperatorTiming, operator_points, operator_timings
from tests.rules import for_every

TRACES = Path(__file__).parents[2] / "fixtures" / "reports" / "torch"
H100 = TRACES / "h100_Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
PREFILL = TRACES / "inference_sglang_prefilldecode_sglang_Qwen3-8B_prefilldecode.json.gz"
DECODE = TRACES / "inference_sglang_decode_sglang_Qwen3-8B_decode.json.gz"
SUMMARY = TRACES.parent / "csv" / "llm-perf-opt" / "decode_cuda_gpu_kern_sum.csv"


def points(*files: Path) -> tuple[OperatorTiming, ...]:
    return operator_timings([profilers.read_report(file) for file in files])


def trace(folder: Path, name: str, shapes: list, values: list, microseconds: list) -> Path:
    """A trace of one operator, called once for each list of kernel times."""
    types = ["c10::BFloat16" if shape else "Scalar" for shape in shapes]
    events = []
    for at, times in enumerate(microseconds):
        inputs = {"Input Dims": shapes, "Input type": types, "Concrete Inputs": values}
        base = {"ph": "X", "ts": 1000.0 * at, "dur": 1.0}
        events.append(
            {**base, "cat": "cpu_op", "name": name, "args": {"External id": at, **inputs}}
        )
        for number, time in enumerate(times):
            kernel = "combine_kernel" if number else "main_kernel"
            args = {"device": 0, "stream": 7, "External id": at, "correlation": at}
            events.append({**base, "cat": "kernel", "name": kernel, "dur": time, "args": args})
    path = folder / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
    return path


def test_products_of_a_trace_are_those_of_its_gemm_table():
    report = profilers.read_report(PREFILL)
    table = gemm_table(report)
    wanted = {(row.m, row.n, row.k): row.time_s / row.count for row in table.itertuples()}
    found = {
        tuple(point.dims[axis] for axis in "mnk"): point.time_s
        for point in operator_timings([report])
        if point.operator == "gemm"
    }
    assert found.keys() == wanted.keys()
    for shape, time_s in wanted.items():
        assert found[shape] == pytest.approx(time_s, rel=0.02)  # the median of calls, not the mean


def test_attention_of_both_frameworks_is_the_prompt_that_ran():
    """16 prompts of 559 tokens, 16 heads of 64; 15 of 1,024 tokens, 32 heads over 8 of 128."""
    for file, sizes in ((H100, (16, 559, 16, 16, 64)), (PREFILL, (15, 1024, 32, 8, 128))):
        (point,) = (p for p in points(file) if p.operator == "prefill_attention")
        keys = ("sequences", "new_tokens", "heads", "kv_heads", "head_dim")
        assert tuple(point.dims[key] for key in keys) == sizes
        assert point.dims["cached_tokens"] == 0


def test_a_pass_counts_each_tensor_once():
    """silu over 16 x 559 x 2816 elements of 2 bytes reads and writes them."""
    silu = next(p for p in points(H100) if p.name == "aten::silu")
    assert silu.dims == {"bytes": 2 * 2 * 16 * 559 * 2816}


def test_a_decode_graph_borrows_the_shapes_of_an_eager_trace():
    alone = {p.dims["m"] for p in points(PREFILL) if p.operator == "gemm"}
    both = [p for p in points(DECODE, PREFILL) if p.operator == "gemm"]
    assert {p.dims["m"] for p in both} - alone == {32.0}
    assert len([p for p in both if p.dims["m"] == 32.0]) == 5


def test_a_decode_graph_of_8_bit_products_is_no_point(tmp_path: Path):
    eager = gzip.decompress(PREFILL.read_bytes()).replace(b"c10::BFloat16", b"c10::Float8_e4m3fn")
    file = tmp_path / "eager.json"
    file.write_bytes(eager)
    with pytest.raises(ReportError, match="no kernel"):
        points(DECODE, file)


def test_a_product_beside_a_graph_is_one_point(tmp_path: Path):
    """Two products of a decode step in a graph, followed by the head with its own shapes."""
    products = [[[4, 64], [64, 96]], [[4, 96], [96, 64]], [[4, 64], [64, 512]]]

    def step(graphed: int) -> Path:
        annotation = {"ph": "X", "cat": "user_annotation", "name": "step[DECODE bs=4]"}
        events = [{**annotation, "ts": 0.0, "dur": 100.0, "pid": 1, "tid": 1}]
        for at, shapes in enumerate(products):
            launch = "cudaGraphLaunch" if at < graphed else "cudaLaunchKernel"
            args = {"External id": at, "correlation": 9 if at < graphed else at}
            base = {"ph": "X", "ts": 10.0 * at + 1, "dur": 5.0, "pid": 1, "tid": 1, "args": args}
            inputs = {"Input Dims": shapes, "Input type": ["c10::BFloat16"] * 2}
            events += [
                {**base, "cat": "cpu_op", "name": "aten::mm", "args": {**args, **inputs}},
                {**base, "cat": "cuda_runtime", "name": launch},
                {
                    **base,
                    "cat": "kernel",
                    "name": "gemm",
                    "args": {**args, "device": 0, "stream": 7},
                },
            ]
        path = tmp_path / f"{graphed}.json"
        path.write_text(json.dumps({"traceEvents": events}), encoding="utf-8")
        return path

    both = points(step(graphed=2), step(graphed=0))
    calls = {
        shape[1][1]: [p.calls for p in both if p.dims["n"] == shape[1][1]] for shape in products
    }
    assert calls == {96: [1, 1], 64: [1, 1], 512: [1, 1]}


@for_every([DECODE, SUMMARY])
def test_a_report_without_shapes_is_refused_in_a_sentence(file: Path):
    with pytest.raises(ReportError, match="record_shapes=True"):
        points(file)


def test_a_call_is_the_median_of_its_kernel_and_its_share_of_the_gathering(tmp_path: Path):
    file = trace(
        tmp_path, "aten::mm", [[8, 64], [64, 32]], ["", ""], [[10.0, 2.0], [12.0, 4.0], [500, 3.0]]
    )
    (point,) = points(file)
    assert point.calls == 3
    assert point.time_s == pytest.approx(15e-6)


FLASH = "aten::_flash_attention_forward"


@pytest.mark.parametrize(
    ("shapes", "causal", "operator"),
    [
        ([[2, 1, 8, 64], [2, 100, 2, 64], [2, 100, 2, 64]], "False", "decode_attention"),
        ([[2, 100, 8, 64], [2, 100, 2, 64], [2, 100, 2, 64]], "True", "prefill_attention"),
        ([[2, 100, 8, 64], [2, 100, 2, 64], [2, 100, 2, 64]], "False", None),
        ([[2, 100, 8, 64], [2, 50, 2, 64], [2, 50, 2, 64]], "True", None),
        ([[300, 8, 64], [300, 2, 64], [300, 2, 64], [4], [4]], "True", "prefill_attention"),
        ([[299, 8, 64], [299, 2, 64], [299, 2, 64], [4], [4]], "True", None),
    ],
)
def test_attention_counts_where_its_mask_and_lengths_are_sure(
    tmp_path: Path, shapes: list, causal: str, operator: str | None
):
    values = [""] * 5 + ["100", "100", "0.", causal, "False"]
    padded = shapes + [[]] * (10 - len(shapes))
    file = trace(tmp_path, FLASH, padded, values, [[9.0]])
    if operator is None:
        with pytest.raises(ReportError):
            points(file)
        return
    (point,) = points(file)
    context = point.dims["new_tokens"] + point.dims["cached_tokens"]
    assert (point.operator, context) == (operator, 100)


@pytest.mark.parametrize(("kept", "known"), [(400, True), (399, False), (4096, False)])
@pytest.mark.parametrize("new", [1, 20])
def test_packed_attention_over_a_cache_counts_where_the_cache_is_packed_too(
    tmp_path: Path, new: int, kept: int, known: bool
):
    """Four sequences over 100 tokens each; a cache of another length may contain any contexts."""
    shapes = [[4 * new, 8, 64], [kept, 2, 64], [kept, 2, 64], [5], [5]] + [[]] * 5
    values = [""] * 5 + [str(new), "100", "0.", "True", "False"]
    file = trace(tmp_path, FLASH, shapes, values, [[9.0]])
    if not known:
        with pytest.raises(ReportError):
            points(file)
        return
    (point,) = points(file)
    assert point.dims["new_tokens"] + point.dims["cached_tokens"] == 100


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("aten::mm", [[2**39] * 40 + [64], [64, 32]]),
        ("aten::silu", [[2**39] * 40]),
        ("aten::silu", [[0, 5]]),
        ("aten::silu", [["x", 5]]),
        (FLASH, [[2**47, 1, 8, 64], [2**47, 5, 8, 64], [2**47, 5, 8, 64]]),
    ],
)
def test_tensors_that_cannot_be_are_no_points(tmp_path: Path, name: str, shapes: list):
    values = [""] * 5 + ["9" * 900, "9" * 900, "0.", "True", "False"]
    with pytest.raises(ReportError):
        points(trace(tmp_path, name, shapes, values, [[9.0]]))


@pytest.mark.parametrize("odd", [True, "x", {"a": 1}, [["c10::BFloat16"]], [{}], [None], 5])
@pytest.mark.parametrize("key", ["Input Dims", "Input type", "Concrete Inputs"])
def test_inputs_of_no_known_form_are_no_points(tmp_path: Path, key: str, odd: object):
    file = trace(tmp_path, "aten::silu", [[8, 64]], [""], [[9.0]])
    document = json.loads(file.read_text())
    for event in document["traceEvents"]:
        event["args"] |= {key: odd} if event["cat"] == "cpu_op" else {}
    file.write_text(json.dumps(document), encoding="utf-8")
    if key == "Concrete Inputs":
        assert len(points(file)) == 1  # silu does not use them
        return
    with pytest.raises(ReportError):
        points(file)


def test_points_are_grouped_as_a_calibration_takes_them():
    found = points(H100)
    entries = operator_points(found, "a trace")
    assert sum(entry.measured_s.size for entry in entries) == len(found)
    assert {entry.operator for entry in entries if entry.warm_cache} == {"pointwise"}
