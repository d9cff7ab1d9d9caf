"""The validation of a calibrated machine as a Markdown page, and as plain data."""

from typing import Any

from app.answers.table import TableFormat, render
from app.calibration.fit_tables import error_rows
from app.calibration.machine_validation import Validation

#: Median error that a calibration should reach.
TARGET = 0.15


def summary(validation: Validation) -> dict[str, Any]:
    """The figures of a validation as a mapping for JSON."""
    machine, run = validation.machine, validation.run
    return {
        "day": validation.day,
        "system": machine.system.name,
        "library": machine.suite.facts["library"],
        "threads": run.threads,
        "clock": run.clock,
        "model": validation.model,
        "parameters": validation.parameters,
        "points": validation.overall.points,
        "median_error": validation.overall.median,
        "mape": validation.overall.mape,
        "worst_error": validation.overall.worst,
        "noise": validation.noise,
        "contention": machine.contention,
        "doubts": list(validation.doubts),
        "phases": {name: phase.row() for name, phase in validation.phases.items()},
        "rows": list(validation.rows),
        "operators": error_rows(machine.calibration),
    }


def sentence(validation: Validation) -> str:
    """Median, mean and worst error and the repeatability, in one line."""
    overall = validation.overall
    verdict = "within" if overall.median <= TARGET else "outside"
    return (
        f"median error {overall.median:.1%} over {overall.points} points ({verdict} the "
        f"{TARGET:.0%} aimed at), mean {overall.mape:.1%}, worst {overall.worst:.1%}; repeats of "
        f"one point differ by {validation.noise:.1%}"
    )


def markdown(validation: Validation) -> str:
    """The page that `ridgeline calibrate machine --validate --output` writes."""
    phases = [
        {
            "phase": name,
            "points": row.points,
            "median error": f"{row.median:.1%}",
            "MAPE": f"{row.mape:.1%}",
            "bias": f"{row.bias:+.1%}",
            "R²": f"{row.r2:.4f}",
            "fitted line": f"{row.slope:.3f} × predicted {row.intercept_s * 1e3:+.1f} ms",
        }
        for name, row in validation.phases.items()
    ]
    return (
        "\n\n".join(
            (
                "# Accuracy on one CPU, from microbenchmarks alone",
                "Written by `ridgeline calibrate machine --validate --output FILE`, "
                f"{validation.day}.",
                f"**{sentence(validation).capitalize()}.**",
                *(f"Doubt: {doubt}." for doubt in validation.doubts),
                _how(validation),
                "## By phase\n\n" + render(phases, TableFormat.markdown),
                "## Every point\n\n" + render(_shown(validation), TableFormat.markdown),
                "## The fit on its own microbenchmarks\n\n"
                + render(_fits(validation), TableFormat.markdown),
                _limits(validation),
            )
        )
        + "\n"
    )


def _how(validation: Validation) -> str:
    machine, run = validation.machine, validation.run
    system = machine.system
    peaks = ", ".join(f"{v / 1e9:.0f} GFLOP/s {k}" for k, v in system.peak_flops_per_s.items())
    return (
        f"- Machine: {system.name}, {run.threads} thread(s); measured peaks {peaks}, "
        f"{system.memory_bytes_per_s / 1e9:.1f} GB/s; {machine.suite.facts['library']}.\n"
        f"- Clock: {_clock(run.clock)}. Wall time over processor time of busy cores before the "
        f"run: {machine.contention:.2f}.\n"
        f"- Model: {validation.model} ({validation.parameters / 1e6:.0f} M parameters, random "
        "weights, true shapes), Hugging Face transformers, eager, bf16, sdpa attention.\n"
        f"- Fitted on {sum(p.measured_s.size for p in machine.points)} microbenchmarks of "
        f"{machine.suite.facts['wall_s']:.0f} s in all, half before and half after the model ran. "
        "None of them is a product of this model, and no time of a whole step is in the fit.\n"
        "- Host time per kernel, passes of unfused operators and the copy that appends to the "
        "cache are measured alone, see [measuring](measuring.md)."
    )


def _clock(basis: str) -> str:
    if basis == "cpu":
        return "processor time of the one thread, so that other programs' turns do not count"
    return "wall time"


def _shown(validation: Validation) -> list[dict[str, Any]]:
    return [
        {
            "phase": row["phase"],
            "batch": row["batch"],
            "prompt or context": row["length"],
            "bound (ms)": f"{row['bound_s'] * 1e3:.1f}",
            "predicted (ms)": f"{row['predicted_s'] * 1e3:.1f}",
            "measured (ms)": f"{row['measured_s'] * 1e3:.1f}",
            "error": f"{row['error']:+.1%}",
            "repeats differ by": f"{row['spread']:.1%}",
        }
        for row in validation.rows
    ]


def _fits(validation: Validation) -> list[dict[str, Any]]:
    return [
        {
            "operator": row["operator"],
            "points": row["points"],
            "MAPE before": f"{row['mape_before']:.1%}",
            "MAPE after": f"{row['mape_after']:.1%}",
        }
        for row in error_rows(validation.machine.calibration)
    ]


def _limits(validation: Validation) -> str:
    return (
        "The bound is the speed of light of the model at these measured peaks; eager execution "
        "lies above it by its unfused passes, its copies of the cache and its host time. "
        "“Repeats differ by” is half the range of the repeats of one point over their median; "
        f"its median over the points, {validation.noise:.1%}, is the noise of the machine while "
        "it was measured. Other CPUs, thread counts and attention kernels need a calibration of "
        "their own."
    )
