"""Predictions of each served run with all related runs left out of the fit."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from app.engine_fit.splits import Residuals
from genz_core.calibration.engine_calibration import SCALES

#: The splits that are written: decisions are judged by them.
KEPT = ("configurations held out", "one model left out", "one GPU left out")


def table(residuals: Mapping[str, Residuals]) -> list[dict[str, Any]]:
    """Predicted over measured TTFT and TPOT of each served run by split, one row per run.

    residuals: by split, including all of `KEPT`.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for split in KEPT:
        found = residuals[split]
        for target, log in zip(found.targets, found.logs, strict=True):
            if target.facts["set"] == "serving" and target.metric in SCALES and np.isfinite(log):
                row = rows.setdefault((split, target.run), {"split": split, "id": target.run})
                row[f"{target.metric}_ratio"] = f"{np.exp(log):.5g}"
    whole = 2 + len(SCALES)
    return [row for row in rows.values() if len(row) == whole]
