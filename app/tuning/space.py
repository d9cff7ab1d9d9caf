"""The settings that a search over a server may try, each with its predicted figures.

The closed form prices all of them before the first run; a setting that cannot run gets a reason and
is not tried.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.answers.column import ends
from app.benchmarks.levels import quantile
from app.planning.demand import lengths
from app.planning.space import formats
from app.planning.targets import FIGURES, Figure, Target, figure, parse_targets
from app.question.parameters import PARAMETERS
from app.question.query import Query, ask
from app.question.verbs import VERBS, parameters_of
from app.scenario import results
from app.scenario.known_systems import find_system
from app.scenario.scenario import find_model
from genz_core.errors import InvalidValue, RidgelineError
from genz_core.types import Array
from hardware_db.intervals import LEVEL

#: A setting: values by parameter name.
Setting = Mapping[str, Any]
#: Largest number of settings of one search: all of them are priced, and few are run.
MOST = 20_000
#: Figures of a run other than latencies.
RATES = ("output_tokens_per_s", "requests_per_s", "output_tokens_per_s_per_device", "interactivity")
#: Standard deviations of ln(measured / predicted): without an interval, the largest accepted from
#: one, and the addition for a percentile, which is predicted as its mean.  The figures are
#: judgement.
_UNKNOWN, _LEAST, _MOST, _PERCENTILE = 0.5, 0.05, 1.5, 0.5


@dataclass(frozen=True, slots=True)
class Expected:
    """A figure of every setting before any run, [settings].

    log: ln of the prediction, NaN if there is none.  deviation: standard deviation of ln(measured /
    predicted).
    """

    log: Array
    deviation: Array


@dataclass(frozen=True)
class Space:
    """The settings of a question.

    asked: the question of the verb "tune".  settings: those predicted to run.  refused: the others,
    with the reason.  expected: by figure.  features: coordinates of the settings, [settings, axes].
    """

    query: Query
    goal: Figure
    targets: tuple[Target, ...]
    settings: tuple[Setting, ...]
    refused: tuple[tuple[Setting, str], ...]
    expected: Mapping[str, Expected]
    features: Array

    @property
    def sign(self) -> float:
        """1 if more of the goal is better, -1 if less is."""
        return -1.0 if self.goal.smaller else 1.0

    def at(self, setting: Setting) -> int:
        """Index of a setting.

        Raises:
            InvalidValue: it is not in the space.
        """
        wanted = dict(setting)
        for number, one in enumerate(self.settings):
            if dict(one) == wanted:
                return number
        raise InvalidValue(
            f"{words(setting) or 'no parameter'} is not a setting of this search: give each of "
            f"{', '.join(self.query.several)} one of the values that are tried"
        )


def words(setting: Setting) -> str:
    """A setting as text: "max_num_seqs 64, kv fp8"."""
    return ", ".join(
        f"{name} {'default' if value in ('', 0, None) else value}"
        for name, value in setting.items()
    )


def space(query: Query, goal: str) -> Space:
    """The priced settings of a question.

    goal: name of the figure to optimise.

    Raises:
        InvalidValue: a single setting, too many, a goal or target that runs do not measure, or no
            setting that can run.
    """
    for name in ("model", "draft_model"):  # unknown names are reported first
        if source := query.named(name):
            find_model(source)
    find_system(query.named("system"))
    best, targets = _measured(figure(goal)), parse_targets(", ".join(query.question.target))
    for target in targets:
        _measured(target.figure)
    axes = {
        name: formats(query, name) if name in ("weights", "kv") else tuple(dict.fromkeys(values))
        for name, values in query.several.items()
    }
    count = math.prod(len(values) for values in axes.values())
    if not axes or count < 2:
        several = ", ".join(VERBS["tune"].several)
        raise InvalidValue(
            "there is nothing to tune: give some parameters several values, such as "
            f"--max-num-seqs 16,64,256; parameters that can have several values are {several}"
        )
    if count > MOST:
        raise InvalidValue(f"{count:,} settings: give at most {MOST:,}")
    every = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    rows, refused = _priced(query, every)
    able = [at for at, row in enumerate(rows) if row is not None]
    if not able:
        raise InvalidValue(
            f"none of the {count:,} settings can run according to the prediction; the first: "
            f"{words(every[0])}: {refused[0][1]}"
        )
    kept, found = [every[at] for at in able], [row for row in rows if row is not None]
    devices = np.array([devices_of(query, setting) for setting in kept])
    figures = {one.name: one for one in (best, *(target.figure for target in targets))}
    wanted = lengths(query.question).wanted
    expected = {name: _expected(one, found, devices, wanted) for name, one in figures.items()}
    return Space(
        query, best, targets, tuple(kept), tuple(refused), expected,
        _features(axes, kept, found),
    )  # fmt: skip


def of_setting(query: Query, setting: Setting, verb: str) -> Query:
    """The question for another verb with the values of one setting.

    Raises:
        RidgelineError: as `ask`.
    """
    known = parameters_of(verb)
    given = {
        name: query.objects.get(name, getattr(query.question, name))
        for name in PARAMETERS
        if name in query.given and name not in query.several and name not in ("target", "seed")
    }
    if strange := next((name for name in given if name not in known), ""):
        raise InvalidValue(f"{strange} does not apply to {verb}: leave it out")
    own = {name: value for name, value in setting.items() if value not in ("", None)}
    if not own.get("speculation", given.get("speculation")):
        for name in ("draft_tokens", "draft_model", "acceptance"):
            own.pop(name, None)
            given.pop(name, None)
    if own.get("speculation", given.get("speculation")) != "draft_model":
        given.pop("draft_model", None)
    return ask(verb, {**given, **own})


def _measured(one: Figure) -> Figure:
    """The figure, if a benchmark client measures it."""
    if one.latency or one.name in RATES:
        return one
    known = ", ".join(name for name in FIGURES if FIGURES[name].latency or name in RATES)
    raise InvalidValue(f"{one.name} is not a figure that a benchmark client measures: give {known}")


def _priced(
    query: Query, every: Sequence[Setting]
) -> tuple[list[dict[str, Any] | None], list[tuple[Setting, str]]]:
    """The closed form's row of every setting, None if it cannot run, and the settings with reasons.

    Numbers that `serve` takes as arrays are priced together.
    """
    side = [
        name
        for name in query.several
        if PARAMETERS[name].array and PARAMETERS[name].numeric and None not in query.several[name]
    ]
    groups: dict[tuple[Any, ...], list[int]] = {}
    for at, setting in enumerate(every):
        groups.setdefault(
            tuple(value for name, value in setting.items() if name not in side), []
        ).append(at)
    rows: list[dict[str, Any] | None] = [None] * len(every)
    refused: list[tuple[int, str]] = []
    for members in groups.values():
        first = every[members[0]]
        alike = {name: value for name, value in first.items() if name not in side}
        beside = {name: [every[at][name] for at in members] for name in side}
        try:
            question = of_setting(query, {**alike, **beside}, "serve")
            served = results.serve(question, "status")
            results.refuse_alone(served)
            found = served.rows
        except RidgelineError as error:
            refused += [(at, str(error)) for at in members]
            continue
        for at, row in zip(members, found if beside else found * len(members), strict=True):
            if row["status"] == "ok":
                rows[at] = row
            else:
                refused.append((at, f"{row['status']}: {row['message']}"))
    return rows, [(every[at], why) for at, why in sorted(refused, key=lambda one: one[0])]


def devices_of(query: Query, setting: Setting) -> float:
    """Devices of the server of a setting."""
    return math.prod(
        int(setting.get(name, getattr(query.question, name)) or 1) for name in ("tp", "pp", "dp")
    )


def _expected(
    one: Figure, rows: Sequence[Mapping[str, Any]], devices: Array, wanted: float
) -> Expected:
    """A figure of every setting, with the standard deviation from its interval.

    A percentile is predicted as the mean until runs correct it; rates of requests, and rates per
    device, have the error of the token rate.

    wanted: mean output tokens per request.
    """
    name = f"{one.latency}_s" if one.latency else "output_tokens_per_s"
    scale, power = np.ones(len(rows)), 1.0
    if one.name == "output_tokens_per_s_per_device":
        scale = 1.0 / devices
    if one.name == "requests_per_s":
        scale = scale / wanted
    if one.name == "interactivity":  # tokens/s of one user
        name, power = "tpot_s", -1.0
    value = _column(rows, name)
    low, high = (_column(rows, end) for end in ends(name))
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.log(high / low) / (2.0 * quantile(LEVEL))
        log = power * np.log(value * scale)
    deviation = np.clip(np.where(np.isfinite(spread), spread, _UNKNOWN), _LEAST, _MOST)
    if one.percentile:
        deviation = np.hypot(deviation, _PERCENTILE)
    return Expected(np.where(np.isfinite(log), log, np.nan), deviation)


def _column(rows: Sequence[Mapping[str, Any]], name: str) -> Array:
    return np.array([_number(row.get(name)) for row in rows])


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else math.nan


def _features(
    axes: Mapping[str, tuple[Any, ...]], settings: Sequence[Setting], rows: Sequence[Any]
) -> Array:
    """Coordinates of the settings, [settings, axes], from their values and their predictions.

    Numbers count by their rank among the values, texts have one axis each; ln of predicted TPOT,
    TTFT and running requests bring settings with the same behaviour close together.
    """
    columns = []
    for name, values in axes.items():
        if len(values) < 2:
            continue
        if PARAMETERS[name].numeric and None not in values and 0 not in values:
            order = {value: at / (len(values) - 1) for at, value in enumerate(sorted(values))}
            columns.append([order[setting[name]] for setting in settings])
        else:  # a default has no rank among numbers
            columns += [
                [0.5 * (setting[name] == value) for setting in settings] for value in values
            ]
    for name in ("tpot_s", "ttft_s", "running"):
        logs = np.log(np.maximum(np.nan_to_num(_column(rows, name), nan=1.0), 1e-9))
        columns.append(list(logs - logs.mean()))
    return np.array(columns, dtype=float).T
