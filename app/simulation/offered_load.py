"""Offered load: when requests arrive, their lengths, and the prefixes that prompts share."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from app.question.groups import LENGTHS, LOAD, SHARED
from app.question.hours import day_of
from app.question.parameters import PARAMETERS
from app.question.question import STANDARD, Question, nominal_lengths
from app.simulation import recorded_sessions, trace_file
from app.simulation.trace_file import MOST_REQUESTS, SESSION_BLOCK, Trace
from genz_core.common.progress import Cancel, never
from genz_core.errors import InvalidValue
from genz_core.limits import brief
from genz_core.serving.simulation import Requests, draws
from genz_core.types import Array

Generator = np.random.Generator
#: Default number of requests at a rate, and per user of a closed loop.
AT_A_RATE, PER_SLOT = 1000, 10
#: Requests (sessions, for several turns) per user of a steady loop that are not counted: before the
#: counted ones, to reach the steady state, and after them, to keep the load full.
WARM, COOL = 2, 1
#: Tokens per block of recorded sessions, whose contexts are long: LMCache's `chunk_size`.
RECORDED_BLOCK = 256
_DESCRIBED = tuple(
    one.name
    for one in PARAMETERS.values()
    if one.group in (LOAD, LENGTHS, SHARED) and one.name not in ("batch", "requests")
)
_NOTHING: Mapping[str, Any] = {}


def is_steady(question: Question) -> bool:
    """Whether figures describe the steady state of a closed loop, without start and end."""
    return question.kind == "concurrency" and not question.burst_start


def counted(question: Question) -> range | None:
    """Range of the drawn requests that figures are computed from, None for all."""
    if not is_steady(question):
        return None
    first = WARM * _users(question) * _turns(question)
    return range(first, first + _count(question))


def sent(question: Question) -> int:
    """Total requests that a closed loop or a rate sends.

    Raises:
        InvalidValue: more than can be simulated.
    """
    around = (WARM + COOL) * _users(question) * _turns(question) if is_steady(question) else 0
    total = _count(question) + around
    if total > MOST_REQUESTS:
        raise InvalidValue(
            f"{total:,} requests are more than the {MOST_REQUESTS:,} that can be simulated: take "
            "fewer users or requests"
        )
    return total


def in_waves(question: Question) -> bool:
    """Whether all requests are equal and start together, so that they stay synchronised."""
    equal = question.length_ratio == 1.0 and not question.length_spread and not question.lengths
    return question.burst_start and _users(question) > 1 and equal


def pause_alike(question: Question) -> bool:
    """Whether all pauses between turns are equal."""
    return question.think_s > 0.0 and not question.think_spread


def drawn(
    question: Question, objects: Mapping[str, Any] = _NOTHING, cancelled: Cancel = never
) -> Trace:
    """The requests of a question's load, with notes about them.

    objects: the trace (a path, a `Trace` or `Requests`) and the lengths (a path, or an array [rows,
    2] of prompt and output tokens), by parameter name, see `app.question.query.Query`.

    Raises:
        InvalidValue: a static batch, a file that is not a trace or has no lengths, a file name
            where files may not be opened, or more requests than can be simulated.
        Cancelled: see `trace_file.read`.
    """
    if question.kind == "batch":
        raise InvalidValue(
            "a static batch has no single requests: give a concurrency, a rate or a trace"
        )
    if question.kind != "trace":
        return Trace(_synthetic(question, objects.get("lengths")), "")
    given, most = objects.get("trace"), question.requests or 0
    if isinstance(given, Requests):
        given = Trace(given, "requests")
    if isinstance(given, Trace):
        return replace(given, requests=given.requests.first(most) if most else given.requests)
    return trace_file.read(_file("trace", question.trace, given), most, cancelled)


def described(question: Question, requests: int, trace: str = "") -> dict[str, Any]:
    """The offered load for a document: the parameters that were given.

    requests: those that figures are computed from.  trace: its name, if one was served.
    """
    if question.kind == "trace":
        return {"trace": trace, "requests": requests}
    given = {name: getattr(question, name) for name in _DESCRIBED}
    changed = {name: value for name, value in given.items() if value != getattr(STANDARD, name)}
    sizes: dict[str, Any] = {"isl": question.isl, "osl": question.osl}
    if question.lengths:
        sizes = {"lengths": Path(question.lengths).name}
    return {**changed, **sizes, "seed": question.seed, "requests": requests}


# ------------------------------------------------------------------------------- drawing


def _users(question: Question) -> int:
    return int(question.concurrency or 0)


def _count(question: Question) -> int:
    """Number of counted requests of a closed loop or a rate; for a day, all of them."""
    if question.day and not question.requests:
        return of_a_day(question)
    return question.requests or _users(question) * PER_SLOT * _turns(question) or AT_A_RATE


def of_a_day(question: Question) -> int:
    """Number of requests of a day of whole sessions, whose busiest hour has the question's rate."""
    shares, turns = np.array(day_of(question)), question.turns
    requests = float(question.rate or 0.0) * float(np.sum(shares / shares.max())) * 3600.0
    return max(round(requests / turns), 1) * turns


def mean_session(question: Question) -> tuple[float, float]:
    """Mean turns of a session, and mean pause between two of them [s]."""
    if question.sessions:
        return recorded_sessions.read(question.sessions).means
    return float(question.turns), question.think_s


def _turns(question: Question) -> int:
    """Turns per session, the mean rounded up."""
    return math.ceil(mean_session(question)[0])


def _synthetic(question: Question, lengths: Any) -> Requests:
    generators = map(np.random.default_rng, np.random.SeedSequence(question.seed).spawn(2))
    sizes, times = generators
    total, shared = sent(question), question.shared_tokens
    if question.sessions:
        return _recorded(question, total, sizes, times)
    read, written = _lengths(question, lengths, total, sizes)
    arrival = _starts(question, -(-total // question.turns), times)
    if question.turns > 1:
        turn = np.arange(total) % question.turns
        later = turn > 0
        if question.turn_isl:
            added = np.maximum(np.round(read * (question.turn_isl / question.isl)), 1.0)
            read = np.where(later, added, read)
        if question.think_s and question.think_spread:
            pauses = draws.lognormal(total, question.think_s, question.think_spread, times)
        else:
            pauses = np.full(total, question.think_s)
        starts = np.where(later, pauses, arrival[np.arange(total) // question.turns])
        return _in_sessions(turn, starts, read, written, question.shared_tokens, SESSION_BLOCK)
    blocks = range(shared // SESSION_BLOCK)
    return Requests(
        arrival_s=arrival,
        input_tokens=read + shared,
        output_tokens=written,
        prefix=[blocks] * total if blocks else (),
        block_tokens=SESSION_BLOCK,
    )


def _recorded(question: Question, total: int, sizes: Generator, times: Generator) -> Requests:
    """Requests of recorded sessions, drawn with replacement; the last session may be cut."""
    recorded = recorded_sessions.read(question.sessions)
    rows, turn = recorded.drawn(total, sizes)
    arrival = _starts(question, int(np.sum(turn == 0)), times)
    starts = np.where(turn == 0, arrival[np.cumsum(turn == 0) - 1], recorded.pause_s[rows])
    read, written = recorded.input_tokens[rows], recorded.output_tokens[rows]
    return _in_sessions(turn, starts, read, written, recorded.shared_tokens, RECORDED_BLOCK)


def _in_sessions(
    turn: NDArray[np.int_],
    starts: Array,
    read: Array,
    written: Array,
    shared_tokens: int,
    block: int,
) -> Requests:
    """Requests by session: each prompt contains all earlier prompts and answers, plus new tokens.

    turn: of each request in its session, from 0.  starts: arrival of a first turn; for later turns
    the pause before it [s].  read: new tokens of the prompt.  block: tokens per block; only whole
    blocks are shared.
    """
    rows = np.arange(len(read))
    firsts = np.flatnonzero(turn == 0)
    session = np.cumsum(turn == 0) - 1
    before = np.cumsum(read + written) - (read + written)
    history = before - before[firsts][session]
    prompt = history + read + shared_tokens
    last = np.append(firsts[1:], len(rows)) - 1
    longest = ((prompt + written)[last] // block).astype(int)
    shared = shared_tokens // block
    conversations = [
        Conversation(range(shared), trace_file.session_blocks(number, max(blocks - shared, 0)))
        for number, blocks in enumerate(longest.tolist())
    ]
    return Requests(
        arrival_s=starts,
        input_tokens=prompt,
        output_tokens=written,
        after=np.where(turn == 0, -1, rows - 1),
        prefix=[conversations[at] for at in session.tolist()],
        block_tokens=block,
    )


def _starts(question: Question, count: int, generator: Generator) -> Array:
    """When sessions start [s], each with its turns: the rate of a question is that of requests."""
    q = question
    if q.rate is None:
        return np.zeros(count)
    turns = mean_session(q)[0]
    rate = q.rate / turns
    if q.day:
        shares = np.array(day_of(q))
        rates = rate * shares / shares.max()
        whole = not q.requests
        return draws.hourly_arrivals(count, rates, q.burstiness, generator, one_day=whole)
    if q.ramp_to:
        return draws.ramping_arrivals(count, rate, q.ramp_to / turns, q.ramp_s, generator)
    return draws.bursty_arrivals(count, rate, q.burstiness, generator)


def _lengths(
    question: Question, measured: Any, count: int, generator: Generator
) -> tuple[Array, Array]:
    """Prompt and output tokens, [count] each; uniform, lognormal, or drawn as pairs from rows."""
    q = question
    if q.lengths:
        known = measured is not None and not isinstance(measured, (str, Path))
        rows = measured if known else trace_file.read_lengths(_file("lengths", q.lengths, measured))
        try:
            pairs = np.asarray(rows, dtype=float)
        except (TypeError, ValueError):
            raise InvalidValue(
                f"lengths = {brief(rows)}: give a path, or rows of prompt and answer tokens"
            ) from None
        read, written = draws.resampled(count, pairs, generator).T
        return read, written
    if q.length_spread:
        pair = [
            draws.lognormal_lengths(count, mean, q.length_spread, generator)
            for mean in (q.isl, q.osl)
        ]
        return pair[0], pair[1]
    *longest, ratio = nominal_lengths(q.isl, q.osl, q.length_ratio)
    read, written = (draws.uniform_lengths(count, most, ratio, generator) for most in longest)
    return read, written


def _file(name: str, text: str, given: Any) -> Path:
    """The file named in a question, if its caller may open files."""
    if isinstance(given, Path):
        return given
    if given is not None and not isinstance(given, str):
        raise InvalidValue(f"{name} = {brief(given)}: give a path, or the requests")
    raise InvalidValue(
        f"{name} = {text[:60]!r}: this interface opens no files; give the rows instead"
    )


class Conversation(Sequence[int]):
    """Ids of the blocks of a conversation: first those shared by all conversations, then its
    own.
    """

    __slots__ = ("_own", "_shared")

    def __init__(self, shared: range, own: range) -> None:
        self._shared = shared
        self._own = own

    def __len__(self) -> int:
        return len(self._shared) + len(self._own)

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[int, ...]: ...
    def __getitem__(self, at: int | slice) -> int | tuple[int, ...]:
        both = len(self._shared)
        if isinstance(at, int):
            at = range(len(self))[at]
            return self._shared[at] if at < both else self._own[at - both]
        first, last, _ = at.indices(len(self))
        own = self._own[max(first - both, 0) : max(last - both, 0)]
        return (*self._shared[first:last], *own)
