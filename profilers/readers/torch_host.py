"""Operators that the host itself ran, of a torch trace without kernels, such as one of a CPU."""

from __future__ import annotations

import numpy as np
import pandas as pd

from profilers.readers.columns import nullable_integers
from profilers.readers.torch_tables import TraceEvents, enclosing, origin_of
from profilers.schema import HOST_OPERATOR_COLUMNS, table
from profilers.timeline import time_spans


def host_operators(events: TraceEvents) -> pd.DataFrame:
    """Operators by name and innermost range, with their time outside of the operators that they
    call; empty for a trace with kernels.
    """
    if events.names or not events.operator_calls.what:
        return table(HOST_OPERATOR_COLUMNS, {})
    calls = events.operator_calls
    origin = origin_of(events)
    thread, start, end = calls.spans(origin)
    parent = time_spans.parents(thread, start, end)
    own_ns = end - start
    inner = parent >= 0
    np.subtract.at(own_ns, parent[inner], (end - start)[inner])
    ranges = [(began, ended) for _, began, ended in events.annotations]
    inside = enclosing(ranges, [*zip(calls.start_us, calls.end_us, strict=True)], origin)
    names = [operator[0] for operator in calls.what]
    rows = pd.DataFrame({"name": names, "range_id": inside, "own_ns": own_ns})
    sums = rows.groupby(["name", "range_id"], as_index=False)["own_ns"].agg(["sum", "size"])
    return table(
        HOST_OPERATOR_COLUMNS,
        {
            "name": sums["name"].to_numpy(),
            "range_id": nullable_integers(sums["range_id"].to_numpy(np.int64)),
            "count": sums["size"].to_numpy(),
            "time_s": np.maximum(sums["sum"].to_numpy(), 0) * 1e-9,
        },
    )
