"""Folders of reports: the ranks of a run, a file or several each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from genz_core.errors import ReportError
from profilers.operators.attribution import DEFAULT_PHASES, PhasePattern
from profilers.readers import nsys_staged, read_report, rocprof_csv
from profilers.schema import Report

#: Depth of folders that is searched: a run writes a file per rank, perhaps in a folder per host.
_MOST_FILES, _DEPTH = 2048, 2


@dataclass(frozen=True, slots=True)
class FolderReports:
    """The reports of a folder; and for each other file, by name, a sentence on why it is not a
    report.
    """

    reports: tuple[Report, ...]
    paths: tuple[Path, ...]
    left_out: dict[str, str]


def read_folder(
    folder: str | os.PathLike[str], *, phases: Sequence[PhasePattern] = DEFAULT_PHASES
) -> FolderReports:
    """Read every report of a folder and of the folders in it; hidden files are skipped.

    Raises:
        ReportError: no such folder, too many files, or no report among them.
    """
    root = Path(folder)
    if not root.is_dir():
        raise ReportError(f"{root.name}: no such folder")
    if nsys_staged.is_parquet_folder(root):
        return FolderReports((read_report(root, phases=phases),), (root,), {})
    reports, paths, left_out = [], [], {}
    for path in _files(root):
        try:
            reports.append(_with_agents(read_report(path, phases=phases), path))
            paths.append(path)
        except ReportError as error:
            left_out[str(path.relative_to(root))] = str(error)
    if not reports:
        first = next(iter(left_out.values()), "it holds no files")
        raise ReportError(f"{root.name}: no report in this folder ({first})")
    return FolderReports(tuple(reports), tuple(paths), left_out)


def _with_agents(report: Report, path: Path) -> Report:
    """A trace of rocprofv3 with the devices of the agent_info.csv beside it, if there is one."""
    beside = path.with_name(path.name.replace("kernel_trace", "agent_info"))
    if report.format != rocprof_csv.FORMAT or beside == path or not beside.is_file():
        return report
    used = set(report.kernels["device"].dropna().tolist())
    try:
        listed = rocprof_csv.agents(beside)
    except ReportError:
        return report
    return replace(report, devices=tuple(d for d in listed if d.index in used) or listed)


def _files(root: Path) -> Iterator[Path]:
    """Files of a folder in the order of their names.

    Raises:
        ReportError: there are too many.
    """
    count = 0
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root).parts
        if len(inside) > _DEPTH or any(part.startswith(".") for part in inside):
            continue
        if path.is_file():
            count += 1
            if count > _MOST_FILES:
                raise ReportError(f"{root.name}: over {_MOST_FILES} files; give one run's folder")
            yield path
