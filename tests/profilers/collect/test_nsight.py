"""Nsight: argument lists with the relevant flags, and a runner with substitute tools."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import stat
from pathlib import Path

import pytest

from genz_core.errors import MeasurementError, ReportError
from profilers.collect import doctor, nsight, nsight_runner
from profilers.collect.doctor import examine, find_tool
from profilers.collect.top_kernels import ncu_commands, read_yaml, to_yaml, top_kernels

WORK = ["python", "work.py", "--flag", "a b; rm -rf /"]


def test_nsys_traces_kernels_inside_graphs_and_samples_nothing() -> None:
    argv = nsight.build_nsys_cmd("out/run", WORK)
    assert argv[:2] == ["nsys", "profile"]
    assert {"--cuda-graph-trace=node", "--sample=none", "--cpuctxsw=none"} <= set(argv)
    assert argv[argv.index("-o") + 1] == "out/run"
    assert argv[-4:] == WORK


def test_an_nvtx_capture_names_its_range_and_takes_unregistered_strings() -> None:
    argv = nsight.build_nsys_cmd("r", WORK, capture="nvtx", nvtx_capture="prefill")
    assert "--capture-range=nvtx" in argv and "--nvtx-capture=prefill@*" in argv
    assert "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0" in argv
    domain = nsight.build_nsys_cmd("r", WORK, capture="nvtx", nvtx_capture="prefill@llm")
    assert "--nvtx-capture=prefill@llm" in domain


def test_an_nvtx_capture_without_a_range_is_refused() -> None:
    with pytest.raises(MeasurementError, match="name of a range"):
        nsight.build_nsys_cmd("r", WORK, capture="nvtx")


def test_ncu_takes_the_roofline_in_base_units_gated_by_a_range() -> None:
    argv = nsight.build_ncu_cmd("r", WORK, nvtx_expr="decode/", kernel="^gemm", launch_count=2)
    assert {"--set=roofline", "--print-units=base", "--replay-mode=kernel"} <= set(argv)
    assert {"--section=SpeedOfLight", "--nvtx", "--nvtx-include=decode/"} <= set(argv)
    assert {"--kernel-name=regex:^gemm", "--launch-count=2"} <= set(argv)
    assert not any(part.startswith("--launch-skip") for part in argv)
    assert argv[-4:] == WORK


def test_ncu_counts_what_is_asked_beside_the_rooflines_counters() -> None:
    counters = nsight.Counters.of("sm__inst_executed.sum, l1tex__t_bytes.sum",
                                  "Occupancy,LaunchStats", "detailed", "application")  # fmt: skip
    argv = nsight.build_ncu_cmd("r", WORK, counters=counters)
    assert {"--set=detailed", "--replay-mode=application", "--section=LaunchStats"} <= set(argv)
    assert "--section=SpeedOfLight" not in argv
    [metrics] = [part for part in argv if part.startswith("--metrics=")]
    assert {*nsight.NCU_METRICS, "sm__inst_executed.sum", "l1tex__t_bytes.sum"} == set(
        metrics.partition("=")[2].split(",")
    )


@pytest.mark.parametrize("options", [
    ("a;rm -rf", "", "", ""), ("", "--x", "", ""), ("", "", "a b", ""), ("", "", "", "twice"),
])  # fmt: skip
def test_what_ncu_cannot_count_is_refused(options) -> None:
    with pytest.raises(MeasurementError):
        nsight.Counters.of(*options)


@pytest.mark.parametrize("build", [nsight.build_nsys_cmd, nsight.build_ncu_cmd])
def test_a_shell_string_is_no_program(build) -> None:
    with pytest.raises(MeasurementError):
        build("r", "python work.py")
    with pytest.raises(MeasurementError):
        build("r", [])


def test_the_workload_runs_without_torchs_own_profiler() -> None:
    assert "--no-profile" in nsight.work_argv(["gpt2", "--isl", "8"])


def test_a_printed_command_survives_a_shell() -> None:
    import shlex

    argv = nsight.build_nsys_cmd("out dir/run", WORK)
    assert shlex.split(nsight.shell_line(argv)) == argv


def without_tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Nsight, neither on the PATH nor where NVIDIA's packages install it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(doctor, "_TOOL_FOLDERS", (str(tmp_path / "nowhere"),))


def test_a_tool_beside_the_path_is_found_where_packages_put_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_tools(tmp_path, monkeypatch)
    assert find_tool("nsys") is None
    monkeypatch.setattr(doctor, "_TOOL_FOLDERS", (f"{tmp_path}/nsight/*/bin",))
    tool = tmp_path / "nsight" / "2026.1" / "bin" / "nsys"
    tool.parent.mkdir(parents=True)
    tool.touch(0o755)
    assert find_tool("nsys") == str(tool)


def test_a_missing_tool_says_how_to_get_it_and_what_to_run_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_tools(tmp_path, monkeypatch)
    with pytest.raises(MeasurementError) as caught:
        nsight_runner.run_nsys(nsight.build_nsys_cmd(tmp_path / "run", ["true"]), tmp_path)
    assert "developer.nvidia.com/nsight-systems" in str(caught.value)
    assert "nsys profile --trace=" in str(caught.value)


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report_path):
    """A substitute tool of a given name; `$DB` in its body is a real database."""
    folder = tmp_path / "bin"
    folder.mkdir()
    database = report_path("nsys/mock.sqlite")

    def make(name: str, body: str) -> Path:
        tool = folder / name
        tool.write_text(f"#!/bin/sh\nDB='{database}'\n{body}\n", encoding="utf-8")
        tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        return tool

    return make


NSYS = """
case "$1" in
profile) while [ "$1" != "-o" ]; do shift; done; : > "$2.nsys-rep"; echo captured;;
export) for a in "$@"; do case "$a" in --output=*) cp "$DB" "${a#--output=}";; esac; done;;
stats) echo table;;
esac
"""


def test_the_runner_exports_and_keeps_logs_and_commands(tmp_path: Path, stand_in) -> None:
    from profilers.readers import read_report

    stand_in("nsys", NSYS)
    folder = tmp_path / "capture"
    captured = nsight_runner.run_nsys(nsight.build_nsys_cmd(folder / "run", ["true"]), folder)
    assert read_report(captured.report).kernels["count"].sum() == 2
    commands = json.loads((folder / "commands.json").read_text())
    assert [command[1] for command in commands] == ["profile", "export", "stats"]
    assert (folder / "profile.log").read_text() == "captured\n"


def test_a_failed_workload_ends_in_its_last_line(tmp_path: Path, stand_in) -> None:
    stand_in("nsys", "echo first; echo 'no GPU found'; exit 3")
    argv = nsight.build_nsys_cmd(tmp_path / "run", ["true"])
    with pytest.raises(MeasurementError, match="code 3: no GPU found"):
        nsight_runner.run_nsys(argv, tmp_path / "logs")


def test_a_run_that_leaves_no_report_says_where_the_log_is(tmp_path: Path, stand_in) -> None:
    stand_in("nsys", "exit 0")
    argv = nsight.build_nsys_cmd(tmp_path / "run", ["true"])
    with pytest.raises(MeasurementError, match=r"left no run\.nsys-rep"):
        nsight_runner.run_nsys(argv, tmp_path / "logs")


def test_ncu_runs_again_without_a_range_that_matched_nothing(tmp_path: Path, stand_in) -> None:
    stand_in(
        "ncu",
        """
case "$*" in
*--import*) echo '"ID","Kernel Name"';;
*--nvtx-include*) echo '==WARNING== No kernels were profiled.';;
*) while [ "$1" != "-o" ]; do shift; done; : > "$2.ncu-rep";;
esac
""",
    )
    folder = tmp_path / "capture"
    argv = nsight.build_ncu_cmd(folder / "run", ["work", "--nvtx"], nvtx_expr="decode/")
    captured = nsight_runner.run_ncu(argv, folder)
    assert [command[0] for command in captured.commands] == ["ncu"] * 3
    assert captured.commands[1][-2:] == ("work", "--nvtx")
    assert (folder / "ncu.csv").read_text().startswith('"ID"')


# ------------------------------------------------------------------------------- top kernels


def test_top_kernels_of_a_summary_survive_a_round_trip(report_path, tmp_path: Path) -> None:
    from profilers.readers import read_report

    report = read_report(report_path("csv/llm-perf-opt/decode_cuda_gpu_kern_sum.csv"))
    chosen = top_kernels(report.kernels, 3)
    assert [kernel.time_s for kernel in chosen] == sorted(
        (kernel.time_s for kernel in chosen), reverse=True
    )
    assert sum(kernel.launches for kernel in top_kernels(report.kernels, 1000)) == 78_016
    path = tmp_path / "top.yaml"
    path.write_text(to_yaml(chosen, report.label), encoding="utf-8")
    assert read_yaml(path) == [
        type(kernel)(
            **{**{f: getattr(kernel, f) for f in kernel.__slots__}, "share": round(kernel.share, 6)}
        )
        for kernel in chosen
    ]


def test_patterns_match_their_kernel_alone(report_path) -> None:
    from profilers.readers import read_report

    report = read_report(report_path("csv/llm-perf-opt/prefill_cuda_gpu_kern_sum.csv"))
    chosen = top_kernels(report.kernels, 20)
    for kernel in chosen:
        matching = [other.name for other in chosen if re.search(kernel.pattern, other.name)]
        assert matching == [kernel.name]
        assert "\\ " not in kernel.pattern


def test_every_kernel_gets_an_ncu_run_in_a_folder_of_its_own(report_path, tmp_path: Path) -> None:
    from profilers.readers import read_report

    report = read_report(report_path("csv/llm-perf-opt/decode_cuda_gpu_kern_sum.csv"))
    chosen = top_kernels(report.kernels, 2, launch_skip=5, launch_count=3)
    commands = ncu_commands(chosen, tmp_path, ["work"])
    outputs = [command[command.index("-o") + 1] for command in commands]
    assert outputs == [str(tmp_path / f"kernel_000{at}" / "ncu") for at in (1, 2)]
    assert all(
        "--launch-skip=5" in command and "--launch-count=3" in command for command in commands
    )
    assert f"--kernel-name=regex:{chosen[0].pattern}" in commands[0]


@pytest.mark.parametrize(
    "text", ["", "kernels: 3", "- a\n- b", "kernels: [{}]", "a: [", "kernels: [x]"]
)
def test_a_yaml_that_lists_no_kernels_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "k.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ReportError, match="not a list of kernels"):
        read_yaml(path)


# ------------------------------------------------------------------------------- doctor


def test_the_doctor_finds_what_runs_these_tests() -> None:
    import torch

    found = {check.name: check for check in examine()}
    assert found["torch"].status == "ok" and torch.__version__ in found["torch"].found
    assert found["transformers"].status == "ok"
    assert found["cpu"].status == "ok"


def test_whatever_is_missing_comes_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_tools(tmp_path, monkeypatch)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    missing = {check.name: check for check in examine() if check.status == "missing"}
    assert {"nsys", "ncu", "torch", "accelerator", "nvml", "distributed"} <= set(missing)
    assert all(check.advice and check.enables for check in missing.values())
    assert set(missing["nsys"].row()) == {"name", "status", "found", "enables", "advice"}


def test_a_tool_that_answers_nonsense_does_not_end_the_examination(stand_in) -> None:
    whole = [check.name for check in examine()]
    stand_in("nsys", "exit 9")
    stand_in("ncu", "").write_bytes(b"\x7fELF and no more")
    checks = {check.name: check for check in examine()}
    assert list(checks) == whole
    assert (checks["nsys"].status, checks["nsys"].found) == ("ok", "")
    assert (checks["ncu"].status, checks["ncu"].advice) == (
        "limited",
        "it is installed but does not answer",
    )
