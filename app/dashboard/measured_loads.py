"""Measured runs beside a setup's latencies over the load, each with its prediction as it ran."""

from collections.abc import Mapping
from itertools import groupby

import numpy as np

from app.answers.column import ends
from app.charts.serving import MeasuredLatency
from app.dashboard import caches
from app.dashboard.load_curves import any_load
from app.decide.measured_loads import comparable_loads
from app.planning.families import asking_for
from app.scenario.served_rows import columns, served
from app.scenario.setup import Setup

_LATENCIES = ("ttft", "tpot")


@caches.by_setup(32, any_load)
def measured_beside(setup: Setup) -> Mapping[str, list[MeasuredLatency]]:
    """Latencies of the measured runs of a setup's deployment, by column prefix; {} without any.

    A run is priced with its own lengths and with users who all start at once.
    """
    resolved = caches.deployed(setup)
    found: dict[str, list[MeasuredLatency]] = {}
    for asked, same in groupby(comparable_loads(resolved), key=lambda one: one.asked):
        runs = list(same)
        drawn = asking_for(resolved, **asked)
        result = served(drawn, {"concurrency": np.array([one.concurrency for one in runs])})
        priced = columns(drawn, result, closed=True)
        for name in _LATENCIES:
            reach = zip(*(priced[end] for end in ends(f"{name}_s")), strict=True)
            found.setdefault(name, []).extend(
                MeasuredLatency(
                    one.concurrency, getattr(one, f"{name}_s"), float(low), float(high),
                    f"{one.isl:,}/{one.osl:,} tokens, {one.source}",
                )
                for one, (low, high) in zip(runs, reach, strict=True)
            )  # fmt: skip
    return found
