"""Offered load: when requests come, how long they are, and what their prompts share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, overload

import numpy as np

from app.simulation import trace_file
from app.simulation.trace_file import MOST_REQUESTS, MOST_TOKENS, SESSION_BLOCK, Trace
from genz_core.errors import InvalidValue
from genz_core.progress import Cancel, never
from genz_core.serving.simulation import Requests, draws
from genz_core.types import Array

Generator = np.random.Generator
#: Requests at a rate, and those of each slot of a closed loop, unless said otherwise.
AT_A_RATE, PER_SLOT = 1000, 10


@dataclass(frozen=True, slots=True)
class OfferedLoad:
    """What a client offers: one of a closed loop, an arrival rate and a trace.

    concurrency: open requests of a closed loop, or sessions of one.
    rate: requests that arrive per second, or sessions, and how: `burstiness` is the shape of
    gamma-distributed gaps (1: Poisson, less: burstier); or Poisson with a rate that climbs to
    `ramp_to` over the first `ramp_s` seconds.
    trace: a file (`app.simulation.trace_file`), or requests; its own lengths are taken.
    requests: of a closed loop or a rate, 0 for ten a slot or a thousand; the first of a trace, 0
    for all.
    isl, osl: tokens; uniform in [length_ratio, 1] of them, as public benchmarks draw; or
    lognormal of that mean, `length_spread` the standard deviation over it; or drawn from measured
    rows, `lengths`: a file, or an array [rows, 2] of prompts and answers.
    turns: requests of a session, `think_s` apart; every prompt repeats the conversation so far.
    shared_tokens: system prompt before every conversation, on top of isl.
    seed: of all draws.
    """

    concurrency: int = 0
    rate: float = 0.0
    trace: str | Path | Trace | Requests | None = None
    burstiness: float = 1.0
    ramp_to: float = 0.0
    ramp_s: float = 0.0
    requests: int = 0
    isl: int = 1024
    osl: int = 1024
    length_ratio: float = 1.0
    length_spread: float = 0.0
    lengths: str | Path | Array | None = None
    turns: int = 1
    think_s: float = 0.0
    shared_tokens: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_choices()

    @property
    def count(self) -> int:
        """Requests of a closed loop or a rate."""
        return self.requests or (self.concurrency * PER_SLOT * self.turns or AT_A_RATE)

    @property
    def in_waves(self) -> bool:
        """Whether all requests are alike and start together, so that they stay in step."""
        drawn = self.length_ratio < 1 or self.length_spread or self.lengths is not None
        return self.concurrency > 1 and not drawn

    def drawn(self, cancelled: Cancel = never) -> Trace:
        """The requests of this load, and notes on them.

        Raises:
            InvalidValue: a file that is no trace or has no lengths.
            Cancelled: see `trace_file.read`.
        """
        if isinstance(self.trace, (str, Path)) and self.trace:
            return trace_file.read(Path(self.trace), self.requests, cancelled)
        if isinstance(self.trace, Trace):
            return replace(self.trace, requests=self._first(self.trace.requests))
        if isinstance(self.trace, Requests):
            return Trace(self._first(self.trace), "requests")
        return Trace(self._synthetic(), "")

    def described(self, drawn: Trace) -> dict[str, Any]:
        """What was offered, for a document: the fields that were given, and the requests of it."""
        standard = {entry.name: entry.default for entry in fields(self)}
        given = {name: getattr(self, name) for name in standard}
        if self.trace:
            return {"trace": drawn.name, "requests": len(drawn.requests)}
        measured = given.pop("lengths")
        changed = {name: value for name, value in given.items() if value != standard[name]}
        if measured is None:
            sizes: dict[str, Any] = {"isl": self.isl, "osl": self.osl}
        elif isinstance(measured, (str, Path)):
            sizes = {"lengths": Path(measured).name}
        else:
            sizes = {"lengths": f"of {len(measured):,} measured requests"}
        return {**changed, **sizes, "seed": self.seed, "requests": len(drawn.requests)}

    # --------------------------------------------------------------------------- drawing

    def _first(self, requests: Requests) -> Requests:
        return requests.first(self.requests) if self.requests else requests

    def _synthetic(self) -> Requests:
        sizes, times = map(np.random.default_rng, np.random.SeedSequence(self.seed).spawn(2))
        count, sessions = self.count, -(-self.count // self.turns)
        read, written = self._lengths(count, sizes)
        arrival = self._arrivals(sessions, times)
        if self.turns == 1:
            blocks = range(self.shared_tokens // SESSION_BLOCK)
            return Requests(
                arrival_s=arrival,
                input_tokens=read + self.shared_tokens,
                output_tokens=written,
                prefix=[blocks] * count if blocks else (),
                block_tokens=SESSION_BLOCK,
            )
        return self._in_sessions(arrival, read, written)

    def _in_sessions(self, arrival: Array, read: Array, written: Array) -> Requests:
        """Requests by session: a prompt is all that was read and written before it, and more."""
        rows = np.arange(len(read))
        session, turn = rows // self.turns, rows % self.turns
        before = np.cumsum(read + written) - (read + written)
        history = before - before[session * self.turns]
        prompt = history + read + self.shared_tokens
        last = np.append(np.flatnonzero(turn == 0)[1:], len(rows)) - 1
        longest = ((prompt + written)[last] // SESSION_BLOCK).astype(int)
        shared = self.shared_tokens // SESSION_BLOCK
        conversations = [
            Conversation(range(shared), trace_file.session_blocks(number, max(blocks - shared, 0)))
            for number, blocks in enumerate(longest.tolist())
        ]
        return Requests(
            arrival_s=np.where(turn == 0, arrival[session], self.think_s),
            input_tokens=prompt,
            output_tokens=written,
            after=np.where(turn == 0, -1, rows - 1),
            prefix=[conversations[at] for at in session.tolist()],
            block_tokens=SESSION_BLOCK,
        )

    def _arrivals(self, count: int, generator: Generator) -> Array:
        if self.concurrency:
            return np.zeros(count)
        if self.ramp_to:
            return draws.ramping_arrivals(count, self.rate, self.ramp_to, self.ramp_s, generator)
        return draws.bursty_arrivals(count, self.rate, self.burstiness, generator)

    def _lengths(self, count: int, generator: Generator) -> tuple[Array, Array]:
        if self.lengths is not None:
            named = isinstance(self.lengths, (str, Path))
            rows = trace_file.read_lengths(Path(str(self.lengths))) if named else self.lengths
            read, written = draws.resampled(count, np.asarray(rows), generator).T
            return read, written
        if self.length_spread:
            pair = [
                draws.lognormal_lengths(count, mean, self.length_spread, generator)
                for mean in (self.isl, self.osl)
            ]
        else:
            pair = [
                draws.uniform_lengths(count, nominal, self.length_ratio, generator)
                for nominal in (self.isl, self.osl)
            ]
        return pair[0], pair[1]

    # --------------------------------------------------------------------------- checks

    def _check_numbers(self) -> None:
        whole = {
            "concurrency": (0, 1_000_000),
            "requests": (0, MOST_REQUESTS),
            "isl": (1, MOST_TOKENS),
            "osl": (1, MOST_TOKENS),
            "turns": (1, 1000),
            "shared_tokens": (0, MOST_TOKENS),
            "seed": (0, 2**63 - 1),
        }
        for name, (least, most) in whole.items():
            value = _number(name, getattr(self, name), least, most)
            if value != int(value):
                raise InvalidValue(f"{name} = {value:g}: give a whole number")
            object.__setattr__(self, name, int(value))
        real = {
            "rate": (0.0, 1e9),
            "burstiness": (1e-3, 1e6),
            "ramp_to": (0.0, 1e9),
            "ramp_s": (0.0, 1e9),
            "length_spread": (0.0, 10.0),
            "think_s": (0.0, 1e9),
        }
        for name, (low, high) in real.items():
            object.__setattr__(self, name, _number(name, getattr(self, name), low, high))
        if not 0.0 < self.length_ratio <= 1.0:
            raise InvalidValue(f"length_ratio = {self.length_ratio:g} is not between 0 and 1")
        if self.count > MOST_REQUESTS:
            raise InvalidValue(
                f"{self.count:,} requests are more than the {MOST_REQUESTS:,} that can be simulated"
            )

    def _check_choices(self) -> None:
        loads = {"concurrency": self.concurrency, "rate": self.rate, "trace": self.trace}
        given = [name for name, value in loads.items() if value]
        if len(given) != 1:
            has = " and ".join(given) or "none"
            raise InvalidValue(
                f"give a concurrency, a rate above 0 or a trace, one of them, not {has}"
            )
        shapes = {"burstiness": self.burstiness != 1.0, "ramp_to": self.ramp_to > 0}
        if not self.rate and any(shapes.values()):
            name = next(name for name, changed in shapes.items() if changed)
            raise InvalidValue(
                f"{name} shapes the arrivals of a rate: give a rate, or leave it out"
            )
        if all(shapes.values()):
            raise InvalidValue("a ramp is Poisson: give burstiness or ramp_to, one of them")
        if bool(self.ramp_to) != bool(self.ramp_s):
            raise InvalidValue("a ramp needs both the rate that it climbs to and its seconds")
        self._check_lengths()

    def _check_lengths(self) -> None:
        drawn = {
            "length_ratio": self.length_ratio != 1.0,
            "length_spread": self.length_spread > 0,
            "lengths": self.lengths is not None,
        }
        given = [name for name, changed in drawn.items() if changed]
        if len(given) > 1:
            raise InvalidValue(f"{' and '.join(given)} draw lengths in different ways: give one")
        shared = {"turns": self.turns > 1, "shared_tokens": self.shared_tokens > 0}
        given += [name for name, changed in shared.items() if changed]
        if self.trace and given:
            raise InvalidValue(f"a trace has lengths and sessions of its own: leave out {given[0]}")
        if self.think_s and self.turns == 1:
            raise InvalidValue("think_s lies between the turns of a session: give turns above 1")


class Conversation(Sequence[int]):
    """Identities of the blocks of a conversation: those that all share, then its own."""

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


def _number(name: str, value: Any, least: float, most: float) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not least <= number <= most:
        raise InvalidValue(f"{name} = {value!r}: give a number from {least:g} to {most:g}")
    return number
