"""Results of the Python module: figures by name, short reprs, data frames, HTML in notebooks.

The functions take names or objects and price them through the same scenario as the command line
and the dashboard; the classes only present the results.  A text is a name and opens no file, unless
the caller first resolves it with `app.scenario.local_files.sources`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from app.answers.column import ends
from app.answers.columns import COLUMNS
from app.answers.table import Table, TableFormat, render
from app.question.query import Query
from app.scenario import served_rows, summary
from app.scenario.gate import refuse_meaningless_for
from app.scenario.scenario import Resolved, estimate_resolved
from app.wording import quantities
from genz_core.errors import InvalidValue
from genz_core.limits import short
from genz_core.serving import ServingEstimate
from genz_core.validity import OnError, raise_for_status
from genz_core.workload import OUT_OF_MEMORY

if TYPE_CHECKING:
    import pandas as pd

    import genz_core
    from genz_core.steps.step_estimate import StepEstimate

_SIZES = ("batch", "isl", "osl")
_MOST_SHOWN = 8  # most rows in a repr


class ResultTable:
    """Rows that print as a table; `rows` are the rows of the command line's JSON."""

    @property
    def rows(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.rows)

    def to_dataframe(self) -> pd.DataFrame:
        """The rows as a data frame, SI units."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    def _repr_html_(self) -> str:
        return str(self.to_dataframe().to_html(index=False, max_rows=40, border=0))


class DocumentTable(ResultTable):
    """Rows of a document whose entries are attributes: `found.notes` is `to_dict()["notes"]`."""

    @cached_property
    def _document(self) -> dict[str, Any]:
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """The document that the command of the same name prints with --json."""
        return dict(self._document)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._document:
            raise AttributeError(f"the answer has no {name!r}; it has {', '.join(self._document)}")
        return self._document[name]

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self._document]


class ColumnTable(ResultTable):
    """Arrays [rows] by name, each computed once; a row is a slice of them."""

    @property
    def table(self) -> Table:
        """The figures as columns, SI units."""
        raise NotImplementedError

    @property
    def rows(self) -> list[dict[str, Any]]:
        return self.table.rows()

    def __len__(self) -> int:
        return self.table.length

    def to_dataframe(self) -> pd.DataFrame:
        """The columns as a data frame, SI units."""
        return self.table.to_dataframe()


class FiguresByName(ColumnTable):
    """Columns as attributes: a number for one configuration, otherwise an array [rows]."""

    scalar: bool

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "table":
            raise AttributeError(name)
        if name not in self.table:
            raise AttributeError(f"no figure {name!r}; there are {', '.join(self.table)}")
        values = self.table[name]
        return values.tolist()[0] if self.scalar else values

    def to_dict(self) -> dict[str, Any]:
        """The figures of one configuration: a row of what the command prints with --json."""
        if not self.scalar:
            raise InvalidValue(
                f"{len(self)} configurations have no single value: use to_dataframe()"
            )
        return self.table.row()

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self.table]


# ------------------------------------------------------------------------------- static batches


def _whole(varied: Mapping[str, Any]) -> dict[str, Any]:
    """Values of parameters, as integers where all of one are."""
    return {
        name: values.astype(int) if np.all(values == np.round(values)) else values
        for name, values in varied.items()
    }


@dataclass(frozen=True, repr=False, eq=False)
class Estimate(FiguresByName):
    """A priced static batch.

    Figures by name, floats, or arrays [configurations] where an argument was one, SI units:
    ttft_s, tpot_s, e2e_s with *_low_s and *_high_s (80 % interval), bound_ttft_s, bound_tpot_s,
    output_tokens_per_s, output_tokens_per_s_per_device, usd_per_million_tokens,
    joules_per_token, fits, memory_bytes_per_device, status, message; `to_dict` has them all.

    engine_estimate: the engine's own, with every array.
    """

    resolved: Resolved
    engine_estimate: genz_core.Estimate
    scalar: bool
    varied: Mapping[str, Any]

    @cached_property
    def table(self) -> Table:
        """The figures as columns, with sizes and degrees that arrays put in place of the
        scenario's.
        """
        figures = summary.facts(self.resolved, self.engine_estimate)
        return Table({**figures.columns, **_whole(self.varied)}, figures.length)

    def operators(self, phase: str = "decode", config: int = 0) -> pd.DataFrame:
        """The operators of a "prefill" or "decode" step: counts, bound, prediction, interval.

        config: index of the configuration, from 0.
        """
        import pandas as pd

        return pd.DataFrame(summary.operator_rows(self._step(phase, config), config))

    def explain(self, operator: str, phase: str = "decode", config: int = 0) -> dict[str, float]:
        """Seconds of the terms that sum to the price of one run of an operator, by cause.

        Raises:
            InvalidValue: no operator of that name; those of the step are listed.
        """
        step = self._step(phase, config)
        names = [op.name for op in step.graph.ops]
        if operator not in names:
            raise InvalidValue(f"no operator {operator!r} in {phase}; it has {', '.join(names)}")
        terms = step.explain(names.index(operator), config).terms
        return {cause: float(seconds) for cause, seconds in terms.items() if seconds}

    def _step(self, phase: str, config: int) -> StepEstimate:
        if phase not in ("prefill", "decode"):
            raise InvalidValue(f"{phase!r} is not a phase; choose prefill or decode")
        if not 0 <= config < len(self):
            raise InvalidValue(f"config = {config}: give 0 to {len(self) - 1}")
        return summary.step_of(self.engine_estimate, phase)

    def __repr__(self) -> str:
        if not self.scalar:
            names = ("status", *self.varied, "ttft_s", "tpot_s", "latency_s", "sequences_per_s")
            return preview(self.table, names)
        row, precision = self.to_dict(), self.resolved.model.precision
        weights = " and ".join(sorted(set(precision.weights.values())))
        lines = {
            "model": f"{row['model']}, {weights} weights, {precision.kv} cache",
            "system": f"{row['devices']} x {row['system']}, engine {row['engine']}",
            **_figures(row),
            "memory": f"{quantities.size(row['memory_bytes_per_device'])} a device of "
            f"{quantities.size(row['usable_bytes'])}",
            "cost": _cost(row),
            "status": row["status"],
        }
        return "\n".join(f"{name:<11}{words}" for name, words in lines.items())


def _figures(row: Mapping[str, Any]) -> dict[str, str]:
    """Load, latencies and throughput of a row, in words."""
    read = f"{row['batch']:,} x {row['isl']:,} tokens in"
    if "latency_s" in row:
        rate = f"{short(row['sequences_per_s'])} sequences/s"
        return {"batch": read, "latency": _latency(row, "latency_s"), "throughput": rate}
    return {
        "batch": f"{read}, {row['osl']:,} out",
        **{COLUMNS[name].head: _latency(row, name) for name in ("ttft_s", "tpot_s", "e2e_s")},
        "throughput": quantities.tokens_rate(row["output_tokens_per_s"]),
    }


def _latency(row: Mapping[str, Any], name: str) -> str:
    words = quantities.seconds(row[name])
    if math.isnan(row[name]):
        return words
    if f"bound_{name}" in row:
        words += f", bound {quantities.seconds(row[f'bound_{name}'])}"
    low, high = ends(name)
    return f"{words}, 80 %: {quantities.span(row[low], row[high])}"


def _cost(row: Mapping[str, Any]) -> str:
    cost = row["usd_per_million_tokens"]
    if cost is None or math.isnan(cost):
        return "no price"
    low, high = row["usd_per_million_tokens_low"], row["usd_per_million_tokens_high"]
    trust = "" if math.isnan(low) else f" ({quantities.dollars(low)} to {quantities.dollars(high)})"
    return f"{quantities.dollars(cost)} per 1M tokens{trust}"


def preview(table: Table, names: Sequence[str]) -> str:
    """The first rows as aligned text, with the number of rows."""
    return first_rows(table.only(names).part(slice(_MOST_SHOWN)).rows(), table.length)


def first_rows(rows: Sequence[Mapping[str, Any]], length: int) -> str:
    """Rows as aligned text, with their number if there are more."""
    shown = render(rows[:_MOST_SHOWN], TableFormat.text)
    return shown if length <= _MOST_SHOWN else f"{shown}\n... {length} rows"


def estimate(query: Query, on_error: OnError = "raise") -> Estimate | Served:
    """Price a question: a static batch, or its load in closed form.

    on_error: "status" keeps every configuration, single ones too, with its reason code.

    Raises:
        RidgelineError: an invalid name or size, or (`on_error="raise"`) a configuration that cannot
            run.
    """
    if query.question.kind != "batch":
        return serve(query, on_error)
    resolved = served_rows.deployed(query)
    priced = estimate_resolved(resolved, on_error, **query.arrays)
    found = Estimate(resolved, priced, not query.arrays, query.arrays)
    if on_error == "raise":
        _refuse(found)
    return found


# ------------------------------------------------------------------------------- under load


@dataclass(frozen=True, repr=False, eq=False)
class Served(FiguresByName):
    """A deployment priced under load.

    Figures by name, floats, or arrays [loads] where an argument was one, SI units: ttft_s,
    tpot_s, their medians, e2e_s with *_low_s and *_high_s (80 %), output_tokens_per_s,
    output_tokens_per_s_per_device, interactivity, running, capacity, utilisation,
    prompt_share, status.
    """

    resolved: Resolved
    engine_estimate: ServingEstimate
    load: str
    values: Any
    scalar: bool
    varied: Mapping[str, Any]

    @cached_property
    def table(self) -> Table:
        """The load, what else varies, the figures and a message as columns."""
        facts = (self.resolved, self.engine_estimate, self.load, self.values)
        figures = served_rows.table(*facts)
        return Table({**figures.columns, **_whole(self.varied)}, figures.length)

    def __repr__(self) -> str:
        names = (self.load, "status", "ttft_s", "tpot_s", "output_tokens_per_s", "latency_s",
                 "sequences_per_s", "running")  # fmt: skip
        return preview(self.table, names)


def serve(query: Query, on_error: OnError = "raise") -> Served:
    """Price a deployment under the load of a question, in closed form.

    Raises:
        RidgelineError: as `estimate`.
    """
    question = query.question
    resolved = served_rows.deployed(query)
    result = served_rows.served(resolved, query.arrays)
    load = query.arrays.get(question.kind, getattr(question, question.kind))
    loads = np.broadcast_to(np.asarray(load, dtype=float), (query.size,))
    varied = {name: values for name, values in query.arrays.items() if name != question.kind}
    found = Served(resolved, result, question.kind, loads, not query.arrays, varied)
    if on_error == "raise":
        _refuse(found)
    return found


def refuse_alone(found: Estimate | Served) -> None:
    """Refuse a single question that cannot run or means nothing; one that lacks only memory has
    times to show.
    """
    if found.scalar:
        _refuse(found, ignored=(OUT_OF_MEMORY,))


def _refuse(found: Estimate | Served, ignored: Sequence[str] = ()) -> None:
    """Raise the error of a configuration that cannot run, or of a parameter without meaning for the
    model.
    """
    result = found.engine_estimate
    refuse_meaningless_for(found.resolved, result.parallelism)
    raise_for_status(result.status, lambda at: result.messages.get(at, ""), ignored)
