"""Targets of a deployment, such as "ttft_p95 < 500ms, tpot < 30ms, usd_per_mtok < 0.4"."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from app.answers.column import Column
from app.answers.columns import COLUMNS
from app.answers.latencies import PERCENTILES
from app.question.literals import did_you_mean, near
from app.wording import quantities
from genz_core.errors import InvalidValue
from genz_core.limits import short
from genz_core.types import Array, Mask

_LATENCIES = ("ttft", "tpot", "e2e")
_MOST = 32  # most targets of one question


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure that may have a target, or that plans are ranked by.

    name: in a target.  declared: its column of the candidates.  percentile: of a latency, 0 for
    its mean.
    """

    name: str
    declared: Column
    percentile: int = 0

    @property
    def column(self) -> str:
        """Its column of the candidates."""
        return self.declared.name

    @property
    def smaller(self) -> bool:
        """Whether a smaller value is better."""
        return self.declared.smaller

    @property
    def words(self) -> str:
        """Its description within a sentence."""
        return self.declared.clause

    @property
    def title(self) -> str:
        """Its name as a table header: "TTFT p95", "$ per Mtok out"."""
        return self.declared.head

    @property
    def latency(self) -> str:
        """The latency of which the figure is a statistic, "" for other figures."""
        base = self.name.partition("_")[0]
        return base if base in _LATENCIES else ""

    @property
    def between_tokens(self) -> bool:
        """Whether the figure is one of the gaps between the tokens of an answer."""
        return self.latency == "tpot" or self.name == "interactivity"

    def shown(self, value: float, places: int = 3) -> str:
        """A value formatted for a reader.  places: digits of a latency."""
        if not math.isfinite(value):
            return "none" if math.isnan(value) else "without end"
        if self.declared.unit == "s":
            return quantities.seconds(value, places)
        if self.declared.unit.startswith("$"):
            return f"${short(value)}"
        return f"{short(value)}{' J' if self.declared.unit == 'J' else ''}"

    def apart(self, value: float, other: float) -> tuple[str, str]:
        """Two values, with as many digits as tell them apart."""
        pairs = [(self.shown(value, places), self.shown(other, places)) for places in (3, 4, 5, 6)]
        return next((pair for pair in pairs if pair[0] != pair[1]), pairs[-1])


def _figures() -> Iterator[Figure]:
    for name in _LATENCIES:
        yield Figure(name, COLUMNS[f"{name}_s"])
        for at in PERCENTILES:
            yield Figure(f"{name}_p{at}", COLUMNS[f"{name}_p{at}_s"], at)
    for name in _OTHERS:
        yield Figure(name, COLUMNS[name])


_OTHERS = (
    "usd_per_mtok", "usd_per_hour", "joules_per_token", "devices", "interactivity",
    "requests_per_s", "output_tokens_per_s", "output_tokens_per_s_per_device",
)  # fmt: skip
#: Every figure by name.
FIGURES: Mapping[str, Figure] = {figure.name: figure for figure in _figures()}
_SYNONYMS: Mapping[str, str] = {
    **{f"{name}_mean": name for name in _LATENCIES},
    **{f"{name}_median": f"{name}_p50" for name in _LATENCIES},
    **{f"{name}_s": name for name in _LATENCIES},
    "usd_per_million_tokens": "usd_per_mtok",
    "cost": "usd_per_mtok",
    "price": "usd_per_mtok",
    "tokens_per_s": "output_tokens_per_s",
    "throughput": "output_tokens_per_s",
    "tokens_per_s_per_device": "output_tokens_per_s_per_device",
    "tokens_per_s_per_user": "interactivity",
}
_DOLLARS: Mapping[str, float] = {"": 1.0, "usd": 1.0, "$": 1.0}
#: Units that may be typed, by the unit of the figure; other figures take none.
_SCALES: Mapping[str, Mapping[str, float]] = {
    "s": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "": 1.0},
    "$": _DOLLARS,
    "$/h": _DOLLARS,
    "J": {"": 1.0, "j": 1.0},
}
#: A first token or a gap between tokens of so many seconds was probably meant in milliseconds.
_SURELY_MS = 10.0
_TERM = re.compile(
    r"([a-z0-9_]+(?:[ -][a-z0-9_]+)?)\s*(<=|>=|<|>)\s*"
    r"(\$?)\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*([a-z$]*)"
)


@dataclass(frozen=True, slots=True)
class Target:
    """A figure below or above a value, in SI units or US dollars.

    below: the figure must not be larger than the value; otherwise it must not be smaller.
    """

    figure: Figure
    below: bool
    value: float

    def met(self, values: Array) -> Mask:
        """Whether values meet the target; NaN never does."""
        with np.errstate(invalid="ignore"):
            return values <= self.value if self.below else values >= self.value

    def slack(self, values: Array) -> Array:
        """ln of the ratio by which the target is met, below 0 where it is missed, NaN where
        unknown.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(self.value / values)
        return ratio if self.below else -ratio

    def margin(self, value: float) -> float:
        """Share of the target that is left, below 0 where it is missed."""
        share = value / self.value - 1.0
        return -share if self.below else share

    @property
    def limit(self) -> str:
        """Its value with its sign: "< 40.0 ms"."""
        return f"{'<' if self.below else '>'} {self.figure.shown(self.value)}"

    @property
    def words(self) -> str:
        """The target for a reader: "TPOT p99 < 40.0 ms"."""
        return f"{self.figure.title} {self.limit}"

    def __str__(self) -> str:
        return f"{self.figure.name} {self.limit}"


def figure(name: str) -> Figure:
    """A figure by its name or a synonym; the words may come in either order: "p99 tpot".

    Raises:
        InvalidValue: unknown; the message suggests close names.
    """
    words = name.strip().casefold().replace("-", "_").split()
    for folded in ("_".join(words), "_".join(reversed(words))):
        if known := FIGURES.get(_SYNONYMS.get(folded, folded)):
            return known
    folded = "_".join(words)
    hint = did_you_mean(near(folded, FIGURES), FIGURES)
    raise InvalidValue(f"no figure {name.strip()[:60]!r}: {hint}")


def parse_targets(text: str) -> tuple[Target, ...]:
    """Parse comma-separated targets: a figure, < or >, a number and its unit; "" for none.

    Latencies are in s unless ms or us is given; money is in US dollars.

    Raises:
        InvalidValue: a term that is not a target, an unknown figure or unit, the wrong sign for a
            figure, or a figure given twice.
    """
    terms = [term.strip() for term in re.split(r"[,;&]|\band\b", text) if term.strip()]
    if len(terms) > _MOST:
        raise InvalidValue(f"{len(terms)} targets: give at most {_MOST}")
    targets = tuple(_target(term) for term in terms)
    named = [target.figure.name for target in targets]
    twice = next((name for name in named if named.count(name) > 1), "")
    if twice:
        raise InvalidValue(f"{twice} has two targets: give only the stricter one")
    return targets


def judged(targets: Iterable[Target], osl: float) -> tuple[Target, ...]:
    """The targets that an answer of `osl` tokens can miss.

    One token has no gap to the next, so it meets every target on TPOT and interactivity, as in
    `genz_core.serving.simulation.answers`.
    """
    return tuple(one for one in targets if osl > 1.0 or not one.figure.between_tokens)


def verdicts(
    targets: Iterable[Target], figures: Mapping[str, float | None], *, missed: bool = False
) -> Iterator[str]:
    """Whether a simulation's figures meet targets, a sentence per target on a figure that it has.

    figures: by column; the mean of a latency as `ttft_mean_s`.  missed: only of missed targets.
    """
    for target in targets:
        figure = target.figure
        of_all = figure.latency and not figure.percentile
        value = figures.get(f"{figure.latency}_mean_s" if of_all else figure.column)
        if value is None:
            continue
        met = bool(target.met(np.asarray(value)))
        if not (met and missed):
            name = f"Mean {figure.title}" if of_all else figure.title
            verdict = "meets" if met else "misses"
            yield f"{name} is {figure.shown(value)} and {verdict} its target ({target.limit})."


def _target(term: str) -> Target:
    found = _TERM.fullmatch(term.casefold())
    if not found:
        raise InvalidValue(
            f'target {term[:60]!r}: give a figure, < or >, and a value, as "ttft_p95 < 500ms" or '
            '"usd_per_mtok < 0.4"'
        )
    name, sign, money, number, unit = found.groups()
    asked = figure(name)
    scales = _SCALES.get(asked.declared.unit, {"": 1.0})
    unit = unit or money
    if unit not in scales:
        units = ", ".join(filter(None, scales)) or "no unit"
        raise InvalidValue(f"target {term!r}: {asked.name} takes {units}, not {unit!r}")
    value = _value(term, number)
    if not unit and asked.latency in ("ttft", "tpot") and value >= _SURELY_MS:
        raise InvalidValue(
            f"target {term!r}: a latency without a unit is in seconds; write {number}ms or "
            f"{number}s"
        )
    below = sign.startswith("<")
    if below != asked.smaller:
        better = "<" if asked.smaller else ">"
        raise InvalidValue(f"target {term!r}: for {asked.name} lower is "
                           f"{'better' if asked.smaller else 'worse'}; write {better}")  # fmt: skip
    return Target(asked, below, value * scales[unit])


def _value(term: str, number: str) -> float:
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not (0.0 < value < math.inf):
        raise InvalidValue(f"target {term!r}: give a number above 0")
    return value
