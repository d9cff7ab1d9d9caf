"""Windows of a server's metrics page, calibration, and alarms when the server leaves its interval.

The first windows calibrate: the mean of ln(measured / predicted) of each latency, and its standard
deviation between windows.  From then on the expected latency is the prediction for the
calibrated conditions, times the learned factor.  It has left its interval if several
windows in a row are outside on the same side; the causes are named (`app.watching.causes`), and
later windows are compared with the new conditions.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean, pstdev

from app.question.query import Query
from app.watching.causes import STEPS, Change, change
from app.watching.pages import Between, Look, between, page_of
from app.watching.prediction import FIGURES, Conditions, Pricing, mean_of
from app.watching.windows import Event, Watched, Window, of_alarm
from genz_core.errors import ReportError
from profilers.serving_results import ServingMeasurement
from profilers.serving_results.fields import ratio
from profilers.serving_results.prometheus import Page

#: Windows that calibrate, and windows in a row outside of the interval before an alarm.
LEARN, IN_A_ROW = 4, 2
#: Standard deviations of a window beyond which it is outside, and the least width of the interval,
#: ln. Both are judgement: means over a minute of Poisson arrivals vary by some percent.
_DEVIATIONS, _LEAST = 4.0, math.log(1.12)
#: Share of the learned factor that a window inside replaces: the calibration follows slow changes.
_CURRENT = 0.1
#: Least number of requests that end in a window.
_ENDED = 5


@dataclass(slots=True)
class _Learned:
    """ln(measured / predicted) of one latency: its mean and its variation between windows."""

    logs: list[float] = field(default_factory=list)
    mean: float = 0.0
    width: float = _LEAST
    outside: list[float] = field(default_factory=list)

    def settle(self) -> None:
        if self.logs:
            self.mean = fmean(self.logs)
            spread = pstdev(self.logs) if len(self.logs) > 1 else 0.0
            self.width = max(_LEAST, _DEVIATIONS * spread)

    def keep_current(self, log: float) -> None:
        self.mean += _CURRENT * (log - self.mean)


Reader = Callable[[], "ServingMeasurement | None"]


class Watcher:
    """Processes samples one by one; `windows` and `events` grow.

    window_s: least seconds of a window.  log: returns figures of a request log's new rows,
    for those that the page lacks; None without a log.
    """

    def __init__(self, query: Query, window_s: float = 60.0, log: Reader | None = None) -> None:
        self.pricing, self.window_s, self.log = Pricing(query), window_s, log
        self.stated = query
        self.windows: list[Window] = []
        self.events: list[Event] = []
        self.up = False
        self._before: tuple[float, Page] | None = None
        self._open: list[float] = []
        self._away = ""
        self._base: Conditions | None = None
        self._preempted, self._arrivals = 0.0, math.nan
        self._learning: list[Window] = []
        self._learned = {name: _Learned() for name in FIGURES}

    # --------------------------------------------------------------------------- looks

    def look(self, look: Look) -> list[Event]:
        """Process a sample; returns the new events."""
        known = len(self.events)
        try:
            page = page_of(look)
        except ReportError as error:
            page, look = None, Look(look.at, "", str(error))
        if page is None:
            self._gone(look)
        else:
            self._seen(look.at, page)
        return self.events[known:]

    def _gone(self, look: Look) -> None:
        self.up = False
        if not self._away:
            self._away = look.why or "the page did not answer"
            self._say(look.at, "away", f"the metrics page cannot be reached: {self._away}")

    def _seen(self, at: float, page: Page) -> None:
        self.up = True
        if self._before is None:
            self._away = ""
            self._before = at, page
            return
        start, before = self._before
        if at <= start:
            self._say(at, "jump", "the clock of the samples went backwards: the window starts anew")
            self._before, self._open = (at, page), []
            return
        gap = between(before, page, at - start)
        if self._away:
            lost = (
                "it started again"
                if gap.restarted
                else "its counters continued, so no data are lost"
            )
            self._say(at, "back", f"the metrics page can be reached again; {lost}")
            self._away = ""
        self._open.append(_under_way(gap.found))
        if gap.restarted:
            self._say(at, "restart", "the server restarted: its counters start anew")
            self._before, self._open = (at, page), []
            return
        if gap.jumped:
            self._say(at, "jump", f"{gap.jumped}; this window is ignored")
            self._before, self._open = (at, page), []
            return
        if gap.seconds >= self.window_s * (1.0 - 1e-6):
            self._window(at, gap)
            self._before, self._open = (at, page), []

    def _say(self, at: float, kind: str, sentence: str, change: Change | None = None) -> None:
        self.events.append(Event(at, kind, sentence, change))

    # --------------------------------------------------------------------------- windows

    def _window(self, at: float, gap: Between) -> None:
        found = gap.found
        row = self.log() if self.log else None
        ended = found.load.completed
        if ended is not None and ended < _ENDED and row is None:
            return  # no requests arrive
        conditions = self._conditions(found, row)
        measured = {
            "tpot_s": _known(found.tpot_s.mean, found.itl_s.mean, row.tpot_s.mean if row else None),
            "ttft_s": _known(found.ttft_s.mean, row.ttft_s.mean if row else None),
        }
        priced = self.pricing.at(conditions)
        expected = {n: priced.values[n] * math.exp(self._learned[n].mean) for n in FIGURES}
        window = Window(
            at, gap.seconds, conditions, measured, priced.values, expected,
            _known(ratio(found.server.get("preemptions"), ended)),
            found.throughput.requests_per_s or math.nan, self._base is None, priced.why,
        )  # fmt: skip
        if window.why and not any(one.why == window.why for one in self.windows[-1:]):
            self._say(at, "note", f"this window cannot be compared with a prediction: {window.why}")
        self.windows.append(window)
        if priced.why:
            return
        if self._base is None:
            self._learn(window)
        else:
            self._judge(window)

    def _conditions(self, found: ServingMeasurement, row: ServingMeasurement | None) -> Conditions:
        """The load: from the page, otherwise from the log, otherwise from the question."""
        question, given = self.stated.question, self.stated.given
        lengths = {
            name: _known(
                getattr(found.lengths, name).mean,
                getattr(row.lengths, name).mean if row else None,
                getattr(question, name) if name in given else None,
            )
            for name in ("isl", "osl")
        }
        rate, whole = found.throughput.requests_per_s, found.e2e_s.mean
        users = rate * whole if rate and whole else fmean(self._open or [math.nan])
        hits = found.server.get("cache_hit_rate", question.prefix_hits)
        return Conditions(users, lengths["isl"], lengths["osl"], hits or 0.0)

    def _learn(self, window: Window) -> None:
        self._learning.append(window)
        for name, learned in self._learned.items():
            if math.isfinite(log := _log(window.measured[name], window.predicted[name])):
                learned.logs.append(log)
        if len(self._learning) >= LEARN:
            self._base = mean_of([one.conditions for one in self._learning])
            self._preempted = fmean(one.preemptions for one in self._learning)
            self._arrivals = fmean(one.requests_per_s for one in self._learning)
            for learned in self._learned.values():
                learned.settle()

    def _judge(self, window: Window) -> None:
        """Compare a window with the interval; raise an alarm after several windows outside."""
        assert self._base is not None
        at_base = self.pricing.at(self._base).values
        left: list[str] = []
        for name, learned in self._learned.items():
            miss = _log(window.measured[name], at_base[name]) - learned.mean
            if not math.isfinite(miss):
                continue
            if abs(miss) <= learned.width:
                learned.outside.clear()
                learned.keep_current(_log(window.measured[name], window.predicted[name]))
                continue
            if learned.outside and math.copysign(1.0, learned.outside[-1]) * miss < 0:
                learned.outside.clear()
            learned.outside.append(miss)
            if len(learned.outside) >= IN_A_ROW:
                left.append(name)
        if left:
            self._alarm(left)

    def _alarm(self, left: Sequence[str]) -> None:
        """Report that latencies left their interval and why, and start again from these
        conditions.
        """
        recent = [one for one in self.windows if not one.why][-IN_A_ROW:]
        assert self._base is not None
        now = mean_of([one.conditions for one in recent])
        preempted = fmean(one.preemptions for one in recent) - self._preempted
        arrivals = fmean(one.requests_per_s for one in recent) / self._arrivals
        changes = [
            change(
                self.pricing, name, math.exp(fmean(self._learned[name].outside[-IN_A_ROW:])),
                self._base, now, preempted, arrivals,
            )
            for name in left
        ]  # fmt: skip
        shown = changes[0]
        if len(changes) > 1 and shown.cause == STEPS:  # a wait says nothing about steps
            shown = next((one for one in changes if one.cause == STEPS), shown)
        self._say(recent[-1].at, "alarm", of_alarm(shown, self._base, now, preempted), shown)
        for one in self._learned.values():
            one.outside.clear()
            one.logs.clear()
        self._base, self._learning = None, []

    # --------------------------------------------------------------------------- state

    def state(self) -> dict[str, dict[str, float]]:
        """The latest window's figures for the exporter: by figure, then by gauge."""
        if not self.windows:
            return {}
        last = self.windows[-1]
        return {
            name: {
                "predicted": last.expected[name],
                "measured": last.measured[name],
                "ratio": last.ratio[name],
                "drift": drift,
            }
            for name, drift in self.drift.items()
        }

    @property
    def drift(self) -> dict[str, float]:
        """Measured over predicted of each latency, as currently learned."""
        return {name: math.exp(one.mean) for name, one in self._learned.items()}


def watched(watcher: Watcher) -> Watched:
    """The result of a watcher so far."""
    return Watched(tuple(watcher.windows), tuple(watcher.events), watcher.drift)


def _log(one: float, other: float) -> float:
    """ln of a ratio, NaN if one of the two is 0 or unknown."""
    return math.log(one / other) if one > 0 and other > 0 else math.nan


def _known(*values: float | None) -> float:
    """The first known value."""
    return next((float(v) for v in values if v is not None and math.isfinite(v)), math.nan)


def _under_way(found: ServingMeasurement) -> float:
    return (found.server.get("requests_running") or 0.0) + (
        found.server.get("requests_waiting") or 0.0
    )
