"""Command lines of Nsight Systems and Nsight Compute.

Commands are argument lists and never go through a shell.  The workload is a
separate program with torch's profiler off: both use CUPTI, which serves a single client.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from genz_core.errors import MeasurementError
from profilers.collect.nvtx_ranges import DOMAIN

Capture = Literal["none", "nvtx", "cudaProfilerApi"]

#: Sections that ncu records beside the roofline set: speed of light, memory, occupancy, schedulers.
NCU_SECTIONS = (
    "SpeedOfLight",
    "SpeedOfLight_RooflineChart",
    "MemoryWorkloadAnalysis",
    "Occupancy",
    "SchedulerStats",
)
#: Counters that the kernel roofline reads, recorded whichever set is chosen.
NCU_METRICS = (
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
)
REPLAYS = ("kernel", "application", "range", "app-range")
#: Names that ncu accepts for counters, sections and sets.
_NAME = re.compile(r"[A-Za-z][\w.]*(?::[\w.]+)?")


@dataclass(frozen=True, slots=True)
class Counters:
    """What ncu counts.

    metrics: counters recorded beside those of the kernel roofline.
    sections: recorded instead of the usual ones, () for the usual ones.  set: a set of sections.
    replay: what ncu runs repeatedly to collect all counters, one of `REPLAYS`.

    Raises:
        MeasurementError: a name that no counter can have, or an unknown replay.
    """

    metrics: tuple[str, ...] = ()
    sections: tuple[str, ...] = ()
    set: str = "roofline"
    replay: str = "kernel"

    def __post_init__(self) -> None:
        for name in (*self.metrics, *self.sections, self.set):
            if not _NAME.fullmatch(name):
                raise MeasurementError(
                    f"{name[:80]!r} is unknown to ncu; `ncu --query-metrics` and `ncu "
                    "--list-sections` list the names"
                )
        if self.replay not in REPLAYS:
            raise MeasurementError(f"replay {self.replay[:80]!r}; choose {', '.join(REPLAYS)}")

    @classmethod
    def of(cls, metrics: str, sections: str, set_: str, replay: str) -> Counters:
        """The counters that command-line options name, in lists separated by commas; "" for the
        usual ones.
        """
        named, chosen = (
            tuple(filter(None, map(str.strip, text.split(",")))) for text in (metrics, sections)
        )
        return cls(named, chosen, set_ or "roofline", replay or "kernel")

    @property
    def argv(self) -> list[str]:
        """Arguments of ncu."""
        metrics = dict.fromkeys((*NCU_METRICS, *self.metrics))
        return [
            f"--replay-mode={self.replay}", f"--set={self.set}", "--print-units=base",
            f"--metrics={','.join(metrics)}",
            *(f"--section={section}" for section in self.sections or NCU_SECTIONS),
        ]  # fmt: skip


_STATS = ("cuda_gpu_kern_sum", "cuda_gpu_trace", "nvtx_kern_sum", "nvtx_gpu_proj_sum")


def build_nsys_cmd(
    out_base: str | Path,
    work_argv: Sequence[str],
    *,
    trace: str = "cuda,nvtx,cublas,cudnn",
    sample: str = "none",
    capture: Capture = "none",
    nvtx_capture: str = "",
) -> list[str]:
    """`nsys profile` of a program.

    Args:
        out_base: path of the report without ending.  work_argv: the program and its arguments.
        trace: APIs to trace.  sample: CPU sampling ("none", "process-tree").
        capture: "nvtx" records the first range called `nvtx_capture`, "cudaProfilerApi" what lies
            between its start and stop calls, "none" everything.
        nvtx_capture: "prefill", or "prefill@domain"; required for capture "nvtx".

    Kernels inside CUDA graphs are traced individually; newer drivers hide them otherwise.

    Raises:
        MeasurementError: no program, or an NVTX capture without a range.
    """
    _check_work(work_argv)
    argv = [
        "nsys", "profile", f"--trace={trace}", f"--sample={sample}", "--cpuctxsw=none",
        "--cuda-graph-trace=node", "--force-overwrite=true",
    ]  # fmt: skip
    if capture == "nvtx":
        if not nvtx_capture:
            raise MeasurementError(
                "capture nvtx needs the name of a range; give nvtx_capture, prefill or decode"
            )
        argv += [
            "--capture-range=nvtx",
            "--capture-range-end=stop",
            f"--nvtx-capture={nvtx_capture if '@' in nvtx_capture else nvtx_capture + '@*'}",
            "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0",
        ]
    elif capture == "cudaProfilerApi":
        argv += ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"]
    return [*argv, "-o", str(out_base), *work_argv]


def build_ncu_cmd(
    out_base: str | Path,
    work_argv: Sequence[str],
    *,
    nvtx_expr: str = "",
    kernel: str = "",
    launch_skip: int = 0,
    launch_count: int = 0,
    counters: Counters = Counters(),  # frozen
) -> list[str]:
    """`ncu` command of a program, in base units; roofline set and speed of light unless told
    otherwise.

    Args:
        out_base: path of the report without ending.
        nvtx_expr: only kernels inside matching ranges ("decode/" for a push-pop range), of the
            default domain and of Ridgeline's where it names none ("domain@decode/").
        kernel: regular expression of demangled kernel names.
        launch_skip, launch_count: matching launches to skip, then to profile (0: all).
        counters: what is counted, and how the program is replayed for it.

    Raises:
        MeasurementError: no program, or a negative count.
    """
    _check_work(work_argv)
    if launch_skip < 0 or launch_count < 0:
        raise MeasurementError(
            f"launch skip {launch_skip} and count {launch_count}: give numbers from 0"
        )
    argv = ["ncu", "--target-processes=all", *counters.argv]
    if nvtx_expr:
        argv += ["--nvtx", f"--nvtx-include={nvtx_expr}"]
        if "@" not in nvtx_expr:
            argv += [f"--nvtx-include={DOMAIN}@{nvtx_expr}"]
    if kernel:
        argv += ["--kernel-name-base=demangled", f"--kernel-name=regex:{kernel}"]
    if launch_skip:
        argv += [f"--launch-skip={launch_skip}"]
    if launch_count:
        argv += [f"--launch-count={launch_count}"]
    return [*argv, "--force-overwrite", "-o", str(out_base), *work_argv]


def build_nsys_stats_cmd(report: Path, out_base: Path) -> list[str]:
    """`nsys stats`: summary tables of a report as CSV files."""
    return [
        "nsys", "stats", f"--report={','.join(_STATS)}", "--format=csv", "--force-export=true",
        f"--output={out_base}", str(report),
    ]  # fmt: skip


def build_nsys_export_cmd(report: Path, database: Path) -> list[str]:
    """`nsys export`: the report as the SQLite database that the readers take."""
    return [
        "nsys", "export", "--type=sqlite", "--force-overwrite=true", f"--output={database}",
        str(report),
    ]  # fmt: skip


def build_ncu_csv_cmd(report: Path) -> list[str]:
    """`ncu --import`: all counters of a report as a CSV table on standard output."""
    return ["ncu", "--import", str(report), "--csv", "--page=raw", "--print-units=base"]


def work_argv(arguments: Sequence[str], elsewhere: bool = False) -> list[str]:
    """Argument list of `ridgeline measure` for Nsight to run, without its own profiler and without
    keeping the run.

    arguments: model and options of `measure`.  elsewhere: for a machine without this Python.
    """
    program = ["ridgeline"] if elsewhere else [sys.executable, "-m", "ridgeline"]
    return [*program, "measure", "run", *arguments, "--no-profile", "--no-keep", "--nvtx"]


def shell_line(argv: Sequence[str]) -> str:
    """An argument list as a line for a shell."""
    return shlex.join(argv)


def _check_work(argv: Sequence[str]) -> None:
    if not argv or isinstance(argv, str):
        raise MeasurementError("give the program to profile as a list of its arguments")


def kernel_pattern(name: str) -> str:
    """A regular expression that matches exactly a kernel's name.

    Only special characters are escaped, because some regex dialects refuse an escaped space.
    """
    escaped = re.sub(r"([.^$*+?()\[\]{}|\\])", r"\\\1", name)
    return f"^{escaped}$"
