"""How far off an operator's time may be, from the class and tier of the constants that price it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.scenario.intervals import Ranged, never_measured
from genz_core.common.memo import ByIdentity
from genz_core.graphs import Op
from genz_core.latency import Pricer
from genz_core.steps.step_estimate import StepEstimate
from hardware_db.intervals import Interval, load_operator_interval

Table = dict[str, list[Any]]
_TABLES: ByIdentity[Table] = ByIdentity(8)


def operator_table(step: StepEstimate, config: int = 0) -> Table:
    """`StepEstimate.table` with `low_s` and `high_s` of all runs; NaN where not validated.

    The latest tables are kept, so a table must not be changed.
    """
    return _TABLES.get(lambda: _operator_table(step, config), step, values=config)


def _operator_table(step: StepEstimate, config: int) -> Table:
    table: Table = step.table(config)
    pricer = Pricer(step.system, step.engine)
    ops = (step.op(row, config) for row in range(len(step.graph.ops)))
    ranges = [of_operator(pricer, op) for op in ops]
    columns = (table["predicted_s"], ranges, table["bound_s"])
    rows = [Ranged.of(*row) for row in zip(*columns, strict=True)]
    return table | {"low_s": [row.low for row in rows], "high_s": [row.high for row in rows]}


def of_operator(pricer: Pricer, op: Op) -> Interval | None:
    """The interval of one run of an operator.

    None where its number format uses the constants of another one, where it is priced with the
    engine's rate of 4-bit products, which no kernel benchmark measured, or on a kind of device that
    was never measured.
    """
    constants = pricer.constants(op)
    if constants.borrowed or constants.engine_rate or never_measured(pricer.system):
        return None
    return load_operator_interval(constants.operator, constants.fit, pricer.engine.name)


def of_rows(table: Mapping[str, Sequence[Any]]) -> list[Ranged]:
    """The latency of each row of `operator_table`, over all its runs."""
    return list(map(Ranged, table["predicted_s"], table["low_s"], table["high_s"]))


def by_class(step: StepEstimate, config: int = 0) -> dict[str, Ranged]:
    """A step's time by operator class, with "host" for host and pipeline; the entries sum to it.

    The correction by measured runs scales all time beyond the operators' bounds equally.
    """
    table, learned = operator_table(step, config), step.learned_factor(config)
    pairs = zip(of_rows(table), table["bound_s"], strict=True)
    latencies = (latency.beyond(float(bound), learned) for latency, bound in pairs)
    rows = list(zip(table["class"], latencies, strict=True))
    classes = {
        kind: Ranged.total(latency for name, latency in rows if name == kind)
        for kind in dict.fromkeys(table["class"])
    }
    host_s = float(step.host_s[config] + step.pipeline_s[config])
    return classes | {"host": Ranged(host_s * learned)}
