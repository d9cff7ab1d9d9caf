"""Comparisons in sentences: the largest gaps, whether they are inside, and possible causes.

Patterns only suggest causes to look at; none is proven, since a result holds no kernels.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, pstdev

from app.benchmarks.comparison import BEYOND, Comparison, Point, Row

_MOST_GAPS = 4
#: Smallest gap that is reported; ratios this close count as one factor; this far apart, they change
#: with load.
_SMALL, _ALIKE, _APART = 1.1, 1.15, 1.3


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence on a comparison.  kind: "summary", "sum", "gap", "bound" or "cause".

    ratio: measured over predicted, NaN where it covers several figures.
    """

    kind: str
    sentence: str
    ratio: float = math.nan


def findings(comparison: Comparison) -> list[Finding]:
    """The findings of a comparison, the summary first."""
    if not comparison.predicted:
        return []
    return [
        *_summary(comparison),
        *_sums(comparison),
        *_contradictions(comparison),
        *_below_bound(comparison),
        *_gaps(comparison),
        *_causes(comparison),
    ]


def _summary(comparison: Comparison) -> Iterator[Finding]:
    rows = [row for point in comparison.sound for row in point.rows]
    if not comparison.sound:
        yield Finding("summary", "No run passes every check, so there are no findings.")
        return
    judged = [row for row in rows if row.place in ("inside", "better", "worse", "below bound")]
    if not judged:
        yield Finding("summary", "No figure of these results has a validated interval.")
        return
    counts = {place: sum(row.place == place for row in judged) for place in ("inside", "worse")}
    faster = len(judged) - sum(counts.values())
    without = sum(row.place == "not validated" for row in rows)
    unpredicted = sum(row.place == "not predicted" for row in rows)
    yield Finding(
        "summary",
        f"{counts['inside']} of {len(judged)} figures with an interval lie inside their "
        f"{comparison.level * 100:g} % interval; worse: {counts['worse']}, better: {faster}. "
        f"Predicted without an interval: {without}; not predicted: {unpredicted}.",
    )


def _sums(comparison: Comparison) -> Iterator[Finding]:
    """The failed checks, which come first: no other finding uses such a run."""
    for point in comparison.predicted:
        for check in point.failed:
            yield Finding(
                "sum", f"{comparison.label(point)}: the run contradicts itself or the priced "
                       f"deployment: {check.sentence}. It is not used.",
            )  # fmt: skip


def _contradictions(comparison: Comparison) -> Iterator[Finding]:
    said = {str(one): None for p in comparison.points for one in p.deployment.differences}
    for sentence in said:
        yield Finding("bound", f"{sentence}; the run may not be the priced deployment.")


def _below_bound(comparison: Comparison) -> Iterator[Finding]:
    for point in comparison.predicted:
        figures = [row.column.head for row in point.rows if row.place == "below bound"]
        if figures:
            yield Finding(
                "bound",
                f"{comparison.label(point)}: {', '.join(figures)} better than the hardware allows "
                f"for this deployment: {BEYOND}.",
            )


def _gaps(comparison: Comparison) -> Iterator[Finding]:
    """The largest gaps, worse ones first."""
    found = [
        (point, row)
        for point in comparison.sound
        for row in point.rows
        if math.isfinite(row.ratio) and row.place != "below bound" and _slowness(row) > _SMALL
    ]
    found.sort(key=lambda pair: -_slowness(pair[1]))
    alike: dict[tuple[int, str], tuple[Point, Row]] = {}
    for point, row in found:
        # groups of equivalent figures: those of a latency, ITL and TPOT, and all rates
        latency = row.figure.partition("_")[0].replace("itl", "tpot")
        alike.setdefault((id(point), "rate" if row.is_rate else latency), (point, row))
    for point, row in list(alike.values())[:_MOST_GAPS]:
        where = {
            "inside": f"inside the {comparison.level * 100:g} % interval",
            "worse": f"beyond the {comparison.level * 100:g} % interval",
            "not validated": "a figure without an interval",
        }.get(row.place, row.place)
        yield Finding(
            "gap",
            f"{comparison.label(point)}: {row.column.head} "
            f"{row.column.words(row.measured)}, predicted "
            f"{row.column.words(row.predicted.value)}: {_slowness(row):.2f} x slower, "
            f"{where}.",
            row.ratio,
        )


def _slowness(row: Row) -> float:
    """How many times slower than predicted."""
    return 1.0 / row.ratio if row.is_rate else row.ratio


# ------------------------------------------------------------------------------- causes


def _causes(comparison: Comparison) -> Iterator[Finding]:
    points = sorted(comparison.sound, key=lambda point: point.load_value)
    tpot = _ratios(points, ("tpot_mean_s", "tpot_p50_s", "itl_mean_s"))
    ttft = _ratios(points, ("ttft_p50_s", "ttft_mean_s"))
    for words in (_of_steps(tpot), _of_first_tokens(ttft, tpot), _of_tails(comparison, points)):
        if words:
            yield Finding("cause", words)


def _ratios(points: Sequence[Point], figures: Sequence[str]) -> list[float]:
    """Measured over predicted of the first figure that each point has, in order of load."""
    found = []
    for point in points:
        rows = (point.row(figure) for figure in figures)
        ratios = [row.ratio for row in rows if row is not None and math.isfinite(row.ratio)]
        found += ratios[:1]
    return found


def _of_steps(ratios: Sequence[float]) -> str:
    """Causes suggested by the ratios of TPOT over the load."""
    if not ratios:
        return ""
    middle = math.exp(fmean(map(math.log, ratios)))
    apart = math.exp(pstdev(map(math.log, ratios))) if len(ratios) > 1 else 1.0
    if len(ratios) > 1 and ratios[-1] > ratios[0] * _APART:
        return (
            f"TPOT's gap grows with load ({ratios[0]:.2f} x at the lowest load, {ratios[-1]:.2f} x "
            "at the highest): check the limit on sequences, the KV cache size, preemptions, and "
            "host time per sequence."
        )
    if len(ratios) > 1 and ratios[0] > ratios[-1] * _APART:
        return (
            f"TPOT's gap shrinks with load ({ratios[0]:.2f} x at the lowest load, {ratios[-1]:.2f} "
            "x at the highest): steps have a constant overhead, such as launches without CUDA "
            "graphs or a slow host."
        )
    if apart <= _ALIKE and not 1 / _SMALL <= middle <= _SMALL:
        word = "slower" if middle > 1 else "faster"
        loads = "by the same factor at every load" if len(ratios) > 1 else "at this load"
        return (
            f"Steps are {word} than predicted {loads} ({middle:.2f} x measured over predicted): "
            "calibrate with these results, or check weight format, parallelism, clocks and engine "
            "version."
        )
    return ""


def _of_first_tokens(ttft: Sequence[float], tpot: Sequence[float]) -> str:
    if not ttft:
        return ""
    first = math.exp(fmean(map(math.log, ttft)))
    later = math.exp(fmean(map(math.log, tpot))) if tpot else 1.0
    if first > _APART * max(later, 1.0):
        return (
            f"TTFT is {first:.2f} x predicted, TPOT {later:.2f} x: the time is lost before the "
            "first token. Check queueing, the token budget per step, network latency to the "
            "client, and whether all users started at once."
            if tpot
            else f"TTFT is {first:.2f} x predicted: check queueing and network latency to the "
            "client."
        )
    if first < 1.0 / _APART:
        return (
            f"TTFT is {first:.2f} x predicted: prefix cache hits, or prompts shorter than the file "
            "states, would explain it."
        )
    return ""


def _of_tails(comparison: Comparison, points: Sequence[Point]) -> str:
    """A mean TTFT far above its median suggests a queue that built up during part of the run."""
    for point in reversed(points):
        mean, median = point.row("ttft_mean_s"), point.row("ttft_p50_s")
        if mean and median and mean.measured > 2.0 * median.measured:
            times = mean.measured / median.measured
            return (
                f"{comparison.label(point)}: the mean TTFT is {times:.1f} x its median: a queue "
                f"built up during part of the run, which a steady-state prediction does not "
                f"include; compare with the simulation."
            )
    return ""
