"""Autoscaled replicas compared with a fixed number: cost, percentiles, and which get worse.

Sizes, targets and prices come from the question; the autoscaler from `policies.Scaling`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from app.answers.table import finite
from app.planning.targets import verdicts
from app.question.query import Query
from app.scaling import losses
from app.scaling.fleet_run import LATENCIES, PERCENTILES, Deployed, FleetRun
from app.scaling.load import DAY_S, clock, within_reason
from app.scaling.policies import NAMES, SOURCES, Scaling
from app.scaling.start import Start, start_of
from app.scenario.results import DocumentTable
from app.scenario.scenario import Resolved
from app.simulation.run import UNVALIDATED
from app.wording import quantities
from genz_core.common.progress import Cancel, Progress, never, part, silent
from genz_core.serving.simulation import ReplicaSetPlan
from genz_core.serving.simulation.scaling import Fixed
from genz_core.types import Array

_WINDOWS, _MOST_POINTS = 24, 2000
#: A percentile counts as worse if it exceeds the fixed deployment's by this factor; increases below
#: the second value are ignored.
_WORSE, _LEAST_S = 1.1, 1e-3


@dataclass(frozen=True, eq=False)
class Scaled(DocumentTable):
    """The results of a load with autoscaled replicas and with a fixed number.

    rule: the autoscaler.  start: time to start a replica.  mtbf_s: of a replica, `inf` without
    losses.
    stated: whether the question gives the fixed number.
    """

    rule: Scaling
    start: Start
    mtbf_s: float
    following: FleetRun
    fixed: FleetRun
    stated: bool

    @cached_property
    def _document(self) -> dict[str, Any]:
        deployed = self.following.deployed
        sustained = deployed.capacity.mean
        rule = {one.name: getattr(self.rule, one.name) for one in fields(Scaling)}
        return {
            **deployed.document(),
            "scaling": {
                **rule,
                "name": NAMES[self.rule.policy],
                "source": SOURCES[self.rule.policy],
            },
            "replica": {"open": sustained.open, "requests_per_s": sustained.requests_per_s},
            "startup_s": self.start.seconds,
            "startup": list(self.start.parts),
            "replace_s": self.following.plan.replace_s,
            "mtbf_s": finite(self.mtbf_s),
            "usd_per_device_hour": deployed.rent_usd_per_hour,
            "following": self.following.figures(),
            "fixed": {"replicas": self.fixed.plan.initial, **self.fixed.figures()},
            "suffering": suffering(self),
            "windows": windows(self),
            "course": course(self),
            "sentences": sentences(self),
            "not_validated": UNVALIDATED,
        }

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row each for autoscaled and fixed replicas."""
        ways = {NAMES[self.rule.policy]: self.following, "fixed": self.fixed}
        return [{"replicas": way, **run.figures()} for way, run in ways.items()]

    def to_dataframe(self) -> Any:
        """One row per window of the day."""
        import pandas as pd

        return pd.DataFrame(windows(self))

    def __repr__(self) -> str:
        return "\n".join(sentences(self))


def scale(
    query: Query,
    progress: Progress = silent,
    cancelled: Cancel = never,
    *,
    deployment: Resolved | None = None,
    **extras: Any,
) -> Scaled:
    """Simulate a load with autoscaled replicas, and again with a fixed number.

    extras: as declared in `app.question.extras` for "scale".  The fixed number is the question's
    `replicas` if given, otherwise the smallest that serves as well.  deployment: see `Deployed.of`.

    Raises:
        RidgelineError: an invalid question, load or policy.
        Cancelled: `cancelled` returned True.
    """
    rule = Scaling(**{one.name: extras[one.name] for one in fields(Scaling)})
    rule.check()
    question, cut = within_reason(query.question)
    deployed = Deployed.of(question, query.objects, cancelled, by_day=True, deployment=deployment)
    if cut:
        drawn = deployed.drawn
        deployed = replace(deployed, drawn=replace(drawn, notes=(*drawn.notes, cut)))
    q = deployed.resolved.scenario
    start = start_of(deployed.resolved, extras["weights_from"], extras["startup_s"])
    policy = rule.made(deployed.capacity)
    until_s = _until(deployed)
    mtbf = losses.mtbf_s(q, extras["mtbf_h"])
    shared: dict[str, Any] = {
        "start_s": start.seconds,
        "losses": losses.drawn(mtbf, rule.max_replicas, until_s, q.seed),
        "replace_s": extras["replace_s"],
        "open_each": extras["open_each"],
        "until_s": until_s,
    }
    first = ReplicaSetPlan(policy, _initial(deployed, rule), **shared)
    following = deployed.run(first, part(progress, 0.0, 0.5, "autoscaled"), cancelled)
    rest = part(progress, 0.5, 1.0, "fixed replicas")
    if "replicas" in query.given:
        fixed = deployed.run(
            ReplicaSetPlan(Fixed(q.replicas), q.replicas, **shared), rest, cancelled
        )
    else:
        fixed = _as_good(following, shared, rest, cancelled)
    return Scaled(rule, start, mtbf, following, fixed, "replicas" in query.given)


def _as_good(
    following: FleetRun, shared: Mapping[str, Any], progress: Progress, cancelled: Cancel
) -> FleetRun:
    """The smallest fixed number of replicas that keeps as many requests within the targets.

    The search starts at the mean of the autoscaled number and ends at its maximum, which is used if
    no smaller number is enough.
    """
    mean = following.course.replica_s / max(following.plan.until_s, 1.0)
    most = int(max(following.course.there.max(initial=1), 1))
    number = min(max(math.ceil(mean - 1e-9), 1), most)
    tries = most - number + 1
    while True:
        done = 1.0 - (most - number + 1) / tries
        run = following.deployed.run(
            ReplicaSetPlan(Fixed(number), number, **shared), part(progress, done, 1.0), cancelled
        )
        if run.good_share >= following.good_share or number >= most:
            return run
        number += 1


def _initial(deployed: Deployed, rule: Scaling) -> int:
    """Replicas at the start: as many as the first hour needs, within the limits."""
    arrival = deployed.drawn.requests.arrival_s
    early = arrival[arrival <= arrival.min() + 3600.0]
    return min(max(deployed.capacity.replicas(early), rule.min_replicas), rule.max_replicas)


def _until(deployed: Deployed) -> float:
    """Least billed time [s]: a whole day, otherwise until the last arrival."""
    q = deployed.resolved.scenario
    whole = bool(q.day) if q.kind == "trace" else not q.requests
    return DAY_S if whole else float(np.max(deployed.drawn.requests.arrival_s))


# ------------------------------------------------------------------------------- figures


def edges_of(found: Scaled) -> Array:
    """The window edges: hours of a day, otherwise equal parts."""
    until_s = max(found.following.plan.until_s, 1.0)
    if until_s == DAY_S:
        return np.linspace(0.0, DAY_S, 25)
    return np.linspace(0.0, until_s * (1.0 + 1e-9), _WINDOWS + 1)


def windows(found: Scaled) -> list[dict[str, Any]]:
    """One row per window: demand, replicas and percentiles of both deployments."""
    edges = edges_of(found)
    pairs = zip(found.following.windows(edges), found.fixed.windows(edges), strict=True)
    kept = ("good_share", "ttft_p50_s", "ttft_p99_s", "tpot_p50_s", "tpot_p99_s")
    return [
        {**first, **{f"fixed_{name}": second[name] for name in kept}} for first, second in pairs
    ]


_SHOWN = (
    "good_share", "replica_hours", "most_replicas", "starts", "losses", "held", "usd",
    "usd_per_mtok", *(f"{name}_{p}_s" for name in LATENCIES for p in ("p50", "p95", "p99")),
)  # fmt: skip


def shown_figures(found: Scaled) -> list[dict[str, Any]]:
    """The figures that differ between the deployments, one row per figure."""
    here, there = found.following.figures(), found.fixed.figures()
    fixed = f"{found.fixed.plan.initial} fixed"
    return [
        {"figure": name, found.rule.policy: here[name], fixed: there[name]}
        for name in _SHOWN
        if here[name] is not None
    ]


def shown_windows(found: Scaled) -> list[dict[str, Any]]:
    """The windows with the columns that fit a narrow table, and their starts as times."""
    names = ("requests_per_s", "replicas", "good_share", "ttft_p50_s", "ttft_p99_s",
             "tpot_p99_s", "fixed_ttft_p99_s", "fixed_tpot_p99_s")  # fmt: skip
    return [
        {"start": clock(row["start_s"]), **{name: row[name] for name in names}}
        for row in windows(found)
    ]


def suffering(found: Scaled) -> list[dict[str, Any]]:
    """Percentiles that are longer than with the fixed number, the worst first."""
    here, there = found.following.figures(), found.fixed.figures()
    rows = []
    for name in LATENCIES:
        for percent in PERCENTILES:
            mine, other = here[f"{name}_p{percent}_s"], there[f"{name}_p{percent}_s"]
            if mine and other and mine > _WORSE * other and mine - other > _LEAST_S:
                rows.append(
                    {"latency": name, "percentile": percent, "seconds": mine, "fixed_s": other,
                     "times": mine / other}
                )  # fmt: skip
    return sorted(rows, key=lambda row: -row["times"])


def course(found: Scaled) -> dict[str, list[float]]:
    """Number of replicas at each change over time, thinned."""
    log = found.following.course
    kept = np.unique(np.linspace(0, len(log.time_s) - 1, _MOST_POINTS).astype(int))
    columns = {"time_s": log.time_s, "wanted": log.wanted, "ready": log.ready, "there": log.there}
    return {name: values[kept].tolist() for name, values in columns.items()}


def sentences(found: Scaled) -> list[str]:
    """The answer in sentences: cost, percentiles, and assumptions."""
    run, fixed = found.following, found.fixed
    first, second = run.figures(), fixed.figures()
    deployed, name = run.deployed, NAMES[found.rule.policy]
    hours = f"{first['replica_hours']:,.1f} replica-hours against {second['replica_hours']:,.1f}"
    saved = 1.0 - first["replica_hours"] / max(second["replica_hours"], 1e-9)
    usd = ""
    if first["usd"] is not None:
        usd = f", ${first['usd']:,.2f} against ${second['usd']:,.2f}"
    change = f"{quantities.percent(abs(saved))} {'less' if saved >= 0 else 'more'}"
    number = fixed.plan.initial
    lines = [
        f"{name} takes {hours} of {number} fixed replicas{usd}: {change}.",
        f"Requests within the targets: {quantities.percent(first['good_share'])} against "
        f"{quantities.percent(second['good_share'])} ({deployed.targets_in_words}).",
    ]
    for way, figures in {name: first, f"{number} fixed replicas": second}.items():
        lines += [f"{way}: {said}" for said in verdicts(deployed.load_targets, figures)]
    worse = suffering(found)
    if worse:
        words = ", ".join(
            f"{row['latency'].upper()} p{row['percentile']} {quantities.seconds(row['seconds'])} "
            f"against {quantities.seconds(row['fixed_s'])}"
            for row in worse[:4]
        )
        lines.append(f"Longer than with fixed replicas: {words}.")
    else:
        lines.append("No percentile is more than 10 % longer than with fixed replicas.")
    lines.append(
        f"A replica serves {quantities.seconds(found.start.seconds)} after it is requested "
        f"({found.start.words}); {first['starts']:,} starts, {first['losses']:,} losses, "
        f"{first['held']:,} requests that found no replica serving."
    )
    return [*lines, *(f"Note: {note}." for note in notes(found))]


def notes(found: Scaled) -> list[str]:
    """Assumptions, in sentences."""
    deployed = found.following.deployed
    sustained, figures = deployed.capacity.mean, found.following.figures()
    refused = figures["refused"]
    said = [*deployed.drawn.notes, *deployed.resolved.notes, *deployed.unjudged(figures)]
    said.append(
        f"one replica serves {quantities.request_rate(sustained.requests_per_s, 3)}, "
        f"{sustained.open:,} open, within the targets by the closed form"
    )
    if not found.stated:
        said.append(
            "the fixed number is the smallest that serves as well; give replicas to choose another"
        )
    if refused:
        said.append(f"{refused:,} requests do not fit the cache of a replica and were refused")
    return [*said, UNVALIDATED]
