"""Nsight Compute reports: the container, the counters, and NVIDIA's own reader for comparison."""

import math
import struct
from contextlib import suppress
from pathlib import Path

import pytest

import profilers
from genz_core.errors import ReportError
from profilers.readers import ncu_rep, protobuf

A100 = "ncu/a100_pcie_extrap.ncu-rep"
H800 = "ncu/h800_torch_5_kernels.ncu-rep"


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def container(*results: bytes, strings: tuple[str, ...] = (), sources: int = 0) -> bytes:
    payload = b"".join(struct.pack("<I", len(r)) + r for r in results)
    table = b"".join(field(1, text.encode()) for text in strings)
    header = field(1, sources) + field(2, len(results) - sources) + field(4, table)
    header += field(5, len(payload))
    version = field(1, 7)
    blocks = (version, header)
    start, block = (struct.pack("<I", len(piece)) + piece for piece in blocks)
    return b"NVR\0" + start + block + payload


def metric(name_id: int, value: float) -> bytes:
    double = varint(3 << 3 | 1) + struct.pack("<d", value)
    return field(13, field(1, name_id) + field(2, double))


def result(name: str, *parts: bytes) -> bytes:
    return field(6, name.encode()) + field(7, f"void {name}()".encode()) + b"".join(parts)


@pytest.fixture
def report_file(tmp_path: Path):
    def write(data: bytes) -> Path:
        path = tmp_path / "report.ncu-rep"
        path.write_bytes(data)
        return path

    return write


@pytest.mark.parametrize("name", [A100, H800])
def test_every_kernel_and_counter_equals_what_nvidias_own_reader_finds(
    name, report_of, report_path
):
    ncu_report = pytest.importorskip("ncu_report")
    report = report_of(name)
    context = ncu_report.load_report(str(report_path(name)))
    actions = [
        context.range_by_idx(r).action_by_idx(a)
        for r in range(context.num_ranges())
        for a in range(context.range_by_idx(r).num_actions())
    ]
    assert len(actions) == len(report.kernels)
    compared = 0
    for row, action in enumerate(actions):
        assert report.kernels["name"][row] == action.name()
        ours = report.metrics[report.metrics["kernel"] == row].set_index("name")["value"]
        for counter in action.metric_names():
            value = action.metric_by_name(counter).value()
            if counter not in ours or not isinstance(value, int | float):
                continue
            same = math.isclose(value, ours[counter], rel_tol=1e-6) or (
                not math.isfinite(value) and math.isnan(ours[counter])
            )
            assert same or value == 0, f"{counter}: {value} by NVIDIA, {ours[counter]} here"
            compared += same
    assert compared > 200 * len(actions)


def test_time_traffic_and_percent_of_peaks_come_from_the_counters(report_of):
    kernels = report_of(H800).kernels
    third = kernels.iloc[2]
    assert third["duration_s"] == pytest.approx(33_504e-9, rel=1e-3)
    assert third["dram_bytes"] == 11_008 + 21_458_688
    assert third["compute_pct"] == pytest.approx(69.823, abs=1e-3)
    assert third["dram_pct"] == pytest.approx(18.833, abs=1e-3)


def test_a_kernel_that_ncu_could_not_measure_stays_unknown(report_of):
    report = report_of(H800)
    last = report.kernels.iloc[4]
    assert last["name"] == "flash_fwd_kernel"
    assert math.isnan(last["duration_s"]) and math.isnan(last["dram_bytes"])
    assert "1 of 5 kernels have no duration" in report.notes


def test_device_figures_come_from_its_attributes(report_of):
    (device,) = report_of(A100).devices
    assert (device.name, device.units) == ("A100-PCIE-40GB", 108)
    assert device.memory_bytes_per_s == 1555.2e9  # 2 x 1215 MHz x 5120 bit
    assert device.compute_capability == "8.0"


def test_versions_are_kept_and_nothing_of_the_host(report_of, report_path):
    report = report_of(A100)
    assert report.tool_version == "2020.3.1.0"
    assert report.facts == {"cuda_version": "11.2", "display_driver_version": "460.32.03"}
    raw = report_path(A100).read_bytes()
    assert b"/work/home/" in raw
    assert "/work/home/" not in repr(report) + repr(profilers.summarise(report))


def test_ranges_open_around_a_kernel_give_its_path_and_phase(report_file):
    def pushed(*names: str) -> bytes:
        stack = b"".join(field(3, field(1, name.encode())) for name in names)
        return field(2, field(1, 55) + field(2, field(1, 0) + stack))

    started = field(3, field(1, 0) + field(3, field(1, 8) + field(2, b"request")))
    state = field(
        21, field(1, field(2, b"<default domain>")) + pushed("decode", "layer_3") + started
    )
    path = report_file(container(result("gemm", state, metric(0, 5.0)), strings=("Duration",)))
    row = profilers.read_report(path).kernels.iloc[0]
    assert row["nvtx_path"] == "request/decode/layer_3"
    assert (row["phase"], row["operator"], row["attributed_by"]) == (
        "decode",
        "layer_3",
        "ncu_nvtx",
    )


FMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
ADD = "smsp__sass_thread_inst_executed_op_fadd_pred_on.sum"
TENSOR = "sm__ops_path_tensor_src_bf16_dst_fp32.sum"
BUSY = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"


@pytest.mark.parametrize(
    ("counters", "flops"),
    [
        ({FMA: 10.0, ADD: 3.0}, 23.0),
        ({FMA: 10.0, TENSOR: 4096.0, BUSY: 80.0}, 4116.0),
        ({FMA: 10.0, BUSY: 80.0}, math.nan),  # without the part of the tensor cores
        ({FMA: 10.0, BUSY: 0.0}, 20.0),
        (
            {
                f"{FMA}.per_cycle_elapsed": 100.0,
                "smsp__cycles_elapsed.avg.per_second": 1e9,
                "gpu__time_duration.sum": 1000.0,
            },
            200_000.0,
        ),
        ({"dram__bytes_read.sum": 5.0}, math.nan),
        ({TENSOR: 4096.0, BUSY: 80.0}, 4096.0),
        ({TENSOR: 0.0}, math.nan),  # a kernel of the CUDA cores, whose work is not counted
    ],
)
def test_flops_are_those_of_all_counters_or_unknown(counters, flops, report_file):
    counted = [metric(i, value) for i, value in enumerate(counters.values())]
    data = container(result("k", *counted), strings=tuple(counters))
    found = profilers.read_report(report_file(data)).kernels["flops"][0]
    assert found == pytest.approx(flops, nan_ok=True)


def test_dram_bytes_need_both_directions(report_file):
    names = ("dram__bytes_read.sum", "dram__bytes_write.sum")
    one = container(result("k", metric(0, 5.0)), strings=names)
    both = container(result("k", metric(0, 5.0), metric(1, 7.0)), strings=names)
    assert math.isnan(profilers.read_report(report_file(one)).kernels["dram_bytes"][0])
    assert profilers.read_report(report_file(both)).kernels["dram_bytes"][0] == 12.0


# ------------------------------------------------------------------------------ bad input


def test_a_report_cut_anywhere_is_refused_never_silently_short(report_path, tmp_path):
    whole = report_path(A100).read_bytes()
    cut = tmp_path / "cut.ncu-rep"
    lengths = [5, 9, 50, *range(1000, len(whole), 9973)]
    read = {}
    for length in lengths:
        cut.write_bytes(whole[:length])
        with suppress(ReportError):
            read[length] = len(profilers.read_report(cut).kernels)
    assert len(lengths) > 10 and len(read) < len(lengths) / 2, "most cuts are refused"
    # A cut between two blocks leaves an intact, shorter report.
    assert all(0 < kernels < 6 for kernels in read.values())


def test_lengths_beyond_the_file_are_refused(report_file):
    for data in (
        b"NVR\0" + struct.pack("<I", 0xFFFFFFFF),
        b"NVR\0" + struct.pack("<I", 0) + struct.pack("<I", 0x7FFFFFFF) + b"x" * 100,
        b"NVR\0" + struct.pack("<I", 0) + struct.pack("<I", 6) + field(5, 1 << 33),
    ):
        with pytest.raises(ReportError):
            profilers.read_report(report_file(data))


def test_a_block_that_counts_a_billion_kernels_is_refused(report_file):
    header = field(2, 1_000_000_000) + field(5, 0)
    data = b"NVR\0" + struct.pack("<I", 0) + struct.pack("<I", len(header)) + header
    with pytest.raises(ReportError, match=r"over|counts more"):
        profilers.read_report(report_file(data))


def test_a_metric_without_a_name_is_refused(report_file):
    data = container(result("k", metric(7, 1.0)), strings=("only",))
    with pytest.raises(ReportError, match="no name"):
        profilers.read_report(report_file(data))


def test_a_report_without_kernels_is_refused(report_file):
    with pytest.raises(ReportError, match="no profiled kernel"):
        profilers.read_report(report_file(container()))


@pytest.mark.parametrize(
    "message",
    [b"\x80" * 11, b"\x0a\xff\x01a", b"\x0b\x01", b"\x09\x01", b"\x80"],
    ids=["endless number", "length beyond", "unknown type", "short double", "cut number"],
)
def test_damaged_wire_format_is_refused(message):
    with pytest.raises(ReportError, match="damaged"):
        list(protobuf.fields(message))


def test_the_wire_format_is_read_as_specified():
    message = field(1, 150) + field(2, b"testing") + varint(3 << 3 | 5) + struct.pack("<f", 0.5)
    number, text, real = [value for _, value in protobuf.fields(message)]
    assert (number, text, protobuf.real(real)) == (150, b"testing", 0.5)


def test_the_reader_is_chosen_by_content_not_by_name(report_path, tmp_path):
    renamed = tmp_path / "trace.json"
    renamed.write_bytes(report_path(A100).read_bytes())
    assert profilers.read_report(renamed).format == ncu_rep.FORMAT
