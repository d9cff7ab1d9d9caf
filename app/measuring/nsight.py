"""Run a model under Nsight as a run configuration describes, and import the reports.

The model runs as a separate program, with torch's profiler and the static analysis off: the
profiler and Nsight use the same driver interface, and the analysis would be timed, too.
"""

import dataclasses
from pathlib import Path

from app.measuring.outcome import AGAIN, Outcome, settings_of
from app.measuring.prediction import run_context
from app.measuring.summary_document import summary_document
from genz_core.common.progress import Cancel, Progress, never, part, silent
from genz_core.errors import InvalidValue
from genz_core.types import Workload
from profilers import Report, measure_from, read_report, summarise
from profilers.collect import nsight, nsight_runner
from profilers.collect.measured_model import RunSettings
from profilers.collect.nsight_runner import Captured
from profilers.collect.top_kernels import ncu_commands, top_kernels
from profilers.runs.run_config import RunConfig

#: Fields of `run` that `ridgeline measure` has as options of the same name.
_OPTIONS = ("batch", "isl", "osl", "device", "dtype", "attention", "warmup", "repeats", "threads")


def run_inside(
    config: RunConfig, scratch: Path, progress: Progress = silent, cancelled: Cancel = never
) -> Outcome:
    """Run the model inside nsys, ncu, or one after the other, and import their reports.

    With both, ncu takes the `ncu.topk` kernels that took longest in the timeline; alone it takes
    every kernel inside `ncu.nvtx_expr`.

    Args:
        scratch: a folder for reports, logs and statistics.

    Raises:
        InvalidValue: only some layers are to run, but a report cannot be scaled to all layers.
        MeasurementError: a tool is not installed here (the message has the command to run
            elsewhere), or failed.
        Cancelled: `cancelled` returned True.
    """
    settings = settings_of(config)
    if settings.layers:
        raise InvalidValue(
            f"layers = {settings.layers}: figures from Nsight are not scaled to all layers; give "
            "layers=0, or a config.json with so many layers"
        )
    elsewhere = workload(config, elsewhere=True)
    if config.nsys.enable:
        nsight_runner.refuse_missing("nsys", _nsys_command(config, Path("nsys"), elsewhere))
    if config.ncu.enable:
        nsight_runner.refuse_missing("ncu", _ncu_command(config, Path("ncu"), elsewhere))
    work = workload(config)
    captured: list[Captured] = []
    timeline: Report | None = None
    if config.nsys.enable:
        progress(0.0, "running inside Nsight Systems")
        argv = _nsys_command(config, scratch / "nsys", work)
        captured.append(nsight_runner.run_nsys(argv, scratch / "nsys", cancelled=cancelled))
        timeline = read_report(captured[0].report, label="nsys")
        progress = part(progress, 0.5 if config.ncu.enable else 1.0, 1.0)
    if config.ncu.enable:
        progress(0.0, "running inside Nsight Compute")
        commands = [_ncu_command(config, scratch / "ncu", work)]
        if timeline is not None and len(timeline.kernels):  # one run for each of the longest
            longest = top_kernels(timeline.kernels, config.ncu.topk)
            commands = ncu_commands(longest, scratch / "ncu", work, config.ncu.counters())
        for argv in commands:
            folder = Path(argv[argv.index("-o") + 1]).parent
            captured.append(nsight_runner.run_ncu(argv, folder, cancelled=cancelled))
    progress(1.0, "importing")
    report = timeline or read_report(captured[0].report, label="ncu")
    outcome = _outcome(config, settings, report)
    ran = [command for run in captured for command in run.commands]
    return dataclasses.replace(
        outcome,
        commands=[AGAIN, *([arg.replace(f"{scratch}/", "") for arg in argv] for argv in ran)],
        files=tuple(dict.fromkeys(path for run in captured for path in run.files)),
    )


def workload(config: RunConfig, elsewhere: bool = False) -> list[str]:
    """Argument list of the profiled program: `ridgeline measure` with the settings of the run.

    elsewhere: for a machine that has the tools, where this Python is not.
    """
    run, model = config.run, config.model
    options = [text for name in _OPTIONS for text in (f"--{name}", str(getattr(run, name)))]
    options += ["--compile"] if run.compile else []
    options += ["--checkpoint"] if model.checkpoint else []
    return nsight.work_argv([model.path or model.name, *options], elsewhere)


def _nsys_command(config: RunConfig, folder: Path, work: list[str]) -> list[str]:
    nsys = config.nsys
    return nsight.build_nsys_cmd(
        folder / "run", work, trace=",".join(nsys.trace), sample=nsys.sample,
        capture=nsys.capture, nvtx_capture=nsys.nvtx_capture,  # type: ignore[arg-type]
    )  # fmt: skip


def _ncu_command(config: RunConfig, folder: Path, work: list[str]) -> list[str]:
    return nsight.build_ncu_cmd(
        folder / "run", work, nvtx_expr=config.ncu.nvtx_expr, counters=config.ncu.counters()
    )


def _outcome(config: RunConfig, settings: RunSettings, report: Report) -> Outcome:
    """The outcome of a report, for the model that ran."""
    device = next((device.name for device in report.devices if device.name), settings.device)
    measurement = dataclasses.replace(
        measure_from([report]),
        model=settings.name,
        engine="hf-compile" if settings.compile else "hf",
        workload=Workload(settings.batch, settings.isl, settings.osl),
    )
    return Outcome(
        measurement,
        run_context(settings, device, config.predict.system),
        reports=(report,),
        kernels=report.kernels,
        metrics={"summary": summary_document(summarise(report))},
    )
