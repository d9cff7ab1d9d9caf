"""Run Nsight on a program; commands, logs and report go into a folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from genz_core.common.progress import Cancel, never
from genz_core.errors import MeasurementError
from profilers.collect import programs
from profilers.collect.doctor import find_tool
from profilers.collect.nsight import (
    build_ncu_csv_cmd,
    build_nsys_export_cmd,
    build_nsys_stats_cmd,
    shell_line,
)

#: Longest run of a program under Nsight.
_TIMEOUT_S = 3600.0
_WHERE = {
    "nsys": "Nsight Systems, developer.nvidia.com/nsight-systems",
    "ncu": "Nsight Compute, developer.nvidia.com/nsight-compute",
}


@dataclass(frozen=True, slots=True)
class Captured:
    """The files of a run under Nsight.

    report: the file to import, either the SQLite database of nsys or the .ncu-rep of ncu.
    files: all files of the folder.  commands: argument lists that ran, in order.
    """

    report: Path
    files: tuple[Path, ...]
    commands: tuple[tuple[str, ...], ...]


def refuse_missing(tool: str, argv: Sequence[str]) -> str:
    """The path of nsys or ncu.

    Args:
        argv: the command that the message suggests for a machine that has the tool.

    Raises:
        MeasurementError: it is not installed here.
    """
    path = find_tool(tool)
    if path is None:
        raise MeasurementError(
            f"{tool} is not installed here ({_WHERE[tool]}); on a machine that has it run: "
            f"{shell_line(argv)}"
        )
    return path


def run_nsys(argv: Sequence[str], folder: Path, cancelled: Cancel = never) -> Captured:
    """Run a command of `build_nsys_cmd`, then export statistics and the database.

    The folder keeps commands.json and a log a command.

    Raises:
        MeasurementError: nsys is not installed (with the command to run elsewhere), the workload
            failed, or no report appeared.
        Cancelled: `cancelled` returned True.
    """
    base = _output_of(argv)
    tool = _Folder(folder, "nsys", cancelled)
    tool.run("profile", argv)
    report = base.with_name(base.name + ".nsys-rep")
    tool.must_exist(report, "profile")
    database = base.with_name(base.name + ".sqlite")
    tool.run("export", build_nsys_export_cmd(report, database))
    tool.run("stats", build_nsys_stats_cmd(report, base), required=False)
    tool.must_exist(database, "export")
    return tool.captured(database)


def run_ncu(argv: Sequence[str], folder: Path, cancelled: Cancel = never) -> Captured:
    """Run a command of `build_ncu_cmd`; if no kernel matched its NVTX range, again without it.

    Raises:
        MeasurementError, Cancelled: as `run_nsys`.
    """
    base = _output_of(argv)
    tool = _Folder(folder, "ncu", cancelled)
    log = tool.run("profile", argv)
    report = base.with_name(base.name + ".ncu-rep")
    if not report.is_file() and "No kernels were profiled" in log:
        own = list(argv).index("-o")  # what follows are the arguments of the workload
        kept = [part for part in argv[:own] if not part.startswith("--nvtx")]
        if len(kept) < own:
            tool.run("profile-without-nvtx", [*kept, *argv[own:]])
    tool.must_exist(report, "profile")
    table = tool.run("csv", build_ncu_csv_cmd(report), required=False)
    (folder / "ncu.csv").write_text(table, encoding="utf-8")
    return tool.captured(report)


@dataclass(slots=True)
class _Folder:
    """A folder with the commands that ran and a log of each."""

    path: Path
    tool: str
    cancelled: Cancel = never
    commands: tuple[tuple[str, ...], ...] = ()

    def run(self, step: str, argv: Sequence[str], required: bool = True) -> str:
        """Run a command of the tool with its output in `<step>.log`; returns the output."""
        tool = refuse_missing(self.tool, argv)
        self.path.mkdir(parents=True, exist_ok=True)
        self.commands += (tuple(argv),)
        self._keep_commands()
        log = self.path / f"{step}.log"
        code = programs.run(
            [tool, *argv[1:]], log, f"{self.tool} {step}", _TIMEOUT_S, self.cancelled
        )
        output = log.read_text(encoding="utf-8", errors="replace")
        if code != 0 and required:
            last = (output.strip().splitlines() or ["no output"])[-1][:200]
            raise MeasurementError(
                f"{self.tool} {step} ended with code {code}: {last} (whole log in {log})"
            )
        return output

    def _keep_commands(self) -> None:
        text = json.dumps([list(command) for command in self.commands], indent=2)
        (self.path / "commands.json").write_text(text + "\n", encoding="utf-8")

    def must_exist(self, report: Path, step: str) -> None:
        if not report.is_file():
            raise MeasurementError(
                f"{self.tool} left no {report.name}; see {self.path / f'{step}.log'}"
            )

    def captured(self, report: Path) -> Captured:
        files = tuple(sorted(path for path in self.path.iterdir() if path.is_file()))
        return Captured(report, files, self.commands)


def _output_of(argv: Sequence[str]) -> Path:
    """The path after -o in a command."""
    try:
        return Path(argv[list(argv).index("-o") + 1])
    except (ValueError, IndexError):
        raise MeasurementError("the command names no output; build it with build_*_cmd") from None
