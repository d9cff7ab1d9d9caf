"""Wall, busy and idle time of the steps of a phase on the device, and why it was idle.

The device waits until the host launches the next kernel or, if that was launched before, for what
the kernel depends on.  If the host launched late, it had been waiting for the device
(synchronisation), launching kernels that are shorter than a launch (launch-bound), or doing
something else (host).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from profilers.schema import Report
from profilers.timeline import time_spans
from profilers.timeline.step_launches import StepLaunches

Seconds = NDArray[np.float64]

#: Causes of idle time, as sentences name them.
CAUSES: Mapping[str, str] = {
    "launch-bound": "launch-bound: kernels launched after the previous one ended",
    "host": "the host did something else before it launched",
    "synchronisation": "the host had waited for the device before it launched",
    "graph": "gaps between kernels of a graph",
    "device": "kernels launched in time that waited on the device",
    "unknown": "gaps before work whose launch is not in the report",
}
#: A gap up to this long is one launch (5 to 10 us) or a few; a longer one is other work of the
#: host.
_LAUNCH_GAP_S = 50e-6
#: A wait of the host counts if it ends at most this long before the device runs out of work, or
#: later.
_WAKE_S = 20e-6
#: Most steps whose clocks are read.
_MOST_RUNS = 400
#: A launch is not part of a step if it is separated from it by this share of the step, and is no
#: more than this share of its work.
_APART, _STRAY = 0.1, 0.01


@dataclass(frozen=True, slots=True)
class StepClocks:
    """Times of a step [s], the mean over steps and devices.

    wall_s: from its first to its last activity on the device.  busy_s: part of it in which kernels
    or copies run; idle_s: the rest; causes: {cause: part of idle_s}, see `CAUSES`.
    exposed_communication_s: part of it in which only collectives run.
    between_s: median from the end of a step to the start of the next; NaN for a single one.
    """

    wall_s: float
    busy_s: float
    idle_s: float
    causes: Mapping[str, float] = field(default_factory=dict)
    exposed_communication_s: float = 0.0
    between_s: float = float("nan")

    @property
    def cause(self) -> str:
        """The cause of most idle time, "" for none."""
        return max(self.causes, key=lambda name: self.causes[name]) if self.idle_s > 0 else ""


@dataclass(frozen=True, slots=True)
class _Activity:
    """Kernels and copies of a step on one device in the order of their starts.

    launch: NaN where unknown.  kinds: 0 kernel, 1 kernel of a graph, 2 collective, 3 copy.
    """

    start: Seconds
    end: Seconds
    launch: Seconds
    kinds: NDArray[np.int64]

    def part(self, rows: NDArray[np.int64]) -> _Activity:
        return _Activity(self.start[rows], self.end[rows], self.launch[rows], self.kinds[rows])


def step_clocks(
    launches: StepLaunches, reports: Sequence[Report], steps_in_run: int = 1
) -> StepClocks | None:
    """Clocks of the steps of a phase; None without a timeline.

    Args:
        reports: the reports that `launches` comes from.  steps_in_run: steps in each of its runs.
    """
    if not launches.timed or not launches.runs:
        return None
    with_kernels = [report for report in reports if len(report.kernels)]
    waits = [wait_ends(report) for report in with_kernels]
    copies = [
        report.copies.dropna(subset=["start_s", "duration_s"]).sort_values("start_s")
        for report in with_kernels
    ]
    figures, edges = [], []
    seams = np.searchsorted(launches.kernels["run"], np.arange(launches.runs + 1))
    for run in _spread(launches.runs):
        rows = launches.kernels.iloc[seams[run] : seams[run + 1]]
        report = int(rows["report"].iloc[0])
        activity = _without_strays(_activity(rows, copies[report]))
        figures.append(_figures(activity, waits[report]))
        edges.append((run, report, float(activity.start[0]), float(activity.end.max())))
    mean = pd.DataFrame(figures).fillna(0.0).mean() / steps_in_run
    return StepClocks(
        float(mean["wall_s"]),
        float(mean["busy_s"]),
        float(mean["wall_s"] - mean["busy_s"]),
        {name: float(mean[name]) for name in CAUSES if mean.get(name, 0.0) > 0},
        float(mean["exposed_s"]),
        _between_s(edges),
    )


def _spread(runs: int) -> list[int]:
    """Indices of the runs whose clocks are read: all of them, or evenly spaced pairs where there
    are many.
    """
    if runs <= _MOST_RUNS:
        return list(range(runs))
    firsts = np.linspace(0, runs - 2, _MOST_RUNS // 2).astype(int).tolist()
    return sorted({at + after for at in firsts for after in (0, 1)})


def wait_ends(report: Report) -> Seconds:
    """End times [s] of the calls in which the host waited, in order."""
    if report.waits is None:
        return np.zeros(0)
    return np.sort((report.waits["start_s"] + report.waits["duration_s"]).to_numpy())


def _activity(rows: pd.DataFrame, copies: pd.DataFrame) -> _Activity:
    """The kernels of a step and the copies on their device during it."""
    start, length = rows["start_s"].to_numpy(), rows["duration_s"].to_numpy()
    collective = (rows["operator_class"] == "communication").to_numpy()
    in_graph = rows["in_graph"].fillna(False).to_numpy(dtype=bool)
    kinds = np.where(collective, 2, in_graph.astype(np.int64))
    end, launch = start + length, rows["launch_s"].to_numpy()
    among = np.searchsorted(copies["start_s"].to_numpy(), [start.min(), end.max()])
    copies = copies.iloc[among[0] : among[1]]
    device = rows["device"].iloc[0]
    if not pd.isna(device) and len(copies):
        copies = copies[(copies["device"] == device).fillna(True).astype(bool)]
    begun = copies["start_s"].to_numpy()
    ended = np.minimum(begun + copies["duration_s"].to_numpy(), end.max())
    nothing = np.full(len(begun), np.nan)
    joined = _Activity(
        np.concatenate([start, begun]),
        np.concatenate([end, ended]),
        np.concatenate([launch, nothing]),
        np.concatenate([kinds, np.full(len(begun), 3)]),
    )
    return joined.part(np.argsort(joined.start, kind="stable"))


def _without_strays(activity: _Activity) -> _Activity:
    """A step without the few launches that lie far before or after all others."""
    reach = np.maximum.accumulate(activity.end)
    gaps = activity.start[1:] - reach[:-1]
    if not len(gaps):
        return activity
    work = np.cumsum(activity.end - activity.start)
    far = np.flatnonzero(gaps > _APART * (reach[-1] - activity.start[0]))
    first = max((at + 1 for at in far if work[at] <= _STRAY * work[-1]), default=0)
    last = min((at for at in far if work[-1] - work[at] <= _STRAY * work[-1]), default=len(gaps))
    return activity.part(np.arange(first, last + 1)) if first <= last else activity


def _figures(activity: _Activity, waited_until: Seconds) -> dict[str, float]:
    """Wall, busy and exposed time of a step, and its idle time by cause."""
    lengths = activity.end - activity.start
    wall_s = float(activity.end.max() - activity.start[0])
    busy_s = min(time_spans.union_s(activity.start, lengths), wall_s)
    working = activity.kinds != 2
    exposed_s = busy_s - time_spans.union_s(activity.start[working], lengths[working])
    reach = np.maximum.accumulate(activity.end)
    at = np.flatnonzero(activity.start[1:] > reach[:-1]) + 1
    gap_start, gap = reach[at - 1], activity.start[at] - reach[at - 1]
    causes = gap_causes(gap_start, gap, activity.launch[at], activity.kinds[at], waited_until)
    idle = {name: float(gap[causes == name].sum()) for name in dict.fromkeys(causes.tolist())}
    return {"wall_s": wall_s, "busy_s": busy_s, "exposed_s": max(exposed_s, 0.0), **idle}


def gap_causes(
    gap_start: Seconds,
    gap: Seconds,
    launch: Seconds,
    kinds: NDArray[np.int64],
    waited_until: Seconds,
) -> NDArray[np.str_]:
    """The cause of each gap, a key of `CAUSES`, by the activity after it.

    Args:
        gap_start, gap: start and length [s].  launch: of the activity after it [s], NaN where
            unknown.  kinds: of that activity, 1 for a kernel of a graph.  waited_until: as
            `wait_ends`.
    """
    late = launch >= gap_start
    before = np.searchsorted(waited_until, gap_start - _WAKE_S)
    waited = late & (before < np.searchsorted(waited_until, np.nan_to_num(launch), side="right"))
    on_time = np.where(kinds == 1, "graph", "device")
    hurried = np.where(gap <= _LAUNCH_GAP_S, "launch-bound", "host")
    causes = np.where(waited, "synchronisation", np.where(late, hurried, on_time))
    return np.where(np.isnan(launch), "unknown", causes)


def _between_s(edges: list[tuple[int, int, float, float]]) -> float:
    """Median time from the end of a step to the start of the next of the same report.

    edges: number of the run, of its report, start and end.
    """
    gaps = [
        later[2] - earlier[3]
        for earlier, later in itertools.pairwise(sorted(edges))
        if later[0] == earlier[0] + 1 and later[1] == earlier[1] and later[2] > earlier[3]
    ]
    return float(np.median(gaps)) if gaps else float("nan")
