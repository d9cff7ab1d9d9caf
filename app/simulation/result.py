"""The result of `ridgeline.simulate`: figures by name, every request, and a short repr."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from app.question.query import Query
from app.scenario.gate import refuse_meaningless_for
from app.scenario.results import DocumentTable
from app.scenario.scenario import resolve
from app.simulation import rows
from app.simulation.run import Run, run
from app.simulation.tier_worth import Worth
from app.simulation.tier_worth import worth as tier_worth
from app.wording import quantities
from genz_core.common.progress import Cancel, Progress, never, silent
from genz_core.serving.simulation import Simulation

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False, eq=False)
class Simulated(DocumentTable):
    """A simulation of individual requests.

    Figures by name, SI units: requests, ended, refused, seconds, requests_per_s,
    output_tokens_per_s, output_tokens_per_s_per_device, and for each of queue, ttft, tpot, itl and
    e2e *_mean_s, *_p50_s, *_p90_s, *_p95_s, *_p99_s; good_requests_per_s and good_share if targets
    were given.  Latencies have no intervals: no measurement has validated them.

    run: the question and the simulation itself, with arrays [requests] of all requests sent and the
    state over time; figures are computed from the counted requests (`simulation.counted`).
    worth: the value of each cache tier and router, if requested; else None.
    """

    run: Run
    worth: Worth | None = None

    def __len__(self) -> int:
        return self.run.requests

    @property
    def simulation(self) -> Simulation:
        """The simulation with its arrays [requests]."""
        return self.run.simulation

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Mean and percentiles [s], one row per latency."""
        return rows.latency_rows(self.run)

    @cached_property
    def _document(self) -> dict[str, Any]:
        more = {"worth": self.worth.document()} if self.worth else {}
        return {**rows.document(self.run), **more}

    def to_dataframe(self) -> pd.DataFrame:
        """One row per request: arrival, lengths, latencies and rank, SI units."""
        import pandas as pd

        return pd.DataFrame(rows.request_columns(self.run))

    def over_time(self) -> pd.DataFrame:
        """Running and waiting requests, share of the KV cache in use and preemptions over time."""
        import pandas as pd

        return pd.DataFrame(dict(self.simulation.series))

    def _repr_html_(self) -> str:
        import pandas as pd

        return str(pd.DataFrame(self.rows).to_html(index=False, border=0))

    def __repr__(self) -> str:
        named = self._document
        refused = f", {named['refused']:,} refused" if named["refused"] else ""
        lines = {
            "model": named["model"],
            "system": f"{named['devices']} x {named['system']}, engine {named['engine']}",
            "requests": f"{named['requests']:,} in {quantities.seconds(named['seconds'])}{refused}",
            **{label: _percentiles(named, name) for name, label in rows.LATENCIES.items()},
            "throughput": f"{quantities.request_rate(named['requests_per_s'])}, "
            f"{quantities.tokens_rate(named['output_tokens_per_s'])} out",
        }
        if "good_share" in named:
            lines["goodput"] = (
                f"{quantities.request_rate(named['good_requests_per_s'])}, "
                f"{quantities.percent(named['good_share'])} meet the targets"
            )
        return "\n".join(f"{name:<11}{words}" for name, words in lines.items())


def _percentiles(named: Mapping[str, Any], name: str) -> str:
    words = (f"{what} {quantities.seconds(named[f'{name}_{what}_s'])}" for what in rows.STATISTICS)
    return ", ".join(words)


def simulate(
    query: Query,
    progress: Progress = silent,
    cancelled: Cancel = never,
    *,
    worth: bool = False,
) -> Simulated:
    """Simulate the requests of a question one by one.

    worth: also simulate with fewer cache tiers, and with other routers.

    Raises:
        InvalidValue: the worth of cache tiers, without tiers.
        RidgelineError: as `app.scenario.scenario.resolve` and `app.simulation.run.run`.
        Cancelled: `cancelled` returned True.
    """
    resolved = resolve(query.question, query.objects)
    refuse_meaningless_for(resolved)
    if not worth:
        return Simulated(run(resolved, query.objects, progress, cancelled))
    found = tier_worth(resolved, query.objects, progress, cancelled)
    return Simulated(found.whole, found)
