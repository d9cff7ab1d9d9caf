"""The load over time: a day at a varying rate, a recorded trace, or a day made from a trace."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.question.hours import HOURS, day_of
from app.question.question import Question
from app.simulation import offered_load
from app.simulation.trace_file import MOST_REQUESTS, Trace
from genz_core.common.progress import Cancel, never
from genz_core.errors import InvalidValue
from genz_core.serving.simulation import Requests
from genz_core.types import Array, Mask

DAY_S = HOURS * 3600.0
#: Most requests of a day that is simulated whole without being asked for: some ten seconds a run.
MOST_UNASKED = 100_000
_OF_DAY = 3_000  # index of this random sequence of a seed
_OTHER_BLOCKS = 1 << 48  # block ids reserved for one copy of a trace


def within_reason(question: Question) -> tuple[Question, str]:
    """The question with the part of a day to simulate, and a note on it, "" for a whole day.

    Without a stated day or number of requests, a day of more than `MOST_UNASKED` is cut to the
    requests from the hour before the steepest rise on.
    """
    if question.kind != "rate" or question.day or question.requests:
        return question, ""
    whole = offered_load.of_a_day(question)
    if whole <= MOST_UNASKED:
        return question, ""
    shares = day_of(question)
    first = int(np.argmax(np.diff(shares)))
    note = (
        f"{MOST_UNASKED:,} of the {whole:,} requests of a day are simulated, those from "
        f"{first}:00 on, while the load rises most: give requests for another number, "
        "or a day, which is simulated whole"
    )
    return replace(question, day=shares[first:] + shares[:first], requests=MOST_UNASKED), note


def clock(seconds: float) -> str:
    """A time in hours, minutes and seconds: "8:00:00"."""
    minutes, left = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{left:02}"


def requests_of(
    question: Question, objects: Mapping[str, Any], cancelled: Cancel = never, *, by_day: bool
) -> Trace:
    """The requests of a load.

    by_day: if True, a rate is that of the busiest hour of a day; otherwise it is constant.  A trace
    becomes a day if the question states one.

    Raises:
        InvalidValue: as `offered_load.drawn`, or a trace without duration.
    """
    if question.kind == "rate":
        day = day_of(question) if by_day else ()
        return offered_load.drawn(replace(question, day=day), objects, cancelled)
    drawn = offered_load.drawn(question, objects, cancelled)
    return _day_of(drawn, question) if by_day and question.day else drawn


def _day_of(trace: Trace, question: Question) -> Trace:
    """A day made from a trace: the trace is repeated, and each hour keeps a share of its requests.

    Copies of the trace share no prompt blocks.
    """
    shares, requests = np.array(day_of(question)), trace.requests
    alone = _first_turns(requests)
    span = float(np.max(requests.arrival_s[alone]))
    if not span > 0.0:
        raise InvalidValue("all requests of the trace arrive at once: leave out the day")
    # a gap before the first request of the next copy
    span *= 1.0 + 1.0 / max(int(alone.sum()) - 1, 1)
    copies = int(np.ceil(DAY_S / span))
    if copies * len(requests) > MOST_REQUESTS:
        raise InvalidValue(
            f"a day of {trace.name} has {copies * len(requests):,} requests: limit them with "
            f"requests, {MOST_REQUESTS // copies:,} at most"
        )
    chance = np.random.default_rng(np.random.SeedSequence(question.seed, spawn_key=(_OF_DAY,)))
    parts = [_copy(requests, at, span, shares / shares.max(), chance) for at in range(copies)]
    joined = _joined([part for part in parts if len(part.rows)], requests)
    note = f"a day of {trace.name}, {copies} times, each hour with its share of the requests"
    return replace(trace, requests=joined, notes=(*trace.notes, note))


@dataclass(frozen=True, slots=True)
class _Part:
    """The kept rows of a copy, and the arrival times of its requests."""

    copy: int
    rows: NDArray[np.int_]
    arrival_s: Array


def _first_turns(requests: Requests) -> Mask:
    return np.asarray(requests.after < 0) if len(requests.after) else np.ones(len(requests), bool)


def _copy(
    requests: Requests, copy: int, span: float, shares: Array, chance: np.random.Generator
) -> _Part:
    """One repetition: of the sessions that start in an hour, the hour's share is kept."""
    alone = _first_turns(requests)
    arrival = requests.arrival_s + np.where(alone, copy * span, 0.0)
    hour = np.minimum(arrival // 3600.0, HOURS - 1).astype(int)
    kept = alone & (arrival < DAY_S) & (chance.random(len(requests)) < shares[hour])
    if len(requests.after):
        for row in np.flatnonzero(~alone):
            kept[row] = kept[requests.after[row]]
    return _Part(copy, np.flatnonzero(kept), arrival)


def _joined(parts: list[_Part], requests: Requests) -> Requests:
    if not parts:
        raise InvalidValue("with these shares of the day no request of the trace is left")
    rows = np.concatenate([part.rows for part in parts])
    after: list[Array] = []
    prefix: list[Any] = []
    start = 0
    for part in parts:
        if len(requests.after):
            place = np.full(len(requests), -1)
            place[part.rows] = start + np.arange(len(part.rows))
            before = requests.after[part.rows]
            after.append(np.where(before >= 0, place[before], -1))
        if requests.prefix:
            base = part.copy * _OTHER_BLOCKS
            prefix += [tuple(base + one for one in requests.prefix[row]) for row in part.rows]
        start += len(part.rows)
    return Requests(
        arrival_s=np.concatenate([part.arrival_s[part.rows] for part in parts]),
        input_tokens=requests.input_tokens[rows],
        output_tokens=requests.output_tokens[rows],
        after=np.concatenate(after) if after else np.zeros(0, dtype=int),
        prefix=prefix,
        block_tokens=requests.block_tokens,
    )
