"""Validation of the operator models that ships: errors of every series, and their summary."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from hardware_db.tables import folder

FILE = folder("profiles") / "operator_validation.csv"
#: {split: meaning}, in the order of tables and charts.
OPERATOR_SPLITS: Mapping[str, str] = {
    "roofline": "datasheet peaks alone, no fitted constant",
    "in sample": "the points that fitted the constants",
    "held-out shapes": "same device, shapes that fitted nothing",
    "sibling": "device left out, constants of its family",
    "unseen family": "whole family left out, typical constants",
    "+ 20 points": "unseen family and 20 points of the device",
    "+ 100 points": "unseen family and 100 points of the device",
}


def operator_validation() -> pd.DataFrame:
    """Errors of the operator models: a row per series (system, operator, format), split and draw.

    Columns: operator, system, family, fmt, split, draw, points, left_out (points of the series
    that beat physics and were dropped), mape, median, p90, bias (as fractions), data and date.
    Written by `python -m hardware_db.fit`.
    """
    return pd.read_csv(FILE)


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Mean errors per operator and split, equal weight for series, draws of each averaged first."""
    columns = ["mape", "median", "p90", "bias"]
    series = table.groupby(["operator", "split", "system", "fmt"], sort=False)[columns].mean()
    grouped = series.groupby(["operator", "split"], sort=False)
    return grouped.mean().join(grouped.size().rename("series")).reset_index()
