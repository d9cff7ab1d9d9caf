"""Rows that cannot be compared, because the measurement is faster than the device allows."""

from __future__ import annotations

import pandas as pd

#: A measured time below the bound by more than this factor is no rounding error: MFU or MBU would
#: exceed one.
BELOW_BOUND = 0.97
REASON = (
    "measured below the bound (MFU or MBU above 1): the run did less work than the priced scenario "
    "(tokens, layers, number format, devices), or its kernels have unknown names"
)


def with_reasons(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a column not_comparable: why a row's ratio is meaningless, "" where it is
    meaningful.

    table: bound_s and measured_s [s].
    """
    below = (table["measured_s"] > 0) & (table["measured_s"] < BELOW_BOUND * table["bound_s"])
    reasons = pd.Series("", table.index, dtype=object)
    reasons[below] = REASON
    return table.assign(not_comparable=reasons)
