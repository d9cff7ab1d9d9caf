"""The one measurement that would narrow the best plan's interval most, as a command to run."""

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from app.planning.candidates import NOVELTY
from app.planning.families import Family
from app.planning.launch_options import FRONT_PORT, first_port
from app.planning.space import DEGREES
from app.planning.targets import Target
from app.question.question import Question, nominal_lengths
from app.scenario.intervals import single
from genz_core.engine import EngineProfile
from genz_core.serving import Novelty
from hardware_db.intervals import Interval, load_interval, validated_tier

_FIGURES = ("ttft_s", "tpot_s")


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measurement and its effect.

    figure: whose interval it narrows most.  now, then: ratio of the interval's ends, NaN where
    there is none.  command: runs the measurement.  points: a points file for `ridgeline calibrate
    runs`, whose measured columns are filled in with the results.  words: why this measurement.
    """

    figure: str
    now: float
    then: float
    command: str
    points: str
    words: str


def next_measurement(
    family: Family, row: Mapping[str, float], targets: tuple[Target, ...], *, several: bool
) -> Measurement:
    """The measurement for a plan: closed loops on one replica, or on the whole deployment where it
    has a prefill pool, which all its decode workers share.

    row: the plan's columns.  several: at loads around its own, which calibrate the engine;
    otherwise only at its own, which shows whether it meets its targets.
    """
    question = family.question
    now = _widths(family, row)
    # once three of the user's own runs have calibrated the engine
    engine: EngineProfile = replace(family.resolved.engine, measured_on="own")
    tier = validated_tier(family.resolved.system.latency)
    then = {name: _ratio(load_interval(name, tier, engine)) for name in _FIGURES}
    asked = {f"{target.figure.latency}_s" for target in targets if target.figure.latency}
    gains = {name: _gain(now[name], then[name]) for name in _FIGURES if not np.isnan(row[name])}
    name = max(gains, key=lambda figure: gains[figure] * (2.0 if figure in asked else 1.0))
    isl, osl, shortest = _lengths(question)
    users = _users(family, row)
    loads = sorted({max(users // 2, 1), users, 2 * users}) if several else [users]
    listed = ",".join(map(str, loads))
    return Measurement(
        name,
        now[name],
        then[name],
        f"ridgeline measure serving http://localhost:{_port(family, row)} --concurrency {listed} "
        f"--isl {isl} --osl {osl} --length-ratio {shortest} --output serving",
        _points(family, row, loads),
        _words(family, row, len(loads), validated=not all(map(math.isnan, now.values()))),
    )


def place(family: Family, row: Mapping[str, float]) -> str:
    """What a measurement of a plan loads, in words."""
    each = int(row["tp"] * row["pp"] * row["dp"])
    device = family.system.name
    if family.prefill is None:
        return f"one replica ({each} x {device})"
    reading = math.prod(int(row[f"prefill_{name}"]) for name in ("workers", "tp", "pp", "dp"))
    answering = each * int(row["replicas"])
    return (
        f"the whole deployment ({reading} x {family.prefill.system.name} for prompts, "
        f"{answering} x {device} for answers)"
    )


def _users(family: Family, row: Mapping[str, float]) -> int:
    """Open requests under the plan's load on what is measured: completed requests per second times
    their duration (Little's law).
    """
    measured = row["replicas"] if family.prefill is None else 1.0
    return max(round(row["requests_per_s"] * row["e2e_s"] / measured), 1)


def _port(family: Family, row: Mapping[str, float]) -> int:
    """Port of what is measured: of one replica itself, or of what is in front of pools."""
    return first_port(int(row["replicas"])) if family.prefill is None else FRONT_PORT


def _words(family: Family, row: Mapping[str, float], loads: int, *, validated: bool) -> str:
    loops = f"{loads} closed loops" if loads > 1 else "a closed loop"
    what = f"{loops} of users on {place(family, row)}"
    this = "these runs" if loads > 1 else "this run"
    if not validated:
        return f"{what}; no measurement validates deployments of this kind yet, {this} would"
    verb = "calibrate" if loads > 1 else "calibrates"
    engine = family.resolved.engine.name
    if not family.resolved.engine.measured_on:
        return f"{what}; {this} {verb} {engine} on this system, where it was not measured"
    return f"{what}; {this} {verb} {engine} for this model there"


def _lengths(question: Question) -> tuple[int, int, str]:
    """Longest prompt and answer to draw, and the ratio of shortest to longest."""
    isl, osl, ratio = nominal_lengths(question.isl, question.osl, question.length_ratio)
    return max(round(float(isl)), 1), max(round(float(osl)), 1), f"{float(ratio):.3g}"


def _points(family: Family, row: Mapping[str, float], loads: list[int]) -> str:
    """The rows of the runs, with empty measured columns."""
    question = family.question
    isl, osl, shortest = _lengths(question)
    same = {
        "model": question.model,
        "system": family.system.slug,
        "engine": family.resolved.engine.name,
        "weights": question.weights,
        "kv": question.kv,
        **{name: f"{row[name]:.0f}" for name in DEGREES},
        **_pools(family, row),
        "isl": str(isl),
        "osl": str(osl),
        "length_ratio": shortest,
    }
    header = [*same, "concurrency", "measured_ttft_s", "measured_tpot_s"]
    lines = [header, *([*same.values(), str(users), "", ""] for users in loads)]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def _pools(family: Family, row: Mapping[str, float]) -> dict[str, str]:
    """Columns of the prefill and decode workers, none without a prefill pool."""
    pool = family.pool_of(row)
    columns = {"replicas": f"{row['replicas']:.0f}"} | {n: str(value) for n, value in pool.items()}
    return columns if pool else {}


def _widths(family: Family, row: Mapping[str, float]) -> dict[str, float]:
    """The ratio of the ends of each interval of a plan."""
    ttft, tpot, users = (np.array([row[name]]) for name in NOVELTY)
    of = family.evidence({name: np.array([value]) for name, value in row.items()})
    known = family.intervals(Novelty(tpot, ttft, users), of)
    return {name: _ratio(single(known[name])) for name in _FIGURES}


def _ratio(interval: Interval | None) -> float:
    return math.nan if interval is None else float(interval.high / interval.low)


def _gain(now: float, then: float) -> float:
    if math.isnan(then):
        return 0.0
    return math.inf if math.isnan(now) else math.log(now / then)
