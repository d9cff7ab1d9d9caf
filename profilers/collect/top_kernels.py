"""The kernels that take the most time, as YAML, with an ncu command for each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from genz_core.errors import ReportError
from profilers.collect.nsight import Counters, build_ncu_cmd, kernel_pattern

_MOST = 1000


@dataclass(frozen=True, slots=True)
class TopKernel:
    """A kernel of a report.

    pattern: regular expression of its name.  share: its share of all kernel time.
    launch_skip, launch_count: launches that ncu skips, and those that it then profiles.
    """

    name: str
    pattern: str
    time_s: float
    launches: int
    share: float
    launch_skip: int = 0
    launch_count: int = 1


def top_kernels(
    kernels: pd.DataFrame,
    topk: int = 10,
    *,
    launch_skip: int | None = None,
    launch_count: int = 1,
) -> list[TopKernel]:
    """The `topk` kernels of a kernel table with the most time.

    launch_skip: launches to skip; None for the first tenth, which are warm-up.

    Raises:
        ReportError: a table without kernels, or counts below 1.
    """
    if topk < 1 or launch_count < 1 or (launch_skip or 0) < 0:
        raise ReportError("topk and launch count must be at least 1, launch skip at least 0")
    if kernels.empty:
        raise ReportError("the report holds no kernels to choose from")
    names = kernels["full_name"].astype(object).fillna(kernels["name"].astype(object))
    grouped = (
        pd.DataFrame({"name": names, "time_s": kernels["duration_s"], "launches": kernels["count"]})
        .groupby("name", sort=False)
        .sum()
        .sort_values("time_s", ascending=False)
    )
    total = max(float(grouped["time_s"].sum()), np.finfo(float).tiny)
    return [
        TopKernel(
            name=str(name),
            pattern=kernel_pattern(str(name)),
            time_s=float(row["time_s"]),
            launches=int(row["launches"]),
            share=float(row["time_s"]) / total,
            launch_skip=int(row["launches"]) // 10 if launch_skip is None else launch_skip,
            launch_count=launch_count,
        )
        for name, row in grouped.head(min(topk, _MOST)).iterrows()
    ]


def to_yaml(chosen: Sequence[TopKernel], source: str) -> str:
    """The kernels as a document that `read_yaml` and other tools read."""
    import yaml

    entries = [
        {
            "name": kernel.name,
            "regex": kernel.pattern,
            "description": f"{kernel.share:.1%} of kernel time in {kernel.launches} launches",
            "time_s": kernel.time_s,
            "launches": kernel.launches,
            "share": round(kernel.share, 6),
            "launch_skip": kernel.launch_skip,
            "launch_count": kernel.launch_count,
        }
        for kernel in chosen
    ]
    data: dict[str, Any] = {"source": source, "kernels": entries}
    return yaml.safe_dump(data, sort_keys=False, width=100)


def read_yaml(path: Path) -> list[TopKernel]:
    """The kernels that a YAML file lists; each needs a name or a pattern, the rest is optional.

    Raises:
        ReportError: the file cannot be read or lists no kernels.
    """
    import yaml

    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        return [_entry(entry) for entry in data["kernels"]]
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ReportError(f"{path.name} is not a list of kernels: {error}") from None


def _entry(entry: dict[str, Any]) -> TopKernel:
    name = str(entry.get("name") or entry["regex"])
    return TopKernel(
        name=name,
        pattern=str(entry.get("regex") or kernel_pattern(name)),
        time_s=float(entry.get("time_s", "nan")),
        launches=int(entry.get("launches", 1)),
        share=float(entry.get("share", "nan")),
        launch_skip=int(entry.get("launch_skip", 0)),
        launch_count=int(entry.get("launch_count", 1)),
    )


def ncu_commands(
    chosen: Sequence[TopKernel],
    folder: Path,
    work_argv: Sequence[str],
    counters: Counters = Counters(),  # noqa: B008  # frozen
) -> list[list[str]]:
    """An ncu command per kernel, each with its own folder for the report."""
    return [
        build_ncu_cmd(
            folder / f"kernel_{at:04d}" / "ncu",
            work_argv,
            kernel=kernel.pattern,
            launch_skip=kernel.launch_skip,
            launch_count=kernel.launch_count,
            counters=counters,
        )
        for at, kernel in enumerate(chosen, start=1)
    ]
