"""Fit the engine profiles on measured serving and batch points: ``python -m app.engine_fit``.

A maximum-a-posteriori fit of each engine's few constants (host time, kernel floor, rates, waiting)
on the logarithm of predicted / measured, priors from `hardware_db/engines/priors`; then a scale
per recipe (engine, model, system, weight format) that is shrunk by its number of points.  The
result is written back to `hardware_db/engines`, with its errors on what it did not see.
"""

from __future__ import annotations

import csv
import datetime
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import hardware_db
from app import points, validation
from app.point import Point, parse
from app.scenario import Resolved, bulk_format, resolve
from genz_core.accuracy import Accuracy, accuracy
from genz_core.serving import Recipe
from genz_core.types import Array, EngineProfile, Mask
from hardware_db.engine_schema import prior_engine
from hardware_db.intervals import GENERIC, NO_RECIPE

ENGINES = Path(hardware_db.__file__).parent / "engines"


@dataclass(frozen=True, slots=True)
class Constant:
    """One fitted field of an engine profile.

    key: its name in the YAML, unit: what a YAML unit is in SI.  width: prior standard deviation
    of its logarithm.  least: where its logarithm starts when the prior is zero.  most: how far
    its logarithm may rise above the prior; a rate cannot pass what the hardware has.
    """

    field: str
    key: str
    unit: float
    width: float
    least: float = 1e-9
    most: float = 3.0


CONSTANTS = (
    Constant("kernel_floor_s", "kernel_floor_us", 1e-6, 0.4),
    Constant("host_step_s", "host_step_us", 1e-6, 0.7),
    Constant("host_sequence_s", "host_sequence_us", 1e-6, 0.7, 0.5e-6),
    Constant("moe_floor_s", "moe_floor_us", 1e-6, 0.5),
    Constant("expert_s", "expert_us", 1e-6, 0.7),
    Constant("compute_efficiency", "compute_efficiency", 1.0, 0.25, most=0.1),
    Constant("memory_efficiency", "memory_efficiency", 1.0, 0.1, most=0.1),
    Constant("attention_efficiency", "attention_efficiency", 1.0, 0.3, most=0.1),
    Constant("four_bit_efficiency", "four_bit_efficiency", 1.0, 0.4),
    Constant("host_request_s", "host_request_ms", 1e-3, 1.0, 1e-4),
    Constant("queue_steps", "queue_steps", 1.0, 1.0, 0.1),
    Constant("prefill_share", "prefill_share", 1.0, 0.4),
)
_MOST = np.array([constant.most for constant in CONSTANTS])
#: Expected spread of ln(predicted / measured) by what is measured: its weight in the fit.
SPREAD: Mapping[str, float] = {
    "tpot_s": 0.15, "ttft_s": 0.45, "prefill": 0.2, "decode": 0.15, "e2e": 0.15,
}  # fmt: skip
_COLUMN: Mapping[str, str] = {
    "tpot_s": "tpot_s", "ttft_s": "ttft_s",
    "prefill": "prefill_s", "decode": "decode_step_s", "e2e": "e2e_s",
}  # fmt: skip
_STEPS_GRID = np.array([0.03, 0.1, 0.2, 0.35, 0.5, 0.7, 1, 1.4, 2, 3, 4, 6, 8, 12])
_DOUBT = 0.02  # cost of a recipe's steps differing e-fold from the engine's, per point missing
_STEP = 0.05  # of a logarithm, in the numerical derivative
_ROUNDS = 4
_HUBER = 2.0  # standard deviations beyond which a point's weight falls
_SOURCE = '  fit: {title: "Fit on hardware_db/measurements by app/engine_fit.py"}'
_SHRINK = 4.0  # points that a recipe's scale is worth before it is believed


@dataclass(frozen=True, slots=True)
class Target:
    """One measured figure: the row it belongs to and what splits it may be left out by."""

    row: int
    metric: str
    measured_s: float
    facts: Mapping[str, str]


@dataclass(slots=True)
class Data:
    """The measured figures of one engine, its rows grouped for pricing."""

    engine: str
    rows: list[Point]
    groups: list[tuple[Resolved, list[int]]]
    targets: list[Target]

    def logs(self, engine: EngineProfile) -> Array:
        """ln(predicted / measured) of every target under an engine profile."""
        out: list[Mapping[str, str]] = [{}] * len(self.rows)
        for resolved, members in self.groups:
            priced = points.price_group(
                replace(resolved, engine=engine, recipe=None), [self.rows[at] for at in members]
            )
            for at, figures in zip(members, priced, strict=True):
                out[at] = figures
        predicted = [float(out[t.row].get(_COLUMN[t.metric]) or "nan") for t in self.targets]
        return np.log(predicted) - np.log([t.measured_s for t in self.targets])


def load() -> dict[str, Data]:
    """Every measured point by engine."""
    found: dict[str, Data] = {}
    for source in ("published", "serving"):
        for row in validation.measured_rows(source):
            name = hardware_db.load_engine(row["engine"]).name
            data = found.setdefault(name, Data(name, [], [], []))
            at = len(data.rows)
            data.rows.append(parse(row, row["id"]))
            data.targets += [Target(at, m, s, _facts(row)) for m, s in _measured(row)]
    for data in found.values():
        together: dict[Any, list[int]] = defaultdict(list)
        for at, point in enumerate(data.rows):
            together[points.group_of(point)].append(at)
        data.groups = [(resolve(data.rows[m[0]].scenario), m) for m in together.values()]
        _name_recipes(data)
    return found


def _name_recipes(data: Data) -> None:
    """Key every target by what `hardware_db.load_recipe` will be asked for."""
    names: dict[int, dict[str, str]] = {}
    for resolved, members in data.groups:
        key = (
            data.engine,
            str(round(resolved.model.parameters)),
            resolved.system.slug,
            bulk_format(resolved.model),
        )
        tier = resolved.system.latency.tier if resolved.system.latency else "default"
        facts = {"recipe": "|".join(key), "tier": tier, "engine": data.engine}
        facts["named"] = resolved.model.name
        names |= dict.fromkeys(members, facts)
    data.targets = [replace(t, facts={**t.facts, **names[t.row]}) for t in data.targets]


def _measured(row: Mapping[str, str]) -> list[tuple[str, float]]:
    if "phase" in row:
        return [(row["phase"], float(row["measured_s"]))]
    return [(metric, float(row[f"measured_{metric}"])) for metric in ("ttft_s", "tpot_s")]


def _facts(row: Mapping[str, str]) -> dict[str, str]:
    """What a point may be left out by.  A configuration is everything but the load."""
    model, system = row.get("family") or row["model"], row["system"]
    split = "/".join(row.get(k, "") for k in ("tp", "pp", "dp", "ep", "moe_tp", "isl", "osl"))
    recipe = f"{model}|{system}|{row['weights']}"
    set_ = row.get("source", "serving")
    return {
        "model": model,
        "system": system,
        "recipe": recipe,
        "configuration": f"{recipe}|{split}" if "phase" not in row else f"{set_}|{system}|{model}",
        "set": "published" if "phase" in row else "serving",
    }


# ------------------------------------------------------------------------------- the fit


@dataclass(frozen=True, slots=True)
class Fitted:
    """A fit: the profile, its logs and its derivatives at the optimum.

    logs: ln(predicted / measured), [targets].  slopes: their derivatives, [targets, constants].
    at: logarithms of the constants relative to the prior.
    """

    data: Data
    engine: EngineProfile
    prior: EngineProfile
    logs: Array
    slopes: Array
    at: Array

    @property
    def waiting(self) -> Array:
        """Share of each TTFT that is decode steps waited for, [targets]."""
        names = [constant.field for constant in CONSTANTS]
        return self.slopes[:, names.index("queue_steps")]

    def without(self, left_out: Mask) -> Array:
        """The logs of the targets `left_out` when the others alone are fitted (linearised)."""
        kept = ~left_out
        change = _solve(self.logs[kept], self.slopes[kept], _spread(self.data)[kept], self.at)
        return self.logs[left_out] + self.slopes[left_out] @ change


def fit(data: Data, say: Callable[[str], None] = lambda text: None) -> Fitted:
    """Gauss-Newton on the logs with Huber weights, around the engine's prior."""
    prior = prior_engine(data.engine)
    at = np.zeros(len(CONSTANTS))
    for number in range(_ROUNDS):
        engine = _moved(prior, at)
        logs = data.logs(engine)
        slopes = _slopes(data, prior, at, logs)
        change = _solve(logs, slopes, _spread(data), at)
        at = np.minimum(at + np.clip(change, -1.0, 1.0), _MOST)
        say(f"{data.engine} round {number + 1}: median {_median(logs):.1%}")
    engine = _moved(prior, at)
    logs = data.logs(engine)
    return Fitted(data, engine, prior, logs, _slopes(data, prior, at, logs), at)


def _slopes(data: Data, prior: EngineProfile, at: Array, logs: Array) -> Array:
    columns = []
    for number in range(len(CONSTANTS)):
        nudge = at.copy()
        nudge[number] += _STEP
        columns.append((data.logs(_moved(prior, nudge)) - logs) / _STEP)
    return np.stack(columns, axis=1)


def _solve(logs: Array, slopes: Array, spread: Array, at: Array) -> Array:
    """The step to the optimum of the linearised problem, prior at zero."""
    usable = np.isfinite(logs) & np.isfinite(slopes).all(1)
    r, j, s = logs[usable], slopes[usable], spread[usable]
    width = np.array([constant.width for constant in CONSTANTS])
    change = np.zeros(len(CONSTANTS))
    for _ in range(8):
        residual = (r + j @ change) / s
        weight = 1.0 / np.maximum(np.abs(residual) / _HUBER, 1.0) / s**2
        left = (j.T * weight) @ j + np.diag(1.0 / width**2)
        right = -(j.T * weight) @ r - at / width**2
        change = np.linalg.solve(left, right)
    return change


def _moved(prior: EngineProfile, at: Array) -> EngineProfile:
    fields = {
        constant.field: max(getattr(prior, constant.field), constant.least) * float(np.exp(move))
        for constant, move in zip(CONSTANTS, at, strict=True)
    }
    return replace(prior, **fields)


def _spread(data: Data) -> Array:
    """Expected spread of each target; a recipe of many points counts as its square root of them."""
    sizes: dict[str, int] = defaultdict(int)
    for target in data.targets:
        sizes[target.facts["recipe"] + target.metric] += 1
    return np.array(
        [
            SPREAD[t.metric] * max(sizes[t.facts["recipe"] + t.metric], 1) ** 0.25
            for t in data.targets
        ]
    )


def _median(logs: Array) -> float:
    return float(np.nanmedian(np.abs(np.expm1(logs))))


# ------------------------------------------------------------------------------- recipes


def recipes(
    targets: Sequence[Target], logs: Array, waiting: Array, kept: Mask
) -> dict[str, Recipe]:
    """The corrections of every recipe among the kept serving points, shrunk n / (n + 4).

    waiting: share of each TTFT that is decode steps waited for.  A recipe's steps are chosen on
    a grid, with the scale that then remains; both are pulled towards one where points are few.
    """
    members: dict[tuple[str, str], list[int]] = defaultdict(list)
    for at in (int(row) for row in np.flatnonzero(kept & np.isfinite(logs))):
        if targets[at].facts["set"] == "serving":
            members[targets[at].facts["recipe"], targets[at].metric].append(at)
    found: dict[str, Recipe] = {}
    for (name, metric), rows in members.items():
        here = found.get(name, Recipe())
        belief = len(rows) / (len(rows) + _SHRINK)
        if metric == "tpot_s":
            scale = float(np.exp(-np.median(logs[rows]) * belief))
            found[name] = replace(here, tpot_scale=scale, points=len(rows))
        else:
            steps, scale = _first_token_recipe(logs[rows], waiting[rows], belief)
            found[name] = replace(here, queue_scale=steps, ttft_scale=scale)
    return found


def _first_token_recipe(logs: Array, waiting: Array, belief: float) -> tuple[float, float]:
    """Scale of the steps waited for, and of the whole TTFT, of one recipe."""

    def cost(steps: float) -> tuple[float, float, float]:
        moved = logs + _waited(waiting, steps)
        scale = -float(np.median(moved)) * belief
        doubt = _DOUBT * abs(float(np.log(steps))) * (1.0 - belief) / belief
        return float(np.abs(moved + scale).mean()) + doubt, steps, scale

    _, steps, scale = min(cost(steps) for steps in _STEPS_GRID)
    return float(steps**belief), float(np.exp(scale))


def _waited(waiting: Array, steps: float) -> Array:
    """Change of ln TTFT when the share that waits is scaled."""
    return np.log1p(np.clip(waiting, 0.0, 0.98) * (steps - 1.0))


def with_recipes(
    targets: Sequence[Target], logs: Array, waiting: Array, known: Mapping[str, Recipe]
) -> Array:
    """The logs after each target's recipe, where it has one."""
    moved = logs.copy()
    for at, target in enumerate(targets):
        recipe = known.get(target.facts["recipe"])
        if recipe is not None and target.metric == "tpot_s":
            moved[at] += np.log(recipe.tpot_scale)
        elif recipe is not None and target.metric == "ttft_s":
            moved[at] += np.log(recipe.ttft_scale)
            moved[at] += _waited(waiting[at : at + 1], recipe.queue_scale)[0]
    return moved


# ------------------------------------------------------------------------------- what it reaches


def splits(fitted: Sequence[Fitted]) -> list[dict[str, Any]]:
    """Errors in sample and on what was left out, by metric; recipes from the kept points only."""
    rows = []
    for label, by in (
        ("in sample", None),
        ("configurations held out", "configuration"),
        ("one model left out", "model"),
        ("one GPU left out", "system"),
    ):
        logs, targets = _held_out(fitted, by)
        for metric in SPREAD:
            chosen = np.array([t.metric == metric for t in targets])
            rows.append({"split": label, "metric": metric, **_figures(logs[chosen])})
        published = np.array([t.facts["set"] == "published" for t in targets])
        rows.append({"split": label, "metric": "published, all", **_figures(logs[published])})
    return rows


def _held_out(fitted: Sequence[Fitted], by: str | None) -> tuple[Array, list[Target]]:
    everything, targets = [], []
    for one in fitted:
        members = one.data.targets
        logs, waiting = one.logs.copy(), one.waiting
        if by is None:
            everyone = np.ones(len(members), dtype=bool)
            logs = with_recipes(members, logs, waiting, recipes(members, logs, waiting, everyone))
        else:
            for out in _folds([t.facts[by] for t in members], 5 if by == "configuration" else 0):
                known = recipes(members, one.logs, waiting, ~out)
                chosen = [members[int(at)] for at in np.flatnonzero(out)]
                logs[out] = with_recipes(chosen, one.without(out), waiting[out], known)
        everything.append(logs)
        targets += members
    return np.concatenate(everything), targets


def _folds(labels: Sequence[str], folds: int) -> list[Mask]:
    """Masks of what is left out together: a label each, or labels dealt into folds."""
    unique = sorted(set(labels))
    order = np.random.default_rng(0).permutation(len(unique))
    fold_of = {label: int(order[at]) % folds if folds else at for at, label in enumerate(unique)}
    of = np.array([fold_of[label] for label in labels])
    return [of == fold for fold in np.unique(of)]


def _figures(logs: Array) -> dict[str, float]:
    found: Accuracy = accuracy(np.exp(logs), np.ones(len(logs)))
    row = found.row()
    return {
        "points": row["points"],
        **{
            name: round(100 * row[name], 1)
            for name in ("mape", "median", "p90", "bias", "within_10", "within_20", "within_30")
        },
    }


# ------------------------------------------------------------------------------- intervals


LEVEL = 0.8
_LEAST_POINTS = 10


def interval_table(targets: Sequence[Target], logs: Array) -> list[dict[str, Any]]:
    """Quantiles of measured / predicted on held-out points, by metric, tier and engine.

    engine "*" pools all engines; a cell of fewer than ten points states nothing.
    """
    cells: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for target, log in zip(targets, logs, strict=True):
        if np.isfinite(log):
            for engine in (target.facts["engine"], "*"):
                cells[target.metric, target.facts["tier"], engine].append(-float(log))
    tail = (1.0 - LEVEL) / 2.0
    return [
        {
            "metric": metric,
            "tier": tier,
            "engine": engine,
            "low": round(float(np.exp(np.quantile(values, tail))), 4),
            "high": round(float(np.exp(np.quantile(values, 1.0 - tail))), 4),
            "points": len(values),
        }
        for (metric, tier, engine), values in sorted(cells.items())
        if len(values) >= _LEAST_POINTS
    ]


def as_generic(everything: Sequence[Fitted]) -> tuple[list[Target], Array]:
    """Every figure as the generic engine predicts it, which no point fitted.

    It stands for all engines that nobody measured.  Serving figures have no recipe then.
    """
    engine = hardware_db.load_engine(GENERIC)
    targets = [_without_recipe(t, GENERIC) for one in everything for t in one.data.targets]
    return targets, np.concatenate([one.data.logs(engine) for one in everything])


def as_strangers(everything: Sequence[Fitted]) -> tuple[list[Target], Array]:
    """Serving figures of models that neither the engine's fit nor a recipe saw."""
    logs, targets = _held_out(everything, "model")
    serving = np.array([t.facts["set"] == "serving" for t in targets])
    kept = [_without_recipe(t, t.facts["engine"]) for t in targets if t.facts["set"] == "serving"]
    return kept, logs[serving]


def _without_recipe(target: Target, engine: str) -> Target:
    served = target.facts["set"] == "serving"
    name = f"{target.metric}{NO_RECIPE}" if served else target.metric
    return replace(target, metric=name, facts={**target.facts, "engine": engine})


def coverage_table(targets: Sequence[Target], logs: Array) -> list[dict[str, Any]]:
    """Share of points inside intervals that were drawn from other configurations' points."""
    folds = _folds([t.facts["configuration"] for t in targets], 5)
    inside, width = np.full(len(targets), np.nan), np.full(len(targets), np.nan)
    for out in folds:
        kept = [targets[int(at)] for at in np.flatnonzero(~out)]
        cells = {
            (row["metric"], row["tier"], row["engine"]): row
            for row in interval_table(kept, logs[~out])
        }
        for at in (int(row) for row in np.flatnonzero(out & np.isfinite(logs))):
            facts = targets[at].facts
            keys = [(targets[at].metric, facts["tier"], name) for name in (facts["engine"], "*")]
            cell = next((cells[key] for key in keys if key in cells), None)
            if cell is not None:
                inside[at] = cell["low"] <= np.exp(-logs[at]) <= cell["high"]
                width[at] = (cell["high"] - cell["low"]) / 2.0
    rows = []
    for metric in SPREAD:
        for tier in ("measured", "sibling", "default"):
            chosen = np.array(
                [t.metric == metric and t.facts["tier"] == tier for t in targets]
            ) & np.isfinite(inside)
            if chosen.any():
                rows.append(
                    {
                        "metric": metric,
                        "tier": tier,
                        "points": int(chosen.sum()),
                        "coverage %": round(100 * float(inside[chosen].mean()), 1),
                        "median half-width %": round(100 * float(np.median(width[chosen])), 1),
                        "median error %": round(100 * _median(logs[chosen]), 1),
                    }
                )
    return rows


# ------------------------------------------------------------------------------- writing


def write_engine(fitted: Fitted, day: datetime.date) -> None:
    """Put the fitted constants into the engine's YAML, each with the points behind it."""
    path = ENGINES / f"{fitted.data.engine}.yaml"
    text = path.read_text(encoding="utf-8")
    if "  fit:" not in text:
        text = text.replace(
            "sources:\n",
            'sources:\n  fit: {title: "Fit on hardware_db/measurements by app/engine_fit.py"}\n',
        )
    count = int(np.isfinite(fitted.logs).sum())
    for constant in CONSTANTS:
        value = getattr(fitted.engine, constant.field) / constant.unit
        fact = (
            f"{constant.key}: {{value: {value:.4g}, source: fit, kind: derived, "
            f'note: "fit on {count} measured figures, {day}"}}'
        )
        pattern = re.compile(rf"^{constant.key}: .*$", re.MULTILINE)
        text = (
            pattern.sub(fact, text) if pattern.search(text) else text.rstrip("\n") + f"\n{fact}\n"
        )
    path.write_text(text, encoding="utf-8")


def write_recipes(fitted: Sequence[Fitted], path: Path) -> int:
    """The corrections of every recipe with at least three points, as a CSV."""
    names = ("engine", "parameters", "system", "weights")
    rows = []
    for one in fitted:
        members = one.data.targets
        everyone = np.ones(len(members), dtype=bool)
        for name, recipe in recipes(members, one.logs, one.waiting, everyone).items():
            if recipe.points >= 3:
                row: dict[str, Any] = dict(zip(names, name.split("|"), strict=True))
                row |= {
                    "model": min(t.facts["named"] for t in members if t.facts["recipe"] == name),
                    "tpot_scale": round(recipe.tpot_scale, 4),
                    "ttft_scale": round(recipe.ttft_scale, 4),
                    "queue_scale": round(recipe.queue_scale, 4),
                    "points": recipe.points,
                }
                rows.append(row)
    rows.sort(key=lambda row: [row[name] for name in names])
    with path.open("w", newline="", encoding="utf-8") as handle:
        writer = csv.DictWriter(handle, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    return len(rows)


def main() -> None:
    """Fit every engine, write its YAML, the recipes and the table of errors."""
    day = datetime.date.today()
    fitted = [fit(data, print) for data in load().values()]
    for one in fitted:
        write_engine(one, day)
    print(write_recipes(fitted, ENGINES / "recipes.csv"), "recipes")
    table = splits(fitted)
    from app.tables import Format, render, to_csv

    held_out, targets = _held_out(fitted, "configuration")
    tables = {
        "fit_errors": table,
        "intervals": interval_table(targets, held_out)
        + interval_table(*as_strangers(fitted))
        + [row for row in interval_table(*as_generic(fitted)) if row["engine"] == GENERIC],
        "coverage": coverage_table(targets, held_out),
    }
    for name, rows in tables.items():
        dated = [{**row, "date": str(day)} for row in rows]
        (ENGINES / f"{name}.csv").write_text(to_csv(dated) + "\n", encoding="utf-8")
        print(f"\n{name}\n" + render(rows, Format.text))


if __name__ == "__main__":
    main()
