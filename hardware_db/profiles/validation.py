"""Errors of the shipped operator models: of every series, and a summary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from hardware_db.tables import folder, read_rows

FILE = folder("profiles") / "operator_validation.csv"
#: {split: meaning}, in the order of tables and charts.
OPERATOR_SPLITS: Mapping[str, str] = {
    "roofline": "datasheet peaks alone, no fitted constants",
    "in sample": "the points used to fit the constants",
    "held-out shapes": "same device, shapes not used in the fit",
    "held-out, alone": "the same, with the correction (trees or tables) for kernels that run alone",
    "sibling": "device left out of the fit, constants of its family",
    "unseen family": "whole family left out of the fit, typical constants",
    "+ 20 points": "unseen family plus 20 points of the device",
    "+ 100 points": "unseen family plus 100 points of the device",
}
_COUNTS = ("draw", "points", "left_out")
_ERRORS = ("mape", "median", "p90", "bias")


def validation_rows() -> list[dict[str, Any]]:
    """Errors of the operator models: one row per series (system, operator, format), split and draw.

    Columns: operator, system, family, fmt, split, draw, points, left_out (points dropped because
    they are faster than the device's bound), mape, median, p90, bias (fractions), data and date.
    Written by `python -m hardware_db.fit`; empty where it was never run.
    """
    return [
        row
        | {name: int(row[name]) for name in _COUNTS}
        | {name: float(row[name]) for name in _ERRORS}
        for row in read_rows("profiles", FILE.stem)
    ]


def summary(validation: pd.DataFrame) -> pd.DataFrame:
    """Mean errors of a table of `validation_rows` per operator and split.

    Series have equal weight; the draws of each are averaged first.  Columns: operator, split, mape,
    median, p90, bias (fractions), series (their number).
    """
    keys = ["operator", "split", "system", "fmt"]
    series = validation.groupby(keys, sort=False)[list(_ERRORS)].mean()
    grouped = series.groupby(["operator", "split"], sort=False)
    return grouped.mean().join(grouped.size().rename("series")).reset_index()
