"""The windows and events of a watch, and its result, as documents and in words."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.watching.causes import Change
from app.watching.prediction import FIGURES, Conditions
from app.wording import quantities

_WORDS = {"tpot_s": "TPOT", "ttft_s": "TTFT"}


@dataclass(frozen=True, slots=True)
class Window:
    """Figures of a server in a time window, with the expected ones.

    at: its end.  measured, expected: latencies by name [s], NaN if there is none; `expected`
    includes the learned factor, under the conditions of this window.  predicted: without it.
    ratio: measured over expected.  preemptions: per request, NaN if the page does not count them.
    """

    at: float
    seconds: float
    conditions: Conditions
    measured: Mapping[str, float]
    predicted: Mapping[str, float]
    expected: Mapping[str, float]
    preemptions: float
    requests_per_s: float
    learning: bool
    why: str = ""

    @property
    def ratio(self) -> dict[str, float]:
        return {name: self.measured[name] / self.expected[name] for name in FIGURES}

    def document(self) -> dict[str, Any]:
        """The window as `--json` prints it."""
        found: dict[str, Any] = {"at": self.at, "seconds": self.seconds}
        found |= {name: getattr(self.conditions, name) for name in ("users", "isl", "osl", "hits")}
        found |= {"requests_per_s": self.requests_per_s, "preemptions": self.preemptions}
        for name in FIGURES:
            found[f"measured_{name}"] = self.measured[name]
            found[f"predicted_{name}"] = self.predicted[name]
            found[f"expected_{name}"] = self.expected[name]
        return found | {"learning": self.learning, "why": self.why}


@dataclass(frozen=True, slots=True)
class Event:
    """An event to report.  kind: "alarm", "away", "back", "restart", "jump" or "note".

    change: of an alarm.
    """

    at: float
    kind: str
    sentence: str
    change: Change | None = None

    def document(self) -> dict[str, Any]:
        """The event as `--json` prints it."""
        found: dict[str, Any] = {"at": self.at, "kind": self.kind, "sentence": self.sentence}
        if self.change is not None:
            found |= {
                "figure": self.change.figure, "ratio": self.change.ratio,
                "cause": self.change.cause, "parts": dict(self.change.parts),
            }  # fmt: skip
        return found


@dataclass(frozen=True, slots=True)
class Watched:
    """The result of a watch.  drift: measured over predicted of each latency, as learned."""

    windows: tuple[Window, ...]
    events: tuple[Event, ...]
    drift: Mapping[str, float]

    @property
    def alarms(self) -> tuple[Event, ...]:
        """The events of a server leaving its interval."""
        return tuple(event for event in self.events if event.kind == "alarm")

    def document(self) -> dict[str, Any]:
        """The output of `ridgeline watch --json`."""
        return {
            "windows": [one.document() for one in self.windows],
            "events": [one.document() for one in self.events],
            "alarms": len(self.alarms),
            "drift": dict(self.drift),
            "sentences": sentences(self),
        }


def sentences(found: Watched) -> list[str]:
    """The result in words."""
    judged = [one for one in found.windows if not one.why]
    if not judged:
        return [*(one.sentence for one in found.events), "no window could be judged"]
    drift = ", ".join(
        f"{_WORDS[name]} x {value:.2f}" for name, value in found.drift.items() if value != 1.0
    )
    head = f"{len(judged):,} windows, {len(found.alarms)} times outside of the interval"
    return [f"{head}; measured over predicted: {drift or 'as predicted'}",
            *(one.sentence for one in found.events)]  # fmt: skip


def of_alarm(shown: Change, before: Conditions, now: Conditions, preempted: float) -> str:
    """An alarm in words: the figure, the cause in its own figures, and the other parts."""
    told = {
        "load": f"{now.users:.3g} requests in flight, {before.users:.3g} before",
        "lengths": f"{now.isl:,.0f}/{now.osl:,.0f} tokens, {before.isl:,.0f}/{before.osl:,.0f} "
        "before",
        "cache hits": f"{now.hits:.0%} of prompt tokens found in the cache, {before.hits:.0%} "
        "before",
        "preemptions": f"{preempted:.2g} more preemptions per request than before",
        "steps": "not explained by load, lengths or cache hits",
    }
    parts = ", ".join(
        f"{name} x {math.exp(part):.2f}"
        for name, part in sorted(shown.parts.items(), key=lambda one: -abs(one[1]))
        if abs(part) > 0.02
    )
    way = "above" if shown.ratio > 1.0 else "below"
    return (
        f"{_WORDS[shown.figure]} is {quantities.percent(abs(shown.ratio - 1.0))} {way} what was "
        f"expected, because of {shown.cause}: {told[shown.cause]} ({parts})"
    )
