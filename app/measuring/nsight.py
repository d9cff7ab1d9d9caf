"""A run inside Nsight as a run file says: the tools started, their reports imported.

The model runs as a program of its own, with torch's profiler and the static analysis off: the
profiler and Nsight use the same interface of the driver, and the analysis would be timed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from app.measuring import prediction
from app.measuring.outcome import AGAIN, Outcome, settings_of
from app.measuring.summary_document import summary_document
from genz_core.errors import InvalidValue
from genz_core.types import Workload
from profilers import Report, measure_from, read_report, summarise
from profilers.collect import nsight, nsight_runner
from profilers.collect.building import RunSettings
from profilers.collect.progress import Cancel, Progress, never, part, silent
from profilers.collect.top_kernels import ncu_commands, top_kernels

#: Fields of `run` that `ridgeline measure` has as options of the same name.
_OPTIONS = ("batch", "isl", "osl", "device", "dtype", "attention", "warmup", "repeats", "threads")


def asked(tree: Mapping[str, Any]) -> bool:
    """Whether a run file asks for Nsight."""
    return bool(tree["nsys"]["enable"] or tree["ncu"]["enable"])


def run_inside(
    tree: Mapping[str, Any], scratch: Path, progress: Progress = silent, cancelled: Cancel = never
) -> Outcome:
    """Run the model inside nsys, ncu, or one after the other, and import what they saw.

    With both, ncu takes the `ncu.topk` kernels that took longest in the timeline; alone it takes
    every kernel inside `ncu.nvtx_expr`.

    Args:
        scratch: a folder for reports, logs and statistics.

    Raises:
        InvalidValue: the model is to be cut: a report cannot be scaled to all its layers.
        MeasurementError: a tool is not here (with the command to run where it is), or failed.
        Cancelled: `cancelled` returned True.
    """
    settings = settings_of(tree)
    if settings.layers:
        raise InvalidValue(
            f"layers = {settings.layers}: what Nsight sees is not scaled to all layers; give "
            "layers=0, or a config.json with so many layers"
        )
    for tool in ("nsys", "ncu"):
        if tree[tool]["enable"]:
            there = _command(tree, tool, Path(tool), workload(tree, elsewhere=True))
            nsight_runner.refuse_missing(tool, there)
    work = workload(tree)
    captured: list[nsight_runner.Captured] = []
    timeline: Report | None = None
    if tree["nsys"]["enable"]:
        ncu_follows = tree["ncu"]["enable"]
        progress(0.0, "running inside Nsight Systems")
        argv = _command(tree, "nsys", scratch / "nsys", work)
        captured.append(nsight_runner.run_nsys(argv, scratch / "nsys", cancelled=cancelled))
        timeline = read_report(captured[0].report, label="nsys")
        progress = part(progress, 0.5 if ncu_follows else 1.0, 1.0)
    if tree["ncu"]["enable"]:
        progress(0.0, "running inside Nsight Compute")
        for argv in _ncu_commands(tree, timeline, scratch / "ncu", work):
            folder = Path(argv[argv.index("-o") + 1]).parent
            captured.append(nsight_runner.run_ncu(argv, folder, cancelled=cancelled))
    progress(1.0, "importing")
    report = timeline or read_report(captured[0].report, label="ncu")
    outcome = _outcome(tree, settings, report)
    commands = [command for one in captured for command in one.commands]
    return dataclasses.replace(
        outcome,
        commands=[AGAIN, *([part.replace(f"{scratch}/", "") for part in c] for c in commands)],
        files=tuple(dict.fromkeys(path for one in captured for path in one.files)),
    )


def workload(tree: Mapping[str, Any], elsewhere: bool = False) -> list[str]:
    """The program to watch, here or elsewhere: `ridgeline measure` with the settings of the run."""
    run, model = tree["run"], tree["model"]
    options = [text for name in _OPTIONS for text in (f"--{name}", str(run[name]))]
    options += ["--compile"] if run["compile"] else []
    options += ["--checkpoint"] if model["checkpoint"] else []
    return nsight.work_argv([model["name"], *options], elsewhere)


def _command(tree: Mapping[str, Any], tool: str, folder: Path, work: list[str]) -> list[str]:
    settings = tree[tool]
    if tool == "nsys":
        return nsight.build_nsys_cmd(
            folder / "run", work, trace=",".join(settings["trace"]), sample=settings["sample"],
            capture=settings["capture"], nvtx_capture=settings["nvtx_capture"],
        )  # fmt: skip
    return nsight.build_ncu_cmd(folder / "run", work, nvtx_expr=settings["nvtx_expr"])


def _ncu_commands(
    tree: Mapping[str, Any], timeline: Report | None, folder: Path, work: list[str]
) -> list[list[str]]:
    if timeline is None or not len(timeline.kernels):
        return [_command(tree, "ncu", folder, work)]
    return ncu_commands(top_kernels(timeline.kernels, tree["ncu"]["topk"]), folder, work)


def _outcome(tree: Mapping[str, Any], settings: RunSettings, report: Report) -> Outcome:
    """The measurement that a report holds, as of the model that ran."""
    device = next((device.name for device in report.devices if device.name), settings.device)
    measurement = dataclasses.replace(
        measure_from([report]),
        model=settings.name,
        engine="hf-compile" if settings.compile else "hf",
        workload=Workload(settings.batch, settings.isl, settings.osl),
    )
    return Outcome(
        measurement,
        prediction.setting(settings, device, tree["predict"]["system"]),
        reports=(report,),
        kernels=report.kernels,
        metrics={"summary": summary_document(summarise(report))},
    )
