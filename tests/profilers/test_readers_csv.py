"""Tables of nsys stats and ncu: every kind of report, old and new headers, any locale."""

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import profilers
from genz_core.errors import ReportError
from profilers.readers.csv_tables import parse_numbers
from tests.profilers.units import whole_ns

KERN_SUM = (
    "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"
    '60.0,600,3,200.0,200.0,100,300,81.6,"void gemm<int, 4>(float *)"\n'
    "40.0,400,2,200.0,200.0,200,200,0.0,softmax\n"
)


@pytest.fixture
def read(tmp_path: Path):
    """Reads a table given as text."""

    def from_text(text: str, encoding: str = "utf-8") -> profilers.Report:
        path = tmp_path / "table.csv"
        path.write_bytes(text.encode(encoding))
        return profilers.read_report(path)

    return from_text


def totals(report: profilers.Report) -> tuple[int, int]:
    summary = profilers.summarise(report)
    return summary["kernel_count"], whole_ns(summary["kernel_time_s"])


# ------------------------------------------------------------------------------ nsys stats


def test_a_kernel_summary_adds_up_its_instances(read):
    report = read(KERN_SUM)
    assert totals(report) == (5, 1000)
    assert report.kernels["name"].tolist() == ["void gemm<int, 4>(float *)", "softmax"]
    assert report.kernels["operator_class"].tolist() == ["gemm", "elementwise"]


@pytest.mark.parametrize(
    "header",
    [
        "Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name",
        "Time(%),Total Time (ns),Instances,Average (ns),Minimum (ns),Maximum (ns),Name",
        "Time (%),Total Time (ns),Instances,Avg (ns),Min (ns),Max (ns),Name",
    ],
)
def test_headers_of_2020_to_2026_are_read_alike(header, read):
    assert totals(read(f"{header}\n100.0,600,3,200.0,100,300,gemm\n")) == (3, 600)


@pytest.mark.parametrize(
    ("unit", "value"),
    [("ns", "600"), ("us", "0.6"), ("µs", "0.6"), ("ms", "0.0006"), ("s", "6e-7")],
)
def test_other_time_units_are_brought_to_seconds(unit, value, read):
    report = read(f"Time (%),Total Time ({unit}),Instances,Name\n100.0,{value},3,gemm\n")
    assert report.kernels["duration_s"].sum() == pytest.approx(600e-9)


def test_grids_and_blocks_of_a_summary_are_kept(read):
    report = read(
        "Time (%),Total Time (ns),Instances,GridXYZ,BlockXYZ,Name\n"
        "100.0,600,3,  16   32    7, 128    1    1,gemm\n"
    )
    row = report.kernels.iloc[0]
    assert (row["grid"], row["block"]) == ("16,32,7", "128,1,1")


def test_what_nsys_prints_above_a_table_is_skipped(read):
    preamble = (
        "Generating SQLite file r.sqlite from r.nsys-rep\n"
        "NOTICE: Existing SQLite export found: r.sqlite, it's \"fresh\n"
        "Processing [r.sqlite] with [/opt/nsys/cuda_gpu_kern_sum.py]... \n\n"
    )
    assert totals(read(preamble + KERN_SUM)) == (5, 1000)


def test_of_several_tables_each_says_what_it_knows_and_no_kernel_counts_twice(read):
    report = read(
        "[1/3] Executing 'cuda_api_sum' stats report\n\n"
        "Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n"
        "100.0,900,9,100.0,cudaLaunchKernel_v7000\n\n"
        "[2/3] Executing 'cuda_gpu_sum' stats report\n\n"
        "Time (%),Total Time (ns),Instances,Category,Operation\n"
        "50.0,1000,5,CUDA_KERNEL,gemm\n"
        "50.0,70,2,MEMORY_OPER,[CUDA memcpy Device-to-Device]\n\n"
        f"[3/3] Executing 'cuda_gpu_kern_sum' stats report\n\n{KERN_SUM}"
    )
    assert totals(report) == (5, 1000)
    assert report.host.to_dict("records") == [
        {"name": "cudaLaunchKernel", "count": 9, "time_s": pytest.approx(900e-9)}
    ]
    assert report.copies["kind"].tolist() == ["DtoD"]


def test_a_trace_of_the_gpu_has_a_timeline_and_names_its_device(read):
    report = read(
        "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),"
        "DymSMem (MB),Bytes (MB),Throughput (MB/s),SrcMemKd,DstMemKd,Device,Ctx,GreenCtx,Strm,"
        "Name\n"
        "1000,100,1,4,2,1,128,1,1,32,0.000,0.000,,,,,NVIDIA GeForce RTX 4060 Ti (0),1,,7,gemm\n"
        "1050,100,2,,,,,,,,,,0.001,10.0,Pageable,Device,NVIDIA GeForce RTX 4060 Ti (0),1,,7,"
        "[CUDA memcpy Host-to-Device]\n"
        "2000,50,3,1,1,1,64,1,1,32,0.000,0.000,,,,,NVIDIA GeForce RTX 4060 Ti (0),1,,9,softmax\n"
    )
    summary = profilers.summarise(report)
    assert summary["devices"] == ["NVIDIA GeForce RTX 4060 Ti"]
    assert (summary["kernel_count"], whole_ns(summary["kernel_time_s"])) == (2, 150)
    assert [whole_ns(summary[key]) for key in ("busy_time_s", "span_s")] == [200, 1050]
    assert report.copies[["kind", "bytes"]].values.tolist() == [["HtoD", 1000.0]]
    assert report.kernels["grid"].tolist() == ["4,2,1", "1,1,1"]
    assert report.kernels["stream"].tolist() == [7, 9]


def test_kernels_by_range_are_attributed_but_count_once_a_range(read):
    report = read(
        "NVTX Range,Style,PID,TID,NVTX Inst,Kern Inst,Total Time (ns),Kernel Name\n"
        ":decode,PushPop,1,1,1,2,300,gemm\n"
        ",,,,0,1,100,softmax\n"
    )
    assert report.kernels["nvtx_path"].tolist()[0] == "decode"
    assert report.kernels["attributed_by"].tolist() == ["nvtx_range", "kernel_name"]
    assert report.kernels["phase"].tolist()[0] == "decode"
    assert "several times" in report.notes[0]


def test_executions_of_kernels_have_their_launch(read):
    report = read(
        "API Start (ns),API Dur (ns),Queue Start (ns),Queue Dur (ns),Kernel Start (ns),"
        "Kernel Dur (ns),Total Dur (ns),PID,TID,DevId,API Function,GridXYZ,BlockXYZ,Kernel Name\n"
        "100,10,110,90,200,50,150,1,1,0,cudaLaunchKernel,   4    1    1, 128    1    1,gemm\n"
    )
    assert whole_ns(profilers.summarise(report)["launch_delay_s"]) == 100
    assert totals(report) == (1, 50)


@pytest.mark.parametrize(
    "table",
    [
        "Time (%),Total Time (ns),Instances,Style,Range\n100.0,600,3,PushPop,:decode\n",
        "Range,Style,Total Proj Time (ns),Total Range Time (ns),Range Instances\n"
        "decode,PushPop,600,700,3\n",
        "Start (ns),End (ns),Duration (ns),DurChild (ns),DurNonChild (ns),Name,PID,TID,Lvl\n"
        "10,610,600,0,600,decode,1,1,0\n",
        "Name,Projected Start (ns),Projected Duration (ns),Orig Start (ns),Orig Duration (ns)\n"
        "decode,10,600,5,620\n",
    ],
    ids=["nvtx_sum", "nvtx_gpu_proj_sum", "nvtx_pushpop_trace", "nvtx_gpu_proj_trace"],
)
def test_reports_of_ranges_give_ranges_and_no_kernels(table, read):
    report = read(table)
    assert report.ranges["duration_s"].sum() == pytest.approx(600e-9)
    assert totals(report) == (0, 0)


def test_copies_by_size_have_bytes_and_no_time(read):
    report = read("Total (MB),Count,Avg (MB),Operation\n8046.134,986,8.160,[CUDA memset]\n")
    assert report.copies["bytes"].tolist() == [8046.134e6]
    assert profilers.summarise(report)["copy_time_s"] is None


def test_a_header_without_rows_is_an_empty_report(read):
    report = read(KERN_SUM.splitlines()[0] + "\n")
    assert totals(report) == (0, 0)
    assert "no GPU kernels" in report.notes[0]


def test_an_empty_file_says_what_nsys_means_by_it(read):
    with pytest.raises(ReportError, match="empty"):
        read("")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_encodings_of_spreadsheets_are_read(encoding, read):
    assert totals(read(KERN_SUM.replace("softmax", "soft\u00e4"), encoding)) == (5, 1000)


def test_semicolons_and_decimal_commas_are_read(read):
    report = read("Time (%);Total Time (us);Instances;Avg (us);Name\n60,5;1.234,56;3;411,52;gemm\n")
    assert report.kernels["duration_s"].tolist() == pytest.approx([1234.56e-6])


def test_an_ambiguous_number_is_refused_not_guessed(read):
    with pytest.raises(ReportError, match="ambiguous"):
        read("Time (%);Total Time (us);Instances;Name\n60,5;1,234;3;gemm\n")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("100.0,many,3,200.0,200.0,100,300,81.6,gemm", "should have a number"),
        ("100.0,600,2.5,200.0,200.0,100,300,81.6,gemm", "counts"),
        ("100.0,600,-3,200.0,200.0,100,300,81.6,gemm", "counts"),
        ("100.0,-600,3,200.0,200.0,100,300,81.6,gemm", "negative"),
        ("100.0,600,1e400,200.0,200.0,100,300,81.6,gemm", "counts"),
    ],
)
def test_rows_that_make_no_sense_are_refused(row, message, read):
    with pytest.raises(ReportError, match=message):
        read(KERN_SUM.splitlines()[0] + "\n" + row + "\n")


def test_text_of_something_else_is_refused(read):
    for text in ("hello\n", "a,b,c\n1,2,3\n", "\x00\x01binary", "<html><body>,;</body></html>"):
        with pytest.raises(ReportError, match=r"not a report that can be read|binary"):
            read(text)


# ------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize(
    ("cells", "numbers"),
    [
        (["13,485", "9,495.42"], [13485.0, 9495.42]),
        (["2.33", "0", "1e3"], [2.33, 0.0, 1000.0]),
        (["1.234,5", "7,25"], [1234.5, 7.25]),
        (["-1.5", "+2"], [-1.5, 2.0]),
    ],
)
def test_numbers_of_both_locales_are_read(cells, numbers):
    assert parse_numbers(cells) == numbers


def test_missing_numbers_are_nan():
    assert all(math.isnan(n) for n in parse_numbers(["", "n/a", "nan", "N/A", "inf"]))


@given(st.lists(st.floats(-1e12, 1e12).map(lambda x: round(x, 3)), min_size=1))
def test_what_python_prints_with_thousands_is_read_back(values):
    assert parse_numbers([f"{value:,.3f}" for value in values]) == pytest.approx(values)


@given(st.text("0123456789.,+-eEnaif/% \u00a0\u2009\t'()x\u0663\u00b2\u00bd", max_size=20))
def test_any_cell_is_a_number_nan_or_refused(cell):
    """Of characters that numbers are written with, and of digits that Python also knows."""
    try:
        (number,) = parse_numbers([cell])
    except ReportError:
        return
    assert isinstance(number, float)


# ------------------------------------------------------------------------------ ncu


def test_details_of_ncu_are_read_in_base_units(report_of):
    row = report_of("csv/ncu/kernel_0001/ncu.details.csv").kernels.iloc[0]
    assert row["duration_s"] == pytest.approx(6.75e-6)
    assert row["dram_bytes"] == pytest.approx(2.33e6)
    assert (row["compute_pct"], row["dram_pct"]) == (9.15, 19.66)
    assert (row["grid"], row["block"]) == ("224,1,1", "32,4,1")
    assert row["operator_class"] == "gemv"


def test_read_and_written_bytes_over_time_are_the_throughput_ncu_prints(report_of):
    row = report_of("csv/ncu/kernel_0001/ncu.details.csv").kernels.iloc[0]
    assert row["dram_bytes"] / row["duration_s"] == pytest.approx(345.14e9, rel=2e-3)


def test_process_and_host_names_of_ncu_tables_are_not_kept(report_of):
    report = report_of("csv/ncu/kernel_0001/ncu.details.csv")
    shown = repr(report) + repr(profilers.summarise(report)) + report.metrics.to_csv()
    assert "python3.12" not in shown and "127.0.0.1" not in shown and "1740670" not in shown


RAW = (
    "==PROF== Connected to process 39 (/usr/bin/python)\n"
    '"ID","Process ID","Process Name","Host Name",'
    '"thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",'
    '"Id:Domain:Start/Stop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg",'
    '"Kernel Name","Context","Stream","Block Size","Grid Size","Device","CC",'
    '"device__attribute_display_name","dram__bytes_read.sum","dram__bytes_write.sum",'
    '"gpu__time_duration.sum","sm__throughput.avg.pct_of_peak_sustained_elapsed"\n'
    '"","","","","","","","","","","","","","","Mbyte","Kbyte","us","%"\n'
    '"0","39","python","host",'
    '"1  ""<default domain>:decode:none:none:none:none:none:none""  '
    '""<default domain>:model.layers.0:none:none:none:none:none:none"" ",'
    '"7 ""<default domain>:request:none:none:none:none:none:none"" ",'
    '"flash_fwd_kernel","1","7","(128, 1, 1)","(244, 1, 6)","0","9.0",'
    '"NVIDIA H100","1,234.5","500","7,865.41","81.2"\n'
    '"1","39","python","host","","","gemm","1","7","(64, 1, 1)","(8, 1, 1)","0","9.0",'
    '"NVIDIA H100","n/a","nan","12.5","n/a"\n'
)


def test_the_raw_page_has_a_row_of_units_and_ranges(read):
    report = read(RAW)
    first, second = (report.kernels.iloc[i] for i in (0, 1))
    assert first["duration_s"] == pytest.approx(7865.41e-6)
    assert first["dram_bytes"] == pytest.approx(1234.5e6 + 500e3)
    assert first["nvtx_path"] == "request/decode/model.layers.0"
    assert (first["phase"], first["attributed_by"]) == ("decode", "ncu_nvtx")
    assert math.isnan(second["dram_bytes"]) and math.isnan(second["compute_pct"])
    assert [device.name for device in report.devices] == ["NVIDIA H100"]


@pytest.mark.parametrize(
    ("unit", "value", "nanoseconds"),
    [("nsecond", "12", 12), ("usecond", "12", 12e3), ("ms", "1.5", 1.5e6), ("second", "1", 1e9)],
)
def test_durations_of_ncu_are_read_in_any_unit(unit, value, nanoseconds, read):
    report = read(
        '"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"\n'
        f'"0","k","s","gpu__time_duration.sum","{unit}","{value}"\n'
    )
    assert report.kernels["duration_s"][0] == pytest.approx(nanoseconds * 1e-9)


def test_kernels_of_one_file_are_told_apart_by_their_id(read):
    rows = "".join(f'"{i}","same","s","gpu__time_duration.sum","ns","{i + 1}"\n' for i in range(3))
    header = '"ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"\n'
    assert totals(read(header + rows)) == (3, 6)
