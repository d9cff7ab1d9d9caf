"""The load of a deployment, and its serving figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genz_core.capacity.memory import Memory
from genz_core.capacity.offload import What
from genz_core.common.short_repr import counts, spans
from genz_core.serving.sharing import ALONE, Sharing
from genz_core.steps.step_correction import StepCorrection
from genz_core.types import Array, Num, Parallelism

#: Status of a load with more arrivals than its deployment sustains.
OVERLOADED = "overloaded"
#: Figures of `ServingEstimate` that are means over requests.
MEANS = (
    "ttft_s", "ttft_median_s", "tpot_s", "tpot_median_s", "prefill_s", "decode_step_s",
    "bound_prefill_s", "bound_decode_step_s", "bound_tpot_s", "outside_s", "prompt_share",
)  # fmt: skip
#: Of a time; a smaller difference of two times is one of rounding.
_LAST_BITS = 1e-12


@dataclass(frozen=True, slots=True)
class Traffic:
    """A load: `concurrency` users of the whole deployment, or `rate_per_s` arrivals.

    A user sends its next request `pause_s` seconds after the answer to the last one, on average.
    isl, osl: nominal lengths.  length_ratio: real lengths are uniform in [ratio, 1] times these.
    waves: total requests per user in a closed loop where all users start at once; 0 for a steady
    loop.  stream_interval: tokens that the engine collects before it sends them, including the
    first one, to the extent of `EngineProfile.held_share`.  recv_interval: decode steps between two
    checks for new requests.  batch_wait: maximum decode steps that a prompt waits to be prefilled
    together with others: one prompt per attention data-parallel rank, or on a single rank as many
    as fill a step.
    max_num_seqs, max_num_batched_tokens: most sequences and tokens in a step of a rank, 0 for the
    engine's default.  sharing: shared prefixes, several outputs, beams.  spill: what is moved to
    the host if it does not fit on the device, "weights" or "kv". Numbers, or arrays [configs].
    """

    isl: Num = 1024
    osl: Num = 128
    concurrency: Num | None = None
    rate_per_s: Num | None = None
    pause_s: Num = 0.0
    length_ratio: Num = 1.0
    waves: Num = 0.0
    stream_interval: Num = 1.0
    recv_interval: Num = 1.0
    batch_wait: Num = 0.0
    max_num_seqs: Num = 0.0
    max_num_batched_tokens: Num = 0.0
    sharing: Sharing = ALONE
    spill: What | None = None


@dataclass(frozen=True, slots=True)
class Novelty:
    """Distance of loads from measured ones, [configs].

    tpot, ttft: see `genz_core.steps.step_correction.novelty`.  users: open requests of an
    attention rank.
    """

    tpot: Array
    ttft: Array
    users: Array


def between_tokens(tpot_s: Array, osl: Num) -> Array:
    """TPOT of answers of `osl` tokens: NaN for one token, which has no gap to the next."""
    return np.where(np.asarray(osl) > 1.0, tpot_s, np.nan)


def after_first(tpot_s: Array, osl: Num) -> Array:
    """Seconds from the first to the last of `osl` tokens."""
    gaps = np.asarray(osl) - 1.0
    return np.where(gaps > 0.0, tpot_s * gaps, 0.0)


@dataclass(frozen=True, slots=True)
class ServingEstimate:
    """Serving figures, [configs] each; times in seconds.

    ttft_s, tpot_s: means; *_median_s: medians.  TPOT is NaN for outputs of one token.  running:
    sequences that run at once in a steady load, the most of a closed loop without pauses, a mean
    otherwise.  correction: correction of the steps by
    measured runs, included in the figures.  novelty: distance of these loads from measured ones.
    outside_s: part of TTFT that measured runs attribute to waits outside the steps.
    capacity: sequences whose KV cache fits.  ranks: attention data parallel ranks that share the
    load.
    memory: with one sequence per rank.  utilisation: requests per second over the highest rate
    that the deployment sustains, NaN in a closed loop without a prefill pool.  prompt_share: time
    that prefills add to a decode step, as a share of it; NaN except in such a closed loop.
    prefill_s: a single prompt; the rest of a TTFT is `wait_s`.  decode_step_s: the steady step
    divided by the tokens that a sequence gains in it (one, more with drafts).  bound_*: bounds of
    both.
    osl: mean output tokens of a sequence; branches: sequences per request.  offloaded:
    bytes of a device's weights or caches on the host.  pooled: separate workers prefill.
    status: "ok" or a reason code; messages: a sentence for each code, by configuration.
    devices: of the requested degrees.  traffic, parallelism: as requested, with 1 in place of
    degrees that cannot split the model; their figures are NaN.
    """

    ttft_s: Array
    tpot_s: Array
    ttft_median_s: Array
    tpot_median_s: Array
    prefill_s: Array
    decode_step_s: Array
    bound_prefill_s: Array
    bound_decode_step_s: Array
    running: Array
    correction: StepCorrection
    novelty: Novelty
    outside_s: Array
    capacity: Array
    utilisation: Array
    prompt_share: Array
    output_tokens_per_s: Array
    osl: Array
    devices: Array
    ranks: Array
    memory: Memory
    status: NDArray[np.str_]
    messages: dict[int, str]
    traffic: Traffic
    parallelism: Parallelism
    branches: int = 1
    offloaded: Array | float = 0.0
    pooled: bool = False

    def __repr__(self) -> str:
        figures = (
            ("ttft_s", self.ttft_s),
            ("tpot_s", self.tpot_s),
            ("output_tokens_per_s", self.output_tokens_per_s),
            ("running", self.running),
            ("utilisation", self.utilisation),
        )
        return (
            f"ServingEstimate({len(self.status):,} loads, {counts(self.status.tolist())}:\n"
            f"  {spans(figures)})"
        )

    @property
    def bound_tpot_s(self) -> Array:
        """Lower bound of `tpot_s`, that of a decode step; NaN for outputs of one token."""
        return between_tokens(self.bound_decode_step_s, self.osl)

    @property
    def wait_s(self) -> Array:
        """Mean TTFT minus the prefill time of the prompt [s]; 0 for a difference in their last
        bits.
        """
        waits = self.ttft_s - self.prefill_s
        return np.where(np.abs(waits) <= _LAST_BITS * self.prefill_s, 0.0, waits)

    @property
    def e2e_s(self) -> Array:
        """Mean time of a request: TTFT plus the gaps between its output tokens [s]."""
        return self.ttft_s + after_first(self.tpot_s, self.osl)

    @property
    def requests_per_s(self) -> Array:
        """Completed requests per second of the whole deployment, [configs]."""
        return self.output_tokens_per_s / (self.osl * self.traffic.sharing.kept)

    @property
    def open_requests(self) -> Array:
        """Mean number of requests that run or wait, [configs]: in a closed loop the users who do
        not pause, at a rate by Little's law.
        """
        if self.traffic.concurrency is None:
            return self.requests_per_s * self.e2e_s
        users = np.asarray(self.traffic.concurrency, dtype=float)
        pauses = np.asarray(self.traffic.pause_s, dtype=float)
        pausing = np.where(pauses > 0.0, self.requests_per_s * pauses, 0.0)
        return np.broadcast_to(users - pausing, self.status.shape)

    @property
    def memory_bytes(self) -> Array:
        """Memory of the fullest device with the caches of all running sequences [bytes]."""
        alone = self.memory.total_bytes - self.memory.kv_bytes
        caches = self.memory.kv_bytes * np.ceil(self.running / self.ranks)
        return np.asarray(alone + caches - self.offloaded)

    @property
    def output_tokens_per_s_per_device(self) -> Array:
        """Output tokens per second of one device, [configs]."""
        return self.output_tokens_per_s / self.devices

    @property
    def interactivity(self) -> Array:
        """Tokens per second that one user sees."""
        return 1.0 / self.tpot_s
