"""Output of Intel's unitrace: kernels, copies and calls, as the text states them."""

import re

import pytest

import profilers
from genz_core.errors import ReportError
from tests.profilers.units import whole_ns

TRACE, SUMMARY = "unitrace/dpc_gemm_t.txt", "unitrace/vec_add_h.txt"


def test_kernels_have_the_times_that_their_lines_state(report_of, report_path):
    text = report_path(TRACE).read_text()
    lines = [line for line in text.splitlines() if "__GEMM[" in line]
    stated = [re.search(r"(\d+) \(start\) (\d+) \(end\)", line) for line in lines]
    kernels = report_of(TRACE).kernels
    assert len(kernels) == len(lines) > 1
    assert [whole_ns(s) for s in kernels["duration_s"]] == [int(m[2]) - int(m[1]) for m in stated]
    assert kernels["grid"].tolist() == ["1,1024,1"] * len(lines)
    assert kernels["block"].tolist() == ["1024,1,1"] * len(lines)
    assert set(kernels["operator_class"]) == {"gemm"}
    assert (kernels["launch_s"] <= kernels["start_s"]).all()


def test_copies_have_their_direction_and_bytes(report_of):
    copies = report_of(TRACE).copies
    assert set(copies["kind"]) == {"HtoD", "DtoH"}
    assert set(copies["bytes"]) == {4194304.0}


def test_a_summary_of_calls_is_host_time(report_of):
    report = report_of(SUMMARY)
    calls = report.host.set_index("name")
    assert whole_ns(calls["time_s"]["zeModuleCreate"]) == 101_628_300
    assert calls["count"]["zeCommandListAppendLaunchKernel"] == 12
    assert "unitrace -t" in report.notes[0]


def test_a_summary_of_kernels_is_read(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text(
        "=== Device Timing Summary ===\n\n== L0 Backend ==\n\n"
        '    Kernel,   Calls,   Time (ns),  Time (%)\n  "gemm_kernel[SIMD32]",  4,  8000,  100.0\n'
    )
    (kernel,) = profilers.read_report(path).kernels.to_dict("records")
    assert (kernel["name"], kernel["count"]) == ("gemm_kernel[SIMD32]", 4)
    assert whole_ns(kernel["duration_s"]) == 8000


def test_a_command_that_ends_before_it_starts_is_refused(tmp_path):
    path = tmp_path / "out.txt"
    path.write_text('Thread 1 Device 2 : "k[SIMD8 {1; 1; 1} {8; 1; 1}]" [ns] 1 (append) 2 (submit) 9 (start) 3 (end)\n')  # fmt: skip  # noqa: E501
    with pytest.raises(ReportError, match="ends before it starts"):
        profilers.read_report(path)
