"""Errors of the latency models on shapes, devices and families that were held out of the fit.

    roofline         datasheet peaks alone, on the held-out shapes: what the models improve on
    in sample        constants and points of the same shapes of the same device
    held-out shapes  constants of the device, on shapes not used in the fit
    sibling          constants of the rest of its family, with its own datasheet
    unseen family    typical constants of all other families
    + 20 points      the prior of the row above and 20 points of the device (+ 100 likewise)

Every row is a series (device, class, format); rows of the last four splits never saw the device.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from genz_core.calibration.error_metrics import error_summary
from genz_core.calibration.operator_calibration import fit
from genz_core.latency.measured_operators import price_s, roofline_s
from genz_core.latency.parameters import Parameters
from genz_core.latency.profile import Fit, Tier
from genz_core.types import Array
from hardware_db.fit.regression import defaults, fit_poles, spread_over_families
from hardware_db.fit.samples import SplitSeries, seed
from hardware_db.profile_schema import FittedProfile, combine
from hardware_db.profiles.typical import between, share_of_wide

#: {split: tier of the intervals derived from it}.
TIERS: Mapping[str, Tier] = {
    "held-out shapes": "measured",
    "sibling": "sibling",
    "unseen family": "default",
}
QUANTILES = (0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95)
#: A device of each family, used to judge families that were not measured.
REPRESENTATIVES = ("a100_sxm", "b200_sxm", "b60", "h100_sxm", "l40s", "rtx_pro_6000_server")
_DRAWS = 2
_LEAST_FEW_SHOT = 100
_Rows = Iterator[dict[str, object]]


@dataclass(frozen=True, slots=True)
class FormatGroup:
    """All series of one class and format, with {device: constants}."""

    samples: Sequence[SplitSeries]
    own: Mapping[str, Parameters]


def evaluate(group: FormatGroup, few: Sequence[int] = (20, 100)) -> pd.DataFrame:
    """Errors of a format: a row per series and split, ln(measured / predicted) in `residuals`.

    few: numbers of points of the few-shot splits.
    """
    rows = [row for sample in group.samples for row in _on_device(sample, group)]
    for family in sorted({sample.family for sample in group.samples}):
        rows += _without_family(family, group, few)
    return pd.DataFrame(rows)


def _on_device(sample: SplitSeries, group: FormatGroup) -> _Rows:
    """Rows of the splits that use measurements of the device or of its family."""
    own = group.own[sample.series.device]
    yield _row(sample, "roofline", sample.test, None)
    yield _row(sample, "in sample", sample.train, own)
    yield _row(sample, "held-out shapes", sample.test, own)
    siblings = [
        FittedProfile(other.slug, other.family, (), {sample.key: group.own[other.series.device]},
                 {sample.key: Fit("measured")})
        for other in group.samples
        if other.family == sample.family and other.slug != sample.slug
    ]  # fmt: skip
    if siblings:
        typical = combine(siblings, sample.family, "sibling").parameters[sample.key]
        yield _row(sample, "sibling", sample.test, typical)


def _without_family(family: str, group: FormatGroup, few: Sequence[int]) -> _Rows:
    """Rows of the splits that leave a family out, for its representatives."""
    others = [sample for sample in group.samples if sample.family != family]
    targets = [
        sample
        for sample in group.samples
        if sample.family == family and sample.series.device in REPRESENTATIVES
    ]
    if not others or not targets:
        return
    poles = fit_poles(others, [defaults(others[0].series.operator)])
    for sample in targets:
        share = share_of_wide(sample.series.operator, sample.device)
        typical = between(poles["narrow"], poles["wide"], share)
        yield _row(sample, "unseen family", sample.test, typical)
        if len(sample.train) >= _LEAST_FEW_SHOT:
            spread = spread_over_families(typical, others, group.own)
            for points in few:
                yield from _few_shot(sample, points, typical, spread)


def _few_shot(
    sample: SplitSeries, points: int, prior: Parameters, spread: Mapping[str, float]
) -> _Rows:
    """Rows of MAP fits to `points` of the training shapes, several draws."""
    for draw in range(_DRAWS):
        chosen = spread_over_latency(sample.train, points, seed(sample.series) + draw)
        solution = fit(sample.points(chosen), sample.system, prior, spread=spread, prior=True)
        yield _row(sample, f"+ {points} points", sample.test, solution.parameters, draw)


def spread_over_latency(table: pd.DataFrame, points: int, draw: int) -> pd.DataFrame:
    """`points` rows drawn evenly over the quintiles of latency, as recommended for measuring."""
    rng = np.random.default_rng(draw)
    order = np.argsort(table["latency_s"].to_numpy(), kind="stable")
    fifths = np.array_split(order, 5)
    drawn = [rng.choice(part, min(len(part), -(-points // 5)), replace=False) for part in fifths]
    return table.iloc[np.sort(np.concatenate(drawn))[:points]]


def _row(
    sample: SplitSeries,
    split: str,
    table: pd.DataFrame,
    parameters: Parameters | None,
    draw: int = 0,
) -> dict[str, object]:
    """Errors of one prediction; of the roofline where `parameters` is None."""
    points = sample.points(table)
    if parameters is None:
        predicted = roofline_s(points, sample.system)
    else:
        predicted = price_s(points, sample.system, parameters)
    errors = error_summary(predicted, points.measured_s)
    return {
        "operator": sample.series.operator,
        "system": sample.slug,
        "family": sample.family,
        "fmt": sample.series.fmt,
        "split": split,
        "draw": draw,
        "points": errors.points,
        "left_out": sample.impossible,
        "mape": errors.mape,
        "median": errors.median,
        "p90": errors.p90,
        "bias": errors.bias,
        "residuals": np.log(points.measured_s / predicted),
    }


# ------------------------------------------------------------------------------- summaries


def residual_quantiles(table: pd.DataFrame) -> dict[str, dict[str, dict[str, object]]]:
    """Quantiles of the log residuals by class and tier, equal weight for every series."""
    result: dict[str, dict[str, dict[str, object]]] = {}
    for operator, rows in table[table["split"].isin(TIERS)].groupby("operator", sort=True):
        for split, tier in TIERS.items():
            series = rows[rows["split"] == split]
            if len(series):
                entry = _pooled(list(series["residuals"]))
                coverage = _coverage_elsewhere(series)
                if coverage is not None:
                    entry["coverage_of_80"] = round(coverage, 3)
                result.setdefault(str(operator), {})[tier] = entry
    return result


def _coverage_elsewhere(series: pd.DataFrame) -> float | None:
    """Share of a system's points inside the 80 % interval of the other systems' points."""
    shares = []
    for system, own in series.groupby("system"):
        others = list(series.loc[series["system"] != system, "residuals"])
        if not others:
            return None
        low, high = _quantiles(others, (0.10, 0.90))
        shares += [float(np.mean((part >= low) & (part <= high))) for part in own["residuals"]]
    return float(np.mean(shares))


def _pooled(series: Sequence[Array]) -> dict[str, object]:
    """Counts and quantiles of the residuals of several series."""
    quantiles = _quantiles(series, QUANTILES)
    return {
        "series": len(series),
        "points": sum(len(part) for part in series),
        "quantiles": {
            level: round(float(value), 4) for level, value in zip(QUANTILES, quantiles, strict=True)
        },
    }


def _quantiles(series: Sequence[Array], levels: Sequence[float]) -> Array:
    """Quantiles of values, [levels], with the same weight for every series."""
    values = np.concatenate(series)
    weights = np.concatenate([np.full(len(part), 1.0 / len(part)) for part in series])
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    return np.interp(levels, reached, values[order])
