"""The result of a simulation: every request, percentiles, and the queue over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from genz_core.serving.simulation.rank import Job
from genz_core.serving.simulation.requests import Requests
from genz_core.serving.simulation.tiers import Load
from genz_core.serving.simulation.worker import Flight, Worker
from genz_core.types import Array, Mask

PERCENTILES = (50, 90, 95, 99)
_MOST_SAMPLES = 4096
#: Steps whose gaps are counted in one go.
_MOST_PENDING = 4096
#: Gaps between tokens are counted in classes of 0.5 % of their logarithm.
_GAP_CLASS = math.log(1.005)
SERIES = ("time_s", "running", "waiting", "kv_use", "decode_step_s", "preemptions")


@dataclass(frozen=True, slots=True)
class Simulation:
    """Results of a simulation, [requests] unless stated otherwise; times in seconds, NaN where
    there are none.

    ttft_s: arrival to first token.  tpot_s: mean gap after it, NaN for a single token.  queue_s:
    arrival to the first prefill step.  cached_tokens: prompt tokens found in the cache.  rank: that
    served the request.  refused: does not fit the cache even alone.
    counted: requests that all figures are computed from; those before them fill a closed loop,
    those after them keep it full.
    gaps_s, gap_counts: gaps between tokens (ITL) and the number of each, [gaps], while counted
    requests were sent.  If a step yields several tokens, gaps are between pieces of an answer, as
    streaming benchmarks see them.
    series: columns over time, [samples]: time_s, running, waiting, kv_use, decode_step_s,
    preemptions (cumulative).
    preemptions, steps: of the whole run.  busy: share of the run that workers spent in steps,
    [pools].
    tier_tokens: by tier name, the part of `cached_tokens` that came from each tier below the
    device; loading_s: part of the queue time spent loading them.  written_bytes: total written to
    each tier by one device of every rank.
    """

    requests: Requests
    arrival_s: Array
    ttft_s: Array
    tpot_s: Array
    e2e_s: Array
    queue_s: Array
    cached_tokens: Array
    rank: Array
    refused: Mask
    counted: Mask
    gaps_s: Array
    gap_counts: Array
    series: Mapping[str, Array]
    preemptions: int
    steps: int
    busy: Array
    tier_tokens: Mapping[str, Array] = field(default_factory=dict)
    loading_s: Array = field(default_factory=lambda: np.zeros(0))
    written_bytes: Mapping[str, float] = field(default_factory=dict)

    @property
    def ended(self) -> Mask:
        """Requests that have their whole answer."""
        return np.isfinite(self.e2e_s)

    @property
    def seconds(self) -> float:
        """Time in which the counted requests were served [s].

        From the first arrival to the last answer, or to the first request that no longer counts.
        """
        done = self.counted & self.ended
        if not done.any():
            return 0.0
        later = self.arrival_s[np.flatnonzero(self.counted)[-1] + 1 :]
        end = later.min() if later.size else np.max((self.arrival_s + self.e2e_s)[done])
        return float(end - np.min(self.arrival_s[done]))

    def latencies(self) -> dict[str, tuple[Array, Array]]:
        """(values, count of each) of ttft_s, tpot_s, itl_s, e2e_s and queue_s."""
        names = ("ttft_s", "tpot_s", "e2e_s", "queue_s")
        columns = {name: getattr(self, name)[self.counted] for name in names}
        finite = {name: values[np.isfinite(values)] for name, values in columns.items()}
        numbered = {name: (values, np.ones_like(values)) for name, values in finite.items()}
        return numbered | {"itl_s": (self.gaps_s, self.gap_counts)}

    def summary(self, targets: Mapping[str, float] | None = None) -> dict[str, float]:
        """Figures of the counted requests: mean and percentiles of each latency, throughput,
        goodput; preemptions and steps of the whole run.

        targets: largest ttft_s, tpot_s or e2e_s of a good request [s].
        """
        done, seconds = self.counted & self.ended, max(self.seconds, 1e-12)
        read, written = self.requests.input_tokens[done], self.requests.output_tokens[done]
        figures = {
            "requests": float(self.counted.sum()),
            "ended": float(done.sum()),
            "refused": float((self.counted & self.refused).sum()),
            "seconds": self.seconds,
            "requests_per_s": float(done.sum()) / seconds,
            "input_tokens_per_s": float(read.sum()) / seconds,
            "output_tokens_per_s": float(written.sum()) / seconds,
        }
        for name, (values, counts) in self.latencies().items():
            figures |= _statistics(name.removesuffix("_s"), values, counts)
        figures["cached_share"] = float(self.cached_tokens[done].sum() / max(read.sum(), 1.0))
        figures |= self._of_tiers(done, max(read.sum(), 1.0))
        figures["preemptions"] = float(self.preemptions)
        figures["steps"] = float(self.steps)
        if targets:
            good = float((self.counted & self.good(targets)).sum())
            figures["good_requests_per_s"] = good / seconds
            figures["good_share"] = good / max(figures["requests"], 1.0)
        return figures

    def _of_tiers(self, done: Mask, read: float) -> dict[str, float]:
        """Share of the prompt tokens from each tier; {} without tiers."""
        if not self.tier_tokens:
            return {}
        below = {name: float(tokens[done].sum()) for name, tokens in self.tier_tokens.items()}
        device = float(self.cached_tokens[done].sum()) - sum(below.values())
        shares = {"device": device, **below}
        figures = {f"{name}_hit_share": float(tokens / read) for name, tokens in shares.items()}
        return figures | {"loading_mean_s": float(self.loading_s[done].mean())}

    def good(self, targets: Mapping[str, float]) -> Mask:
        """Requests that meet every target; a request without a second token meets any tpot_s."""
        met = self.ended
        for name, most in targets.items():
            values = getattr(self, name)
            met = met & ((values <= most) | (np.isnan(values) if name == "tpot_s" else False))
        return met


def _statistics(name: str, values: Array, counts: Array) -> dict[str, float]:
    if not values.size:
        return {
            f"{name}_{what}_s": float("nan") for what in ("mean", *(f"p{p}" for p in PERCENTILES))
        }
    figures = {f"{name}_mean_s": float(np.average(values, weights=counts))}
    for percent, value in zip(PERCENTILES, percentiles(values, counts, PERCENTILES), strict=True):
        figures[f"{name}_p{percent}_s"] = float(value)
    return figures


def percentiles(values: Array, counts: Array, percents: Sequence[float]) -> Array:
    """Percentiles of values with counts, linear between neighbours."""
    order = np.argsort(values)
    ordered, ends = values[order], np.cumsum(counts[order])
    ranks = np.asarray(percents) / 100.0 * (ends[-1] - 1.0)
    low = ordered[np.searchsorted(ends, np.floor(ranks), side="right")]
    high = ordered[np.searchsorted(ends, np.ceil(ranks), side="right")]
    return np.asarray(low + (ranks - np.floor(ranks)) * (high - low))


class Recorder:
    """Records the events of requests, and samples the state from time to time.

    pools: all workers that exist or existed; more may be added.
    counted: rows of the requests that figures are computed from.
    """

    def __init__(
        self, requests: Requests, pools: Sequence[Sequence[Worker]], counted: range
    ) -> None:
        size = len(requests)
        self._counted = counted
        self._counting = counted.start == 0
        self.ended = 0
        self._requests = requests
        self._pools = pools
        self.watch([worker for pool in pools for worker in pool])
        self._now = 0.0
        self._arrival = [math.nan] * size
        self._queued: list[float | None] = [None] * size
        self._first: list[float | None] = [None] * size
        self._last = [math.nan] * size
        self._cached = [0] * size
        self._rank = [-1] * size
        self._loads: dict[int, Load] = {}
        self._refused = np.zeros(size, dtype=bool)
        self._gaps: dict[int, int] = {}  # of steps with individually drawn times
        self._drawn_together: dict[int, int] = {}
        # of steps that are not yet among the gaps: seconds of one, number, and decoding sequences
        self._pending: tuple[list[float], list[int], list[int]] = ([], [], [])
        self._samples: list[tuple[float, ...]] = []
        self._every = 1
        self._to_a_sample = 1
        self._steps = 0

    def watch(self, workers: Sequence[Worker]) -> None:
        """Take samples from these workers from now on."""
        self._ranks = [rank for worker in workers for rank in worker.ranks]
        self._workers = [worker for pool in self._pools for worker in pool]
        self._capacity = sum(rank.cache.capacity for rank in self._ranks)

    def arrives(self, row: int, now: float) -> None:
        self._arrival[row] = now
        if row in (self._counted.start, self._counted.stop):
            self._counting = row == self._counted.start

    def routed(self, row: int, rank: int) -> None:
        if self._rank[row] < 0:
            self._rank[row] = rank

    def scheduled(self, row: int, now: float, cached: int) -> None:
        """Record that a piece of a prompt is about to be prefilled; `cached` tokens need no
        prefill.
        """
        if self._queued[row] is None:
            self._queued[row] = now
            self._cached[row] = cached

    def loads(self, row: int, load: Load) -> None:
        """Record that a request waits for cached blocks of its prompt before its first prefill
        step.
        """
        if self._queued[row] is None:
            self._loads[row] = load

    def began(self, job: Job, now: float) -> None:
        """Record that a prompt was prefilled, for the first time or again, and a token
        generated.
        """
        if self._first[job.row] is None:
            self._first[job.row] = now
        elif now > job.stopped_s:
            self._gap(now - job.stopped_s, 1)

    def ends(self, row: int, now: float) -> None:
        self._last[row] = now
        self.ended += 1

    def refused(self, row: int) -> None:
        self._refused[row] = True
        self.ended += 1

    def resumed(self, job: Job, flight: Flight) -> None:
        """Record the first token of a sequence in this pool; its gap began in the previous pool.

        If this pool also delivers the first token of the previous pool, that happens on admission.
        """
        if self._first[job.row] is None:
            self._first[job.row] = flight.start_s
            return
        self._gap(flight.start_s + flight.step_s - job.stopped_s, 1)
        self._gap(flight.step_s, -1)

    def stepped(self, flight: Flight, now: float) -> None:
        """Record the end of some equal steps."""
        steps = flight.steps
        self._steps += steps
        self._now = now
        if flight.decoded and self._counting:
            seconds, numbers, decoded = self._pending
            seconds.append(flight.step_s)
            numbers.append(steps)
            decoded.append(flight.decoded)
            if len(seconds) >= _MOST_PENDING:
                self._count_pending()
        self._to_a_sample -= 1
        if not self._to_a_sample:
            self._sample(now, flight.step_s)
            self._to_a_sample = self._every

    def answers(self) -> Simulation:
        first, last = np.array(self._first, dtype=float), np.array(self._last)
        arrival = np.array(self._arrival)
        outputs = self._requests.output_tokens
        gaps, gap_counts = self._spread_gaps()
        rows = np.arange(len(outputs))
        columns = np.array(self._samples, dtype=float).reshape(-1, len(SERIES)).T
        with np.errstate(invalid="ignore", divide="ignore"):
            tpot = np.where(outputs > 1, (last - first) / (outputs - 1.0), np.nan)
        return Simulation(
            requests=self._requests,
            arrival_s=arrival,
            ttft_s=first - arrival,
            tpot_s=tpot,
            e2e_s=last - arrival,
            queue_s=np.array(self._queued, dtype=float) - arrival,
            cached_tokens=np.array(self._cached, dtype=float),
            rank=np.array(self._rank),
            refused=self._refused,
            counted=(rows >= self._counted.start) & (rows < self._counted.stop),
            gaps_s=np.exp(gaps * _GAP_CLASS),
            gap_counts=gap_counts,
            series=dict(zip(SERIES, columns, strict=True)),
            preemptions=self._preemptions,
            steps=self._steps,
            busy=self._busy(),
            **self._tiers(),
        )

    def _tiers(self) -> dict[str, Any]:
        """Results on cache tiers, if there are any: tokens read and bytes written."""
        workers = [worker for pool in self._pools for worker in pool]
        ranks = [rank.tiers for worker in workers for rank in worker.ranks if rank.tiers]
        if not ranks:
            return {}
        stores = {id(store): store for tiers in ranks for store in tiers.stores}.values()
        names = [store.tier.name for store in ranks[0].stores]
        tokens = np.zeros((len(names), len(self._rank)))
        loading: Array = np.zeros(len(self._rank))
        for row, load in self._loads.items():
            tokens[:, row] = load.counts
            loading[row] = load.end_s - load.start_s
        written = dict.fromkeys(names, 0.0)
        for store in stores:
            written[store.tier.name] += store.written * ranks[0].block_bytes
        return {
            "tier_tokens": dict(zip(names, tokens * self._requests.block_tokens, strict=True)),
            "loading_s": loading,
            "written_bytes": written,
        }

    def _busy(self) -> Array:
        """Share of the time until the last event that the workers of each pool spent in steps."""
        seconds = max(self._now, 1e-12)
        shares = [[worker.busy_s / seconds for worker in pool] for pool in self._pools]
        return np.array([np.mean(pool) for pool in shares])

    @property
    def _preemptions(self) -> int:
        preemptions = 0
        for worker in self._workers:
            preemptions += worker.preemptions
        return preemptions

    def _gap(self, seconds: float, count: int) -> None:
        """Count gaps between tokens, if they are counted."""
        if self._counting:
            at = round(math.log(seconds) / _GAP_CLASS)
            self._gaps[at] = self._gaps.get(at, 0) + count

    def _count_pending(self) -> None:
        """Count the gaps of the pending steps.

        The first of several steps taken together counts as one whose time was drawn individually.
        """
        seconds, numbers, decoded = self._pending
        self._pending = [], [], []
        classes, of = np.unique(
            np.rint(np.log(seconds) / _GAP_CLASS).astype(int), return_inverse=True
        )
        steps, counts = np.array(numbers), np.array(decoded)
        first = np.bincount(of, counts).astype(int).tolist()
        later = np.bincount(of, counts * (steps - 1)).astype(int).tolist()
        for at, one, more in zip(classes.tolist(), first, later, strict=True):
            self._gaps[at] = self._gaps.get(at, 0) + one
            if more:
                self._drawn_together[at] = self._drawn_together.get(at, 0) + more

    def _spread_gaps(self) -> tuple[Array, Array]:
        """Classes of gaps and their counts, after applying the jitter of the last pool.

        Of n steps whose time was drawn together, n - 1 are counted with the full jitter of a step
        and one without any: this keeps the variance of n individual draws about their mean.
        """
        jitter = self._pools[-1][0].jitter
        self._count_pending()
        plain = {at: self._gaps.get(at, 0) + self._drawn_together.get(at, 0) for at in self._gaps}
        if jitter is None or not plain:
            there = sorted(plain)
            return np.array(there, dtype=float), np.array([plain[at] for at in there], dtype=float)
        first, spread = min(plain), jitter.of_gaps(_GAP_CLASS)
        counts: Array = np.zeros(max(plain) - first + len(spread[0]))
        for gaps, shares in zip((self._gaps, self._drawn_together), spread, strict=True):
            dense = np.zeros(max(plain) - first + 1)
            for at, count in gaps.items():
                dense[at - first] = count
            counts += np.convolve(dense, shares)
        kept = np.flatnonzero(counts)
        classes = np.asarray(kept + first - len(spread[0]) // 2, dtype=float)
        return classes, counts[kept]

    def _sample(self, now: float, step_s: float) -> None:
        running = waiting = 0
        used = 0.0
        for rank in self._ranks:
            for lane in rank.lanes:
                running += lane.count + len(lane.prefilling)
            waiting += len(rank.waiting) + len(rank.mail)
            used += rank.cache.used
        use = used / self._capacity
        self._samples.append((now, running, waiting, use, step_s, self._preemptions))
        if len(self._samples) >= _MOST_SAMPLES:
            self._samples = self._samples[::2]
            self._every *= 2
