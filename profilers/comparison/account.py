"""The consistency checks that every measurement must pass before any finding is drawn from it.

A check passes, fails, or cannot be made because a figure is missing.  Nothing is learnt from a
measurement that fails one: its file contradicts itself, and does not say which figure is wrong.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from profilers.serving_results.measurement import LATENCIES, Percentiles, ServingMeasurement

Outcome = Literal["passed", "failed", "not made"]
#: Relative difference that the two sides of a check may have: figures are rounded, and clients
#: spend time of their own.
TOLERANCE = 0.1
#: Standard deviation over mean of the lengths and gaps of requests, assumed where a file does not
#: state it.
_USUAL_SPREAD = 0.5
#: Requests of each user of a closed loop that may lie outside the measured interval, at its start
#: and end.
_EDGES = 2.0
#: Share of a run's requests that the table of requests must hold to represent the run.
_NEARLY_ALL = 0.9
_CHUNKS = "the client counts stream chunks that are not one token each"


@dataclass(frozen=True, slots=True)
class Check:
    """One consistency check.

    name: what is checked.  left, right: its two sides in `unit`, NaN where one is not known;
    `right` is the limit where the check is an inequality.  why: the likely cause of a failure, or
    why the check cannot be made.  phase: the phase that it covers, "" for the whole measurement.
    part: the operator class that it covers, "" for all; findings on other classes may still use the
    step.
    """

    name: str
    outcome: Outcome
    left: float = math.nan
    right: float = math.nan
    unit: str = ""
    why: str = ""
    phase: str = ""
    part: str = ""

    @property
    def name_in_full(self) -> str:
        """The name of the check and of the phase and operator class that it covers."""
        of = " ".join(word for word in (self.part, "in" if self.part else "", self.phase) if word)
        return f"{self.name} of {of}" if of else self.name

    @property
    def sentence(self) -> str:
        """The check in words: its name, its two sides, and the likely cause of a failure."""
        name = self.name_in_full
        if self.outcome == "not made":
            return f"{name}: cannot be checked, {self.why}"
        words = f"{name}: {_number(self.left)} against {_number(self.right)} {self.unit}".rstrip()
        named = self.outcome == "failed" and self.why
        return f"{words}; likely cause: {self.why}" if named else words

    def document(self) -> dict[str, Any]:
        """The check as `--json` prints it."""
        return {**{name: getattr(self, name) for name in self.__slots__}, "sentence": self.sentence}


def rows(checks: Sequence[Check]) -> list[dict[str, Any]]:
    """Rows of checks for a table, failed ones first, both sides with their unit; equal checks share
    a row.
    """
    order = sorted(checks, key=lambda one: ("failed", "passed", "not made").index(one.outcome))
    shown = Counter(
        (one.name_in_full, one.outcome, _side(one.left, one.unit), _side(one.right, one.unit),
         one.why)
        for one in order
    )  # fmt: skip
    return [
        {
            "sum": f"{name}, {many} times" if many > 1 else name,
            "outcome": outcome,
            "left": left,
            "right": right,
            "why": why,
        }
        for (name, outcome, left, right, why), many in shown.items()
    ]


def _side(value: float, unit: str) -> str:
    return "" if math.isnan(value) else f"{_number(value)} {unit}".rstrip()


def _number(value: float) -> str:
    """The number with four significant digits, or with all digits before the point; never as a
    power of ten.
    """
    return f"{value:,.0f}" if 1000.0 <= abs(value) < 1e12 else f"{value:.4g}"


def failed(checks: tuple[Check, ...]) -> tuple[Check, ...]:
    """The checks that failed."""
    return tuple(one for one in checks if one.outcome == "failed")


def judged(name: str, left: float, right: float, unit: str, why: str, slack: float = 0.0) -> Check:
    """A check that both sides are equal, within the relative tolerance and `slack` [unit]."""
    apart = abs(left - right) > TOLERANCE * max(abs(left), abs(right)) + slack
    return Check(name, "failed" if apart else "passed", left, right, unit, why if apart else "")


def of_result(measurement: ServingMeasurement) -> tuple[Check, ...]:
    """Checks of a serving benchmark's result; none for a measurement of a single phase.

    The check of bytes against parameters is made elsewhere, where the bits of the format are known.
    """
    if measurement.phase:
        return ()
    return (
        _whole_request(measurement), _percentiles(measurement), _answered(measurement),
        _little(measurement),
        _requests(measurement), _tokens(measurement, "input"), _tokens(measurement, "output"),
    )  # fmt: skip


# ------------------------------------------------------------------------------- one request


_E2E = "E2E = TTFT + (OSL - 1) x TPOT"


def _whole_request(m: ServingMeasurement) -> Check:
    """TPOT computed from E2E and TTFT of the same requests, against the TPOT that the file states.

    It is computed for each request where the file lists them, otherwise from the means.  The mean
    of a product is not the product of the means: they may differ by the product of the standard
    deviations of OSL and TPOT.
    """
    name, spread = _E2E, m.decode_tpot_s
    if spread.mean is None and m.itl_s.mean is not None:
        name, spread = _E2E.replace("TPOT", "ITL"), m.itl_s
    stated = spread.mean
    if stated is None:
        return Check(name, "not made", why="the file states no mean TPOT")
    listed = _of_requests(m)
    if listed is not None:
        return _judged_tpot(name, listed, stated, 0.0)
    first, whole, osl = m.ttft_s.mean, m.e2e_s.mean, m.lengths.osl.mean
    missing = [
        word
        for word, value in (("mean TTFT", first), ("mean E2E", whole), ("mean OSL", osl))
        if value is None
    ]
    if first is None or whole is None or osl is None:
        return Check(name, "not made", why=f"the file states no {' and no '.join(missing)}")
    if osl <= 1.0:
        return Check(name, "not made", why="outputs of one token have no TPOT")
    gaps = osl - 1.0
    lengths = m.lengths.osl.std if m.lengths.osl.std is not None else _USUAL_SPREAD * osl
    times = spread.std if spread.std is not None else _USUAL_SPREAD * stated
    slack = 0.0 if spread is m.itl_s and not m.tpot_includes_first else lengths * times / gaps
    return _judged_tpot(name, (whole - first) / gaps, stated, slack)


def _judged_tpot(name: str, implied: float, stated: float, slack: float) -> Check:
    why = f"{_CHUNKS}, or E2E and TPOT come from different requests"
    solved, implied_ms, stated_ms = f"{name}, solved for the gap", implied * 1e3, stated * 1e3
    return judged(solved, implied_ms, stated_ms, "ms", why, slack * 1e3)


def _of_requests(m: ServingMeasurement) -> float | None:
    """Mean TPOT of the requests that a file lists [s], None where it does not list nearly all."""
    table = m.requests
    if table is None:
        return None
    rows = table[table["ok"] & (table["osl"] > 1.0)]
    gaps = ((rows["e2e_s"] - rows["ttft_s"]) / (rows["osl"] - 1.0)).dropna()
    count = m.load.completed or m.load.requests or len(table)
    return float(gaps.mean()) if len(gaps) and len(table) >= _NEARLY_ALL * count else None


# ------------------------------------------------------------------------------- one distribution


_PERCENTILES = "percentiles agree with the mean"
_PERCENTILES_CAUSE = "mean and percentiles are in different units, or of different requests"


def _percentiles(m: ServingMeasurement) -> Check:
    """The percentile that lies farthest beyond what mean and standard deviation allow."""
    found = [
        (excess, f"{name.removesuffix('_s').upper()} p{percent:g}", value * 1e3, limit * 1e3)
        for name in LATENCIES
        for percent, value, limit, excess in _limits(getattr(m, name))
    ]
    if not found:
        return Check(_PERCENTILES, "not made", why="the file states no mean with percentiles")
    excess, what, value, limit = max(found)
    name = f"{_PERCENTILES}, {what}"
    if excess > 1.0 + TOLERANCE:
        return Check(name, "failed", value, limit, "ms", _PERCENTILES_CAUSE)
    return Check(name, "passed", value, limit, "ms")


def _limits(spread: Percentiles) -> Iterator[tuple[float, float, float, float]]:
    """(percent, value, limit, value over limit or limit over value) of every limit of a percentile.

    By Cantelli's inequality mean - std sqrt((1 - q) / q) <= x <= mean + std sqrt(q / (1 - q)) for
    the quantile x of a share q, and no latency is negative, so that x <= mean / (1 - q).
    """
    for percent, value in spread.at.items():
        share = percent / 100.0
        if spread.mean is None or not 0.0 < share < 1.0 or not value > 0.0 < spread.mean:
            continue
        most = spread.mean / (1.0 - share)
        if spread.std is not None:
            most = min(most, spread.mean + spread.std * math.sqrt(share / (1.0 - share)))
            least = spread.mean - spread.std * math.sqrt((1.0 - share) / share)
            yield percent, value, least, least / value
        yield percent, value, most, value / most


# ------------------------------------------------------------------------------- the whole run


_SENT = "answered requests = sent requests"


def _answered(m: ServingMeasurement) -> Check:
    """The answered requests against those sent: a server that refused some carried another load
    than the stated one.

    One request may fail; a run that ends at a time limit may leave one of each user open.
    """
    load = m.load
    if load.unanswered is None or load.completed is None:
        return Check(_SENT, "not made", why="the file does not state both")
    open_at_end = load.concurrency or 0.0 if load.errors is None else 0.0
    sent = load.completed + load.unanswered
    return judged(_SENT, load.completed, sent, "requests", load.failure, max(open_at_end, 1.0))


_LITTLE = "open requests = {} x E2E"


def _little(m: ServingMeasurement) -> Check:
    """Little's law: the mean number of open requests, against the stated mean or the concurrency
    limit.

    In a closed loop each user is idle only before the first and after the last request.
    """
    rate, of = _requests_per_s(m)
    whole, load = _e2e_s(m), m.load
    name = _LITTLE.format(of)
    if not rate or not whole:
        lacks = "neither requests/s nor output tokens/s" if not rate else "no mean E2E"
        return Check(name, "not made", why=f"the file states {lacks}")
    found, stated = rate * whole, load.concurrency_mean
    if stated:
        everyone = load.requests is not None and load.requests == load.completed
        if found < stated and not everyone:  # requests that never ended were open as well
            return Check(name, "passed", found, stated, "requests")
        return judged(name, found, stated, "requests", _LITTLE_CAUSE)
    limit = load.concurrency
    if not limit:
        return Check(name, "not made", why="the file does not say how many requests were open")
    if found > limit * (1.0 + TOLERANCE):
        return Check(name, "failed", found, limit, "requests", _LITTLE_CAUSE)
    closed = not load.rate or math.isinf(load.rate)
    waves = (load.completed or 0) / limit
    least = limit * (1.0 - TOLERANCE) * max(1.0 - _EDGES / waves, 0.0) if waves and closed else 0.0
    if found < least:
        return Check(name, "failed", found, limit, "requests", load.failure or _IDLE_CAUSE)
    return Check(name, "passed", found, limit, "requests")


_LITTLE_CAUSE = (
    "a latency or a rate is in another unit or of another run, one of them includes warm-up "
    "requests, or E2E includes time before the request was sent"
)
_IDLE_CAUSE = (
    f"E2E omits a part of a request ({_CHUNKS}), or users waited in the client between requests"
)


def _requests_per_s(m: ServingMeasurement) -> tuple[float | None, str]:
    """Requests/s and what gives them: the file, otherwise output tokens/s over the mean OSL."""
    rates, osl = m.throughput, m.lengths.osl.mean
    if not rates.requests_per_s and rates.output_tokens_per_s and osl:
        return rates.output_tokens_per_s / osl, "output tokens/s / OSL"
    return rates.requests_per_s, "requests/s"


def _e2e_s(m: ServingMeasurement) -> float | None:
    """Mean E2E [s]; computed from TTFT and TPOT where it is not stated."""
    if m.e2e_s.mean is not None:
        return m.e2e_s.mean
    first, gap, osl = m.ttft_s.mean, m.decode_tpot_s.mean, m.lengths.osl.mean
    if first is None or gap is None or osl is None:
        return None
    return first + gap * max(osl - 1.0, 0.0)


_REQUESTS = "requests/s = answered requests / duration"
#: Half of the last digit of requests/s that a client prints with two decimals [1/s].
_ROUNDED_PER_S = 0.005
#: Seconds that a client's rates may cover in addition to its duration, or leave out of it: AIPerf
#: 0.13 divides by 0.25 s more.
_OUTSIDE_S = 0.5


def _requests(m: ServingMeasurement) -> Check:
    """The stated requests/s against the answered requests over the duration."""
    rate, load = m.throughput.requests_per_s, m.load
    if not rate or not load.completed or not load.duration_s:
        return Check(_REQUESTS, "not made", why="the file does not state all three")
    why = f"{_others(m)} count in only one of them, or the duration is of another run"
    slack = _ROUNDED_PER_S + rate * _OUTSIDE_S / load.duration_s
    counted = load.completed / load.duration_s
    return judged(_REQUESTS, rate, counted, "requests/s", why, slack)


def _others(m: ServingMeasurement) -> str:
    """The requests that one figure may include and another leave out, as the subject of a verb."""
    return f"{m.load.failure} and" if m.load.failure else "failed or warm-up requests"


def _tokens(m: ServingMeasurement, side: Literal["input", "output"]) -> Check:
    """Tokens per second against requests/s times the mean length."""
    length, word = (m.lengths.isl, "ISL") if side == "input" else (m.lengths.osl, "OSL")
    name = f"{side} tokens/s = requests/s x {word}"
    tokens = getattr(m.throughput, f"{side}_tokens_per_s")
    rate, load = m.throughput.requests_per_s, m.load
    if not rate or not tokens or not length.mean:
        return Check(name, "not made", why="the file does not state all three")
    counted = load.completed / load.duration_s if load.completed and load.duration_s else rate
    if abs(rate - counted) <= _ROUNDED_PER_S:
        rate = counted  # the stated one has few digits
    others = f"{_others(m)} count in only one of the rates"
    why = f"{_CHUNKS}, or {others}" if side == "output" else others
    return judged(name, tokens, rate * length.mean, "tokens/s", why)
