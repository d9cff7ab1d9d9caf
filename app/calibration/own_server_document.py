"""A real server compared with its simulation, as a Markdown section and as plain data."""

import datetime
import statistics
from functools import partial
from importlib.metadata import version
from typing import Any

from app.answers.table import TableFormat, render
from app.calibration.own_server import SCHEDULER, OwnServer
from app.wording import quantities

_STATISTICS = {"mean": "mean", "p50": "p50", "p90": "p90", "p99": "p99"}
#: Figures of the table by row heading.
FIGURES = {
    **{f"TTFT {word} (ms)": f"ttft_{what}_s" for what, word in _STATISTICS.items()},
    **{f"TPOT {word} (ms)": f"tpot_{what}_s" for what, word in _STATISTICS.items()},
    "E2E mean (ms)": "e2e_mean_s",
    "output tokens/s": "output_tokens_per_s",
}


_users = partial(quantities.counted, thing="user")


def rows(found: OwnServer) -> list[dict[str, Any]]:
    """One row per figure and load, SI units; calibrated: whether the figure set the step scale."""
    return [
        {
            "concurrency": at,
            "figure": name,
            "measured": measured[name],
            "simulated": found.simulated[at][name],
            "error": found.simulated[at][name] / measured[name] - 1.0,
            "calibrated": (at, name) == (found.plan.calibrate_at, "tpot_mean_s"),
        }
        for at, measured in found.measured.items()
        for name in FIGURES.values()
    ]


def table(found: OwnServer) -> list[dict[str, str]]:
    """One row per figure, one column per load: measured, simulated, error."""
    by_place = {(row["concurrency"], row["figure"]): row for row in rows(found)}
    lines = [
        {"": heading, **{_users(at): _cell(by_place[at, name]) for at in found.measured}}
        for heading, name in FIGURES.items()
    ]
    shares = {_users(at): quantities.percent(share) for at, share in found.core_share.items()}
    alone = {_users(at): _alone(found, at) for at in found.measured}
    return [
        *lines,
        {"": "core time that the server had", **shares},
        {"": "TPOT mean in core time (ms)", **alone},
    ]


def _alone(found: OwnServer, at: int) -> str:
    """Mean TPOT in processor time, which excludes time taken by other programs."""
    share, calibrated = found.core_share[at], found.core_share[found.plan.calibrate_at]
    if not share > 0:
        return ""
    measured = found.measured[at]["tpot_mean_s"] * share
    simulated = found.simulated[at]["tpot_mean_s"] * calibrated
    place = {"figure": "tpot_mean_s", "calibrated": at == found.plan.calibrate_at}
    error = simulated / measured - 1.0
    return _cell({**place, "measured": measured, "simulated": simulated, "error": error})


def summary(found: OwnServer) -> dict[str, Any]:
    """The comparison as a mapping for JSON."""
    return {
        "day": _day(),
        "engine": _engine(),
        "system": found.resolved.system.name,
        "threads": found.plan.server.threads,
        "contention": found.contention,
        "model": found.resolved.model.name,
        "parameters": found.resolved.model.parameters,
        "scheduler": SCHEDULER,
        "calibrated_at": found.plan.calibrate_at,
        "step_scale": found.scale.scale,
        "core_share": dict(found.core_share),
        "rows": rows(found),
    }


def markdown(found: OwnServer) -> str:
    """The section that `ridgeline measure own-server --output` writes."""
    plan, lengths = found.plan, found.plan.lengths
    ratio = lengths.length_ratio or 1.0
    requests = ", ".join(f"{f['requests']:.0f}" for f in found.measured.values())
    facts = (
        f"- Engine: {_engine()}, one process, {plan.server.threads} thread(s), at most "
        f"{plan.server.batch_tokens} tokens a step, a cache of {plan.server.kv_tokens:,} tokens.\n"
        f"- Machine: {found.resolved.system.name}, calibrated by its microbenchmarks; wall time "
        f"over processor time of busy cores before the run {found.contention:.2f} (1: idle).\n"
        f"- Model: {found.resolved.model.name}, "
        f"{quantities.parameters(found.resolved.model.parameters)} parameters, bf16.\n"
        f"- Load: closed loops; prompts of {_between(lengths.isl, ratio)} and answers of "
        f"{_between(lengths.osl, ratio)} tokens; {requests} requests in {plan.rounds} rounds, the "
        "loops in turns.\n"
        f"- Simulation: scheduler {SCHEDULER}, the same requests; steps x {found.scale.scale:.2f} "
        f"from one number, the mean TPOT at {_users(plan.calibrate_at)}. {_share(found)}"
    )
    return "\n\n".join(
        (
            f"Written by `ridgeline measure own-server --output FILE`, {_day()}.",
            facts,
            "Measured / simulated, and the error of the simulation:",
            render(table(found), TableFormat.markdown),
            sentence(found),
        )
    )


def sentence(found: OwnServer) -> str:
    """Median and worst error of the figures not used for calibration."""
    others = [row for row in rows(found) if not row["calibrated"]]
    errors = [abs(row["error"]) for row in others]
    worst = max(others, key=lambda row: abs(row["error"]))
    return (
        f"Median error of the {len(others)} figures that calibrated nothing: "
        f"{quantities.percent(statistics.median(errors))}; worst "
        f"{quantities.percent(abs(worst['error']))} ({worst['figure']} at "
        f"{_users(worst['concurrency'])})."
    )


def _share(found: OwnServer) -> str:
    """The scale relative to processor time, if the system reports it."""
    share = found.core_share[found.plan.calibrate_at]
    if not share > 0:
        return ""
    return (
        f"There the server had {quantities.percent(share)} of its core time: against processor "
        f"time the steps are x {found.scale.scale * share:.2f}."
    )


def _cell(row: dict[str, Any]) -> str:
    factor = 1e3 if row["figure"].endswith("_s") and "per_s" not in row["figure"] else 1.0
    figures = (quantities.digits(row[name] * factor) for name in ("measured", "simulated"))
    error = "calibrated" if row["calibrated"] else f"{row['error']:+.0%}"
    return " / ".join(figures) + f", {error}"


def _between(most: int, ratio: float) -> str:
    return f"{most}" if ratio == 1 else f"{round(most * ratio)} to {most}"


def _engine() -> str:
    return f"transformers {version('transformers')} serve, continuous batching, sdpa, torch " + (
        version("torch")
    )


def _day() -> str:
    return datetime.date.today().isoformat()
