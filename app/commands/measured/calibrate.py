"""ridgeline calibrate: fit constants to a machine, to reports or to runs, and validate the fit."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from app.commands import group_of
from app.commands import options as opt
from app.commands.measured.calibrate_runs import runs
from app.commands.progress_bar import running
from genz_core.errors import InvalidValue


def register(cli: typer.Typer) -> None:
    group = group_of("Fit the latency model to a machine.", machine, report, runs)
    cli.add_typer(group, name="calibrate")


def machine(
    device: opt.Device = "auto",
    threads: Annotated[
        int, opt.sized("threads", "CPU threads; 0: all if the cores are free, otherwise one.")
    ] = 0,
    save: Annotated[bool, typer.Option(help="Store the fitted system, profile and engine.")] = True,
    validate: Annotated[
        bool,
        typer.Option(
            "--validate", help="Predict and measure a model afterwards, and report the error."
        ),
    ] = False,
    model: Annotated[
        str, typer.Option(help="Model to validate on; default: a Llama of 0.47 B.")
    ] = "",
    rounds: Annotated[int, opt.sized("rounds", "How often each validation point is measured.")] = 3,
    output: Annotated[Path | None, opt.target("Markdown file for the validation.")] = None,
    anyway: Annotated[
        bool, typer.Option("--anyway", help="Run even if other programs use the cores.")
    ] = False,
    json: opt.Json = False,
) -> None:
    """Fit a system and a latency profile of this machine to microbenchmarks."""
    from app.calibration import machine as this_machine

    if output is not None and not validate:
        raise InvalidValue("--output is for the result of --validate: give both, or neither")
    config = _config(model) if model else None
    with running("calibrating") as run:
        calibrated = this_machine.calibrate(
            device, threads, run.progress, run.cancelled, anyway=anyway
        )
    if validate:
        calibrated = _validate(calibrated, config, rounds, output, json)
    paths = this_machine.save(calibrated) if save else []
    if not validate:
        _print(calibrated, paths, json)


def _config(model: str) -> dict[str, Any]:
    from app.measuring.prediction import config_at, raw_config
    from app.scenario.local_files import model_source

    source = model_source(model)
    config = config_at(source) if isinstance(source, Path) else raw_config(model)
    if isinstance(config, str):
        raise InvalidValue(f"{model} is a checkpoint; give its config.json or a registry name")
    return config


def _validate(
    calibrated: Any, config: dict[str, Any] | None, rounds: int, output: Path | None, json: bool
) -> Any:
    """Validate and print the accuracy; returns the machine as fitted before and after the model
    ran.
    """
    from app.calibration import machine_document, machine_validation

    with running("validating") as run:
        result = machine_validation.validate(
            calibrated, config, rounds=rounds, progress=run.progress, cancelled=run.cancelled
        )
    if output is not None:
        opt.write_text(output, machine_document.markdown(result))
    words = [machine_document.sentence(result), *(f"doubt: {doubt}" for doubt in result.doubts)]
    opt.show(json, machine_document.summary(result), list(result.rows), "\n".join(words))
    return result.machine


def _print(calibrated: Any, paths: list[Path], json: bool) -> None:
    from app.calibration.fit_tables import error_rows
    from profilers.collect.clock import contention_note

    rows = error_rows(calibrated.calibration)
    facts = {
        "system": calibrated.system.slug,
        "engine": calibrated.engine.name,
        "peak_flops_per_s": dict(calibrated.system.peak_flops_per_s),
        "memory_bytes_per_s": calibrated.system.memory_bytes_per_s,
        "contention": calibrated.contention,
        "spread": calibrated.suite.spread,
        "facts": dict(calibrated.suite.facts),
        "eager": asdict(calibrated.measurements.eager),
        "operators": rows,
        "files": [str(path) for path in paths],
    }
    words = [
        f"system {facts['system']}, engine {facts['engine']}" + ("" if paths else " (not saved)"),
        contention_note(calibrated.contention),
        *(f"  {path}" for path in paths),
    ]
    opt.show(json, facts, rows, "\n".join(words))


def report(
    files: Annotated[list[Path], typer.Argument(help="PyTorch traces of one device, with shapes.")],
    system: Annotated[
        str,
        typer.Option(
            help="Slug, alias or YAML of the device; default: the one that the reports name."
        ),
    ] = "",
    name: Annotated[
        str, typer.Option(help="Id of the calibrated system; default: SYSTEM-from-report.")
    ] = "",
    save: Annotated[bool, typer.Option(help="Store system and profile.")] = True,
    json: opt.Json = False,
) -> None:
    """Fit a system and a latency profile to the kernels of profiler reports."""
    import profilers
    from app.calibration import fit_tables, from_reports

    fitted = from_reports.fit(profilers.read_reports(files), system, name)
    paths = from_reports.save(fitted) if save else []
    errors = fit_tables.error_rows(fitted.calibration)
    constants = fit_tables.constant_rows(fitted)
    facts = {
        "system": fitted.system.slug,
        "kernel_time_share": fitted.share,
        "operators": errors,
        "constants": constants,
        "points": fit_tables.point_rows(fitted),
        "refused": list(fitted.refused),
        "files": [str(path) for path in paths],
    }
    shown = [{key: row[key] for key in list(row)[:-1]} for row in constants]
    words = [
        *(f"refused: {sentence}" for sentence in fitted.refused),
        f"system {fitted.system.slug}" + ("" if paths else " (not saved)")
        + f", fitted on {fitted.share:.0%} of the kernel time",
        *(f"  {path}" for path in paths),
    ]  # fmt: skip
    opt.show(json, facts, errors, shown, "\n".join(words))
