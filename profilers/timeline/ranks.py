"""Ranks of one run compared: exposed communication, overlap, idle time, stragglers.

A rank is what one process did on one device.  Ranks have different clocks, so start times are not
compared.  A collective ends for all ranks at once and lasts longest for the rank that arrived
first: the rank with the shortest n-th collective arrived last, and the extra duration of the others
is the time that they waited for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from genz_core.common.quantities import percent, seconds
from profilers.schema import Report
from profilers.timeline import time_spans

_COMMUNICATION = "communication"
_NAMED = re.compile(r"(?:^|[^a-z])(?:rank|tp|worker|gpu|device|node)[-_ ]?(\d{1,5})", re.IGNORECASE)
#: Names of one collective may differ between ranks in protocol and type, but not in the operation.
_ROOT = re.compile(r"[A-Za-z]+")
_MOST_RANKS = 4096
#: Shares above which a sentence is reported.
_NOTABLE = 0.02
_TICK = 1e9

#: Columns of `RankComparison.rows`.
COLUMNS = (
    "rank", "report", "device", "launches", "span_s", "compute_s", "communication_s", "exposed_s",
    "overlap_share", "copying_s", "idle_s", "waiting_s", "last_share",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RankComparison:
    """Ranks of a run.

    rows: one row per rank with `COLUMNS`: launches of kernels; span_s from its first kernel to its
        last; compute_s and communication_s, the unions of their kernels; exposed_s, communication
        while no other kernel runs; overlap_share, of communication; copying_s, copies and sets
        while no kernel runs; idle_s, nothing at all; waiting_s for the last rank at collectives,
        and last_share, of collectives at which this rank was the last (NaN where the ranks'
        collectives do not correspond).
    collectives: number matched between the ranks, 0 for none.
    sentences: what stands out, largest first.
    """

    rows: pd.DataFrame
    collectives: int
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Rank:
    number: int
    report: str
    device: str
    kernels: pd.DataFrame  # in the order in which they started
    copies: pd.DataFrame


def compare_ranks(
    reports: Sequence[Report], names: Sequence[str] | None = None
) -> RankComparison | None:
    """Compare the ranks that reports hold, if they are ranks of one run; None otherwise.

    They are if each report names another rank, in its content or its file name, or if one report
    holds several devices.

    names: whole names of the reports' files; their labels where they are not known.
    """
    called = names or [report.label for report in reports]
    ranks = _ranks(list(zip(reports, called, strict=True)))
    if not 2 <= len(ranks) <= _MOST_RANKS:
        return None
    rows = pd.DataFrame([_activity(rank) for rank in ranks], columns=list(COLUMNS))
    durations = _collectives(ranks)
    if durations.shape[1]:
        waits = durations - durations.min(axis=0)
        last = np.bincount(durations.argmin(axis=0), minlength=len(ranks))
        rows["waiting_s"] = waits.sum(axis=1) / _TICK
        rows["last_share"] = last / durations.shape[1]
    return RankComparison(rows, durations.shape[1], _sentences(rows, durations.shape[1]))


def rank_of(report: Report, name: str) -> int | None:
    """The rank of a report, from its content or its file's name; None where neither states it."""
    stated = report.facts.get("rank")
    if isinstance(stated, int) and stated >= 0:
        return stated
    named = _NAMED.findall(name)
    return int(named[-1]) if named else None


def _ranks(reports: Sequence[tuple[Report, str]]) -> list[_Rank]:
    """What each process did on each device, in the order of ranks."""
    placed = [
        (report, name) for report, name in reports if bool(report.kernels["start_s"].notna().any())
    ]
    timed = [report for report, _ in placed]
    if len(timed) == 1:
        return _devices_of(timed[0])
    numbers = [rank_of(report, name) for report, name in placed]
    known = [number for number in numbers if number is not None]
    if len(known) < len(timed) or len(set(known)) < len(known):
        return []
    found = [
        _Rank(number, report.label, _device_name(report), _sorted(report.kernels), report.copies)
        for number, report in zip(known, timed, strict=True)
    ]
    return sorted(found, key=lambda rank: rank.number)


def _devices_of(report: Report) -> list[_Rank]:
    found = []
    copies = dict(iter(_by_place(report.copies)))
    for number, (place, rows) in enumerate(_by_place(report.kernels)):
        theirs = copies.get(place, report.copies.head(0))
        found.append(_Rank(number, report.label, f"device {place[1]}", _sorted(rows), theirs))
    return found


def _by_place(table: pd.DataFrame) -> Any:
    """The rows of each process and device; -1 for one that is not named."""
    places = table[["process", "device"]].fillna(-1)
    return table.groupby([places["process"], places["device"]])


def _device_name(report: Report) -> str:
    names = {device.name for device in report.devices if device.name}
    return names.pop() if len(names) == 1 else ""


def _sorted(kernels: pd.DataFrame) -> pd.DataFrame:
    wanted = kernels[["name", "operator_class", "start_s", "duration_s", "count"]]
    return wanted.dropna(subset=["start_s", "duration_s"]).sort_values("start_s", kind="stable")


def _activity(rank: _Rank) -> dict[str, Any]:
    """Row of a rank, without the columns that depend on other ranks."""
    kernels = rank.kernels
    start, end = _ticks(kernels)
    talks = (kernels["operator_class"] == _COMMUNICATION).to_numpy(dtype=bool)
    running = time_spans.union(start, end)
    compute = time_spans.union(start[~talks], end[~talks])
    talking = time_spans.union(start[talks], end[talks])
    span = int(end.max() - start.min()) if len(start) else 0
    exposed, busy = running - compute, _busy(rank)
    return {
        "rank": rank.number,
        "report": rank.report,
        "device": rank.device,
        "launches": int(kernels["count"].sum()),
        "span_s": span / _TICK,
        "compute_s": compute / _TICK,
        "communication_s": talking / _TICK,
        "exposed_s": exposed / _TICK,
        "overlap_share": 1.0 - exposed / talking if talking else float("nan"),
        "copying_s": (busy - running) / _TICK,
        "idle_s": (span - busy) / _TICK,
        "waiting_s": float("nan"),
        "last_share": float("nan"),
    }


def _busy(rank: _Rank) -> int:
    """Time from the first to the last kernel of a rank in which a kernel or a copy runs."""
    start, end = _ticks(rank.kernels)
    if not len(start):
        return 0
    copied = _ticks(rank.copies.dropna(subset=["start_s", "duration_s"]))
    begun, ended = (np.clip(times, start.min(), end.max()) for times in copied)
    return time_spans.union(np.concatenate([start, begun]), np.concatenate([end, ended]))


def _ticks(kernels: pd.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    start = np.rint(kernels["start_s"].to_numpy() * _TICK).astype(np.int64)
    return start, start + np.rint(kernels["duration_s"].to_numpy() * _TICK).astype(np.int64)


def _collectives(ranks: Sequence[_Rank]) -> NDArray[np.int64]:
    """Durations [ranks, collectives] in nanoseconds, with the n-th collective of every rank in
    column n.

    No columns where the ranks have different numbers of collectives or different operations.
    """
    found = [rank.kernels[rank.kernels["operator_class"] == _COMMUNICATION] for rank in ranks]
    none = np.zeros((len(ranks), 0), dtype=np.int64)
    if len({len(kernels) for kernels in found}) > 1 or not len(found[0]):
        return none
    if len({tuple(map(_deed, kernels["name"])) for kernels in found}) > 1:
        return none
    spans = [_ticks(kernels) for kernels in found]
    return np.stack([end - start for start, end in spans])


def _deed(name: object) -> str:
    """The operation of a collective, from the words of its name that do not depend on the
    protocol.
    """
    words = [word.lower() for word in _ROOT.findall(str(name))]
    return next((w for w in words if re.search(r"reduce|gather|scatter|toall|broadcast", w)), "")


def _sentences(rows: pd.DataFrame, collectives: int) -> tuple[str, ...]:
    """The most notable findings over the ranks, the largest time first."""
    found: list[tuple[float, str]] = []
    exposed, span = float(rows["exposed_s"].mean()), float(rows["span_s"].mean())
    talking = float(rows["communication_s"].mean())
    if talking > 0:
        found.append(
            (
                exposed,
                f"Communication takes {seconds(talking)} a rank; {seconds(exposed)} of it "
                f"({percent(exposed / talking)}) do not overlap with other kernels, "
                f"{percent(exposed / span if span else 0.0)} of the run.",
            )
        )
    slowest = rows.loc[rows["compute_s"].idxmax()]
    mean = float(rows["compute_s"].mean())
    excess = float(slowest["compute_s"]) - mean
    if mean > 0 and excess / mean >= _NOTABLE:
        found.append(
            (
                excess,
                f"Rank {int(slowest['rank'])} computes for {seconds(float(slowest['compute_s']))}, "
                f"{percent(excess / mean)} longer than the mean of the ranks.",
            )
        )
    if collectives and (waited := float(rows["waiting_s"].max())) > 0:
        last = rows.loc[rows["last_share"].idxmax()]
        found.append(
            (
                waited,
                f"Rank {int(last['rank'])} arrives last at {percent(float(last['last_share']))} of "
                f"{collectives:,} collectives; a rank waits for others up to {seconds(waited)}.",
            )
        )
    return tuple(sentence for _, sentence in sorted(found, reverse=True))
