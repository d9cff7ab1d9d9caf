"""Candidates: deployments and their figures as columns."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from sys import intern
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.answers.latencies import PERCENTILES
from app.planning import demand
from app.planning.families import Family
from app.planning.targets import FIGURES
from app.question.evidence import Evidence
from app.question.question import Question
from genz_core.serving import Novelty
from genz_core.serving.traffic import after_first
from genz_core.systems import System
from genz_core.types import Array

#: Columns that distinguish a deployment from others of its family.
CHOICES = (
    "replicas", "tp", "pp", "dp", "ep", "max_num_seqs",
    "prefill_workers", "prefill_tp", "prefill_pp", "prefill_dp", "prefill_ep",
)  # fmt: skip
#: Columns that describe a deployment, beside its figures.
FACTS = (
    "utilisation", "prompt_share", "running", "capacity", "memory_bytes", "usable_bytes",
    "offloaded_bytes", "bound_ttft_s", "bound_tpot_s",
)  # fmt: skip
#: Distance of its load from measured ones, see `genz_core.serving.Novelty`.
NOVELTY = ("ttft_novelty", "tpot_novelty", "users")
#: Nominal lengths of the requests.
LENGTHS = ("isl", "osl")
COLUMNS = (*CHOICES, *(figure.column for figure in FIGURES.values()), *FACTS, *NOVELTY, *LENGTHS)
#: Relative excess of a request's TPOT at the 95th percentile over the mean: judgement, used to
#: choose what is simulated.
_TPOT_SPREAD = 0.1
#: Standard deviation of the wait beside the queue, as a share of TTFT beyond the own prompt's
#: prefill; judgement, near what simulations show at users and at rates.
_WAIT_SPREAD = 0.2
#: Percentiles of an exponential distribution with mean 1.
_EXPONENTIAL = {at: -math.log(1.0 - at / 100.0) for at in PERCENTILES}
_NORMAL = {50: 0.0, 90: 1.2816, 95: 1.6449, 99: 2.3263}


@dataclass(frozen=True, slots=True)
class Candidates:
    """Deployments as columns.

    families: families that they belong to; family: index of each one's family, [candidates].
    columns: those of `COLUMNS`, NaN where there is no such figure.  status: "ok" or a reason code;
    messages: {candidate: sentence}.
    simulated: simulations by what they simulated, shared with selections from these candidates.
    """

    families: tuple[Family, ...]
    family: NDArray[np.intp]
    columns: Mapping[str, Array]
    status: NDArray[Any]
    messages: Mapping[int, str]
    simulated: dict[tuple[float, ...], Any] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.family)

    def of(self, at: int) -> Family:
        """The family of a candidate."""
        return self.families[int(self.family[at])]

    def by_family(self) -> Iterator[tuple[Family, NDArray[np.intp]]]:
        """Every family that has a candidate, and the indices of its candidates."""
        for number in np.unique(self.family).tolist():
            yield self.families[number], np.flatnonzero(self.family == number)

    def row(self, at: int) -> dict[str, float]:
        """The columns of a candidate."""
        return {name: float(column[at]) for name, column in self.columns.items()}

    @property
    def busy(self) -> Array:
        """Measure of the load by which deployments of a family are compared: utilisation, or the
        share of prompts in a closed loop.
        """
        use = self.columns["utilisation"]
        return np.where(np.isnan(use), self.columns["prompt_share"], use)

    @property
    def novelty(self) -> Novelty:
        """Distance of the loads from measured ones."""
        ttft, tpot, users = (self.columns[name] for name in NOVELTY)
        return Novelty(tpot, ttft, users)

    def evidence(self, number: int = 0) -> Evidence:
        """What was measured of the candidates, which must all be of the family `number`."""
        return self.families[number].evidence(self.columns)

    def picked(self, chosen: NDArray[Any]) -> Candidates:
        """A selection of the candidates, by index or mask."""
        at = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        messages = {new: self.messages[int(old)] for new, old in enumerate(at)
                    if int(old) in self.messages}  # fmt: skip
        columns = {name: column[at] for name, column in self.columns.items()}
        return replace(
            self, family=self.family[at], columns=columns, status=self.status[at], messages=messages
        )


def joined(parts: Sequence[Candidates]) -> Candidates:
    """Candidates of several spaces combined; families are renumbered."""
    families: list[Family] = []
    numbers: list[NDArray[np.intp]] = []
    messages: dict[int, str] = {}
    start = 0
    for part in parts:
        numbers.append(part.family + len(families))
        families.extend(part.families)
        messages |= {start + at: sentence for at, sentence in part.messages.items()}
        start += len(part)
    empty = np.zeros(0)
    # a code is up to 24 characters in an array of texts; here equal ones are one object
    codes = [intern(code) for part in parts for code in part.status.tolist()]
    return Candidates(
        tuple(families),
        np.concatenate([np.zeros(0, dtype=np.intp), *numbers]),
        {name: np.concatenate([empty, *(p.columns[name] for p in parts)]) for name in COLUMNS},
        np.array(codes, dtype=object),
        messages,
    )


# ------------------------------------------------------------------------------- figures


def percentiles(mean: Array, median: Array, least: Array) -> dict[int, Array]:
    """Percentiles of TTFT in closed form [s], used to choose what is simulated.

    The queue has an exponential tail, whose median lies below its mean by a known share of it; what
    every request waits is constant, and waits for other steps spread evenly around their mean.

    Args:
        mean, median: of TTFT.  least: time of a single prompt, [candidates].
    """
    mean = np.where(np.isfinite(mean), mean, np.nan)
    queue = (mean - median) / (1.0 - _EXPONENTIAL[50])
    spread = _WAIT_SPREAD * np.maximum(mean - least, 0.0)
    return {
        at: mean + queue * (_EXPONENTIAL[at] - 1.0) + spread * _NORMAL[at] for at in PERCENTILES
    }


def latency_columns(
    mean: Array, median: Array, least: Array, tpot: Array, question: Question
) -> dict[str, Array]:
    """Every latency figure of requests, seconds, [candidates]; arguments as in `percentiles`."""
    output = demand.lengths(question).output
    first = percentiles(mean, median, least)
    between = {at: tpot * (1.0 + _TPOT_SPREAD * _NORMAL[at] / _NORMAL[95]) for at in PERCENTILES}
    return {
        "ttft_s": mean,
        "tpot_s": tpot,
        "e2e_s": mean + after_first(tpot, output),
        "interactivity": 1.0 / tpot,
        **{f"ttft_p{at}_s": values for at, values in first.items()},
        **{f"tpot_p{at}_s": values for at, values in between.items()},
        **{f"e2e_p{at}_s": first[at] + after_first(between[at], output) for at in PERCENTILES},
    }


def economy_columns(
    devices: Mapping[System, Array] | Sequence[tuple[System, Array]],
    requests_per_s: Array,
    question: Question,
) -> dict[str, Array]:
    """Throughput, rent and energy of deployments, [candidates].

    devices: number of devices of each system.
    """
    pairs = list(devices.items()) if isinstance(devices, Mapping) else list(devices)
    total = np.sum([count for _, count in pairs], axis=0)
    tokens = requests_per_s * demand.lengths(question).wanted
    hourly = np.sum([(s.price_usd_per_hour or np.nan) * count for s, count in pairs], axis=0)
    power = np.sum([(s.tdp_w or np.nan) * count for s, count in pairs], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return {
            "devices": total,
            "requests_per_s": requests_per_s,
            "output_tokens_per_s": tokens,
            "output_tokens_per_s_per_device": tokens / total,
            "usd_per_hour": hourly,
            "usd_per_mtok": hourly / 3600.0 / tokens * 1e6,
            "joules_per_token": power / tokens,
        }
