"""ridgeline collect: vendor profilers around a run, and microbenchmarks of single operators."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from app.answers.table import to_json
from app.commands import add_command, group_of
from app.commands import options as opt
from app.commands.progress_bar import running
from genz_core.errors import InvalidValue

Workload = Annotated[
    list[str],
    typer.Argument(
        help="A model with options of `measure`, or with --program any command after `--`."
    ),
]
Folder = Annotated[Path, typer.Option("--output", help="Folder for the report, logs and commands.")]
Dry = Annotated[bool, typer.Option("--print", help="Only print the command.")]
_OPEN = {"allow_extra_args": True, "ignore_unknown_options": True}


def register(cli: typer.Typer) -> None:
    group = group_of("Run Nsight around a workload, or time operators.")
    for command in (nsys, ncu):
        add_command(group, command, context_settings=_OPEN)
    add_command(group, top_kernels)
    add_command(group, microbench)
    cli.add_typer(group, name="collect")


def nsys(
    workload: Workload,
    output: Folder = Path("nsys"),
    trace: Annotated[str, typer.Option(help="APIs to trace.")] = "cuda,nvtx,cublas,cudnn",
    sample: Annotated[str, typer.Option(help="CPU sampling.")] = "none",
    capture: Annotated[str, typer.Option(help="none, nvtx or cudaProfilerApi.")] = "none",
    nvtx_capture: Annotated[str, typer.Option(help="Range to record: prefill, decode.")] = "",
    program: Annotated[bool, typer.Option("--program", help="WORKLOAD is a program.")] = False,
    print_: Dry = False,
    json: opt.Json = False,
) -> None:
    """Record a timeline with Nsight Systems."""
    from profilers.collect import nsight, nsight_runner

    if capture not in ("none", "nvtx", "cudaProfilerApi"):
        raise InvalidValue(f"unknown capture {capture!r}; give none, nvtx or cudaProfilerApi")
    argv = nsight.build_nsys_cmd(
        output / "run", _work(workload, program, print_), trace=trace, sample=sample,
        capture=capture, nvtx_capture=nvtx_capture,  # type: ignore[arg-type]
    )  # fmt: skip
    if print_:
        typer.echo(nsight.shell_line(argv))
        return
    _report(nsight_runner.run_nsys(argv, output), json)


def ncu(
    workload: Workload,
    output: Folder = Path("ncu"),
    nvtx_expr: Annotated[
        str, typer.Option(help='Only launches within these NVTX ranges: "decode/".')
    ] = "",
    kernel: Annotated[str, typer.Option(help="Regular expression of kernel names.")] = "",
    launch_skip: Annotated[int, opt.sized("launches", "Matching launches to skip.")] = 0,
    launch_count: Annotated[int, opt.sized("launches", "Launches to profile; 0: all.")] = 0,
    kernels: Annotated[
        Path | None,
        typer.Option(help="YAML written by top-kernels; ncu runs once for each kernel."),
    ] = None,
    metrics: Annotated[
        str, typer.Option(help="Counters in addition to those of the roofline: a,b.")
    ] = "",
    sections: Annotated[str, typer.Option(help="Sections instead of the default ones: A,B.")] = "",
    set_: Annotated[str, typer.Option("--set", help="Section set of ncu.")] = "roofline",
    replay: Annotated[
        str, typer.Option(help="Replay mode: kernel, application, range or app-range.")
    ] = "kernel",
    program: Annotated[bool, typer.Option("--program", help="WORKLOAD is a program.")] = False,
    print_: Dry = False,
    json: opt.Json = False,
) -> None:
    """Record kernel counters with Nsight Compute."""
    from profilers.collect import nsight, nsight_runner
    from profilers.collect.top_kernels import ncu_commands, read_yaml

    work = _work(workload, program, print_)
    counters = nsight.Counters.of(metrics, sections, set_, replay)
    if kernels is not None:
        commands = ncu_commands(read_yaml(kernels), output, work, counters)
    else:
        commands = [
            nsight.build_ncu_cmd(
                output / "run", work, nvtx_expr=nvtx_expr, kernel=kernel,
                launch_skip=launch_skip, launch_count=launch_count, counters=counters,
            )
        ]  # fmt: skip
    if print_:
        for argv in commands:
            typer.echo(nsight.shell_line(argv))
        return
    for argv in commands:
        folder = Path(argv[argv.index("-o") + 1]).parent
        _report(nsight_runner.run_ncu(argv, folder), json)


def _work(workload: list[str], program: bool, elsewhere: bool) -> list[str]:
    from profilers.collect.nsight import work_argv

    return workload if program else work_argv(workload, elsewhere)


def _report(captured: Any, json: bool) -> None:
    """Print the captured report, imported."""
    from profilers.collect.top_kernels import top_kernels as slowest
    from profilers.readers import read_report

    report = read_report(captured.report)
    facts = {
        "report": str(captured.report),
        "format": report.format,
        "tool_version": report.tool_version,
        "devices": [device.name for device in report.devices],
        "kernel_count": int(report.kernels["count"].sum()),
        "files": [str(path) for path in captured.files],
        "commands": [list(command) for command in captured.commands],
    }
    words = [f"{captured.report}: {facts['kernel_count']} kernel launches"]
    for kernel in slowest(report.kernels, 5) if len(report.kernels) else ():
        words.append(f"  {kernel.share:6.1%}  {kernel.name[:90]}")
    opt.show(json, facts, "\n".join(words))


def top_kernels(
    report: Annotated[Path, typer.Argument(help="Any report that `ridgeline import` reads.")],
    topk: Annotated[int, opt.sized("kernels", "Number of kernels.")] = 10,
    launch_skip: Annotated[
        int | None, opt.sized("launches", "Launches to skip; default: the first tenth.")
    ] = None,
    launch_count: Annotated[int, opt.sized("launches", "Launches to profile per kernel.")] = 1,
    output: Annotated[Path | None, opt.target("Write the YAML to this file.")] = None,
    json: opt.Json = False,
) -> None:
    """Write the slowest kernels of a report as YAML."""
    from profilers.collect.top_kernels import to_yaml
    from profilers.collect.top_kernels import top_kernels as slowest
    from profilers.readers import read_report

    contents = read_report(report)
    chosen = slowest(contents.kernels, topk, launch_skip=launch_skip, launch_count=launch_count)
    text = to_yaml(chosen, contents.label)
    if output is not None:
        opt.write_text(output, text)
    if json:
        typer.echo(to_json([asdict(kernel) for kernel in chosen]))
    elif output is None:
        typer.echo(text.rstrip())
    else:
        typer.echo(f"{len(chosen)} kernels -> {output}")


def microbench(
    device: opt.Device = "auto",
    threads: Annotated[int, opt.sized("threads", "CPU threads; 0: as many as are free.")] = 0,
    budget_s: Annotated[float, opt.lasting("Time limit of the suite in seconds.")] = 100.0,
    output: Annotated[Path | None, opt.target("Write the rows to this CSV.")] = None,
    json: opt.Json = False,
) -> None:
    """Time single operators for a calibration."""
    from profilers.collect.clock import use_threads
    from profilers.collect.measured_model import pick_device
    from profilers.collect.microbenchmarks import run_suite

    chosen = pick_device(device)
    contention = use_threads(chosen, threads)
    with running("timing operators") as job:
        suite = run_suite(chosen, budget_s=budget_s, progress=job.progress, cancelled=job.cancelled)
    rows = suite.rows()
    opt.write_rows(output, rows)
    facts = {**suite.facts, "contention": contention, "spread": suite.spread}
    words = ", ".join(f"{key} {value}" for key, value in facts.items())
    opt.show(json, {"rows": rows, "facts": facts}, rows, words)
