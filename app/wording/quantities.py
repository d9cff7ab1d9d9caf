"""Quantities and sentences as text: the only place where SI values get their display units."""

import math
from collections.abc import Mapping, Sequence

from genz_core.common import quantities as shared
from genz_core.limits import short

#: The forms that reports of measurements share.
count, digits, percent = shared.count, shared.digits, shared.percent
scaled, seconds = shared.scaled, shared.seconds
MICROSECOND, MILLISECOND, GIGABYTE, TERA = 1e-6, 1e-3, 1e9, 1e12

#: Shown instead of an interval if there are no measurements.
NOT_VALIDATED = "not validated"

#: Causes of time in words.
BOUND_WORDS: Mapping[str, str] = {
    "compute": "arithmetic",
    "memory": "memory traffic",
    "communication": "links between devices",
    "tiles": "arithmetic below its peak rate",
    "bandwidth": "memory bandwidth below its peak",
    "links": "links below their bandwidth",
    "launch": "launches",
    "overhead": "launches",
    "host": "host and scheduler",
    "offload": "offloaded data",
    "pipeline": "pipeline wait",
}

#: For each change tried: its resource, the causes of that resource, and where else it has an
#: effect.
_LEVERS: Mapping[str, tuple[str, tuple[str, ...], str]] = {
    "twice the peak arithmetic": ("arithmetic", ("compute", "tiles"), "below peak bandwidth"),
    "twice the memory bandwidth": ("memory traffic", ("memory", "bandwidth"), "below peak FLOP/s"),
}


def span(low: float, high: float) -> str:
    """An interval of a latency [s]: "18.3 to 41.7 ms"; "not validated" where its ends are NaN."""
    if math.isnan(low):
        return NOT_VALIDATED
    first, last = seconds(low), seconds(high)
    number, _, unit = first.rpartition(" ")
    return f"{number if last.endswith(f' {unit}') else first} to {last}"


def size(value: float) -> str:
    """Bytes in decimal units (GB = 1e9)."""
    return scaled(value, "B")


def two_gigabytes(value: float) -> str:
    """A sentence with a memory size in both units that are called GB (10^9 and 2^30 bytes)."""
    return (
        f"GB is 1e9 bytes here; device names often count GiB: {size(value)} are "
        f"{digits(value / 2**30)} GiB."
    )


def flops(value: float) -> str:
    """A count of floating-point operations."""
    return scaled(value, "FLOP")


def flops_rate(value: float) -> str:
    """A rate of arithmetic [FLOP/s]: "989 TFLOP/s"."""
    return scaled(value, "FLOP/s")


def bandwidth(value: float) -> str:
    """A bandwidth [bytes/s] in decimal units: "3.35 TB/s"."""
    return scaled(value, "B/s")


def tokens_rate(value: float) -> str:
    """A throughput in tokens per second: "142 tok/s"."""
    return f"{digits(value)} tok/s"


def rate(value: float, unit: str) -> str:
    """A rate: "1,520 sequences/s"."""
    return f"{digits(value)} {unit}"


def request_rate(value: float, places: int = 4) -> str:
    """A rate of requests: "1 request/s", "2.5 requests/s", "12,000 requests/s"."""
    return f"{counted(short(value, places), 'request')}/s"


def load(kind: str, amount: float) -> str:
    """A load by its kind: "batch 8", "64 users", "2.5 requests/s"."""
    if kind == "rate":
        return request_rate(amount)
    return counted(amount, "user") if kind == "concurrency" else f"batch {count(amount)}"


def counted(number: float | str, thing: str) -> str:
    """A number, or its text, of things: "1 user", "2,048 users"."""
    text = number if isinstance(number, str) else f"{number:,.15g}"
    return f"{text} {thing}{'' if text == '1' else 's'}"


#: Probabilities above this are not distinguished: the intervals have heavier tails than assumed.
SURE = 0.95


def chance(share: float) -> str:
    """A probability: "43 %", "> 95 %", or "not validated" for NaN."""
    if math.isnan(share):
        return NOT_VALIDATED
    return f"> {percent(SURE)}" if share > SURE else percent(share)


def dollars(value: float) -> str:
    """An amount in US dollars: "$0.182", "−$0.182"."""
    sign = "−" if value < 0 else ""
    return f"{sign}${digits(abs(value))}" if math.isfinite(value) else "–"


def parameters(value: float) -> str:
    """A parameter count: "8.03 B" (billions), as the field writes it."""
    return scaled(value, "", 3).replace("G", "B").strip()


# ------------------------------------------------------------------------------- sentences


def limits(phase: str, parts: Mapping[str, float]) -> str:
    """A sentence on the largest part of a phase's time, and on the second if it is close.

    parts: seconds by cause, the keys of `BOUND_WORDS`.
    """
    total = sum(parts.values())
    ranked = sorted(parts.items(), key=lambda item: -item[1])
    (first, most), (second, next_most) = ranked[0], ranked[1]
    sentence = (
        f"{phase} is limited by **{BOUND_WORDS[first]}** ({percent(most / total)} of "
        f"{seconds(total)})"
    )
    if next_most > total / 5:
        sentence += f", then {BOUND_WORDS[second]} ({percent(next_most / total)})"
    return sentence


def advice(
    metric: str, levers: Sequence[tuple[str, float]], parts: Mapping[str, float] | None = None
) -> str:
    """A clause on the changes that would shorten a latency most.

    levers: changes with the share of the latency that each saves, best first.  parts: seconds by
    cause; they explain a change that saves more than the causes of its resource hold.
    """
    useful = [(name, saved) for name, saved in levers if saved >= 0.01]
    if not useful:
        return f"none of the single changes tried shortens {metric} by 1 %"
    (name, saved), *rest = useful
    sentence = f"{name} would cut {metric} by **{percent(saved)}**"
    if rest:
        sentence += f", {rest[0][0]} by {percent(rest[0][1])}"
    return sentence + _overlap(useful[:2], parts or {})


def _overlap(named: Sequence[tuple[str, float]], parts: Mapping[str, float]) -> str:
    """A clause for a doubled resource that saves more than half of the time assigned to it.

    An operator's time is assigned to the resource that binds it.  The other resource overlaps only
    in part, so some of its time is counted as inefficiency of the first one.
    """
    total = sum(parts.values())
    for words, saved in named:
        resource, own, other = _LEVERS.get(words, ("", (), ""))
        if total and own and saved > sum(parts.get(o, 0.0) for o in own) / total / 2.0 + 0.01:
            return (
                f" ({resource} overlaps only in part where it is not the limit; its extra time is "
                f"shown as *{other}*)"
            )
    return ""


def change(before: float, after: float) -> str:
    """A relative difference: "−43 %", "+25 %", "2.10×" from doubling on."""
    if not (math.isfinite(before) and math.isfinite(after)) or before == 0:
        return "–"
    ratio = after / before
    if ratio >= 2:
        return f"{digits(ratio)}×"
    sign = "+" if ratio > 1 else "−" if ratio < 1 else "±"
    return f"{sign}{percent(abs(ratio - 1))}"
