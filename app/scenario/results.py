"""Results of the Python module: figures by name, short reprs, data frames, HTML in notebooks.

The functions take names or objects and price them through the same scenario as the command line
and the dashboard; the classes only present what comes back.  A text is a name and opens no file:
`app.scenario.local_files.sources` goes before where it may be one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from app.scenario import intervals, load_options, served_rows, summary, sweep_rows
from app.scenario.drafting import DRAFTING, Drafting, drafted
from app.scenario.load_options import LoadOptions
from app.scenario.scenario import Resolved, Scenario, estimate_resolved, resolve_objects
from app.wording import quantities
from app.wording.tables import TableFormat, render
from genz_core import search
from genz_core.errors import InvalidValue
from genz_core.limits import checked_size
from genz_core.serving import ServingEstimate
from genz_core.validity import OnError, raise_for_status
from genz_core.workload import OUT_OF_MEMORY

if TYPE_CHECKING:
    import pandas as pd

    import genz_core
    from genz_core.step import StepEstimate

FORMATS = ("weights", "moe_weights", "kv", "activations", "compute")
_DEGREES = ("tp", "pp", "dp", "cp")
_SIZES = ("batch", "isl", "osl")


class ResultTable:
    """Rows that print as a table; `rows` are those of the command line's JSON."""

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


# ------------------------------------------------------------------------------- static batches


@dataclass(frozen=True, slots=True, repr=False)
class Estimate(ResultTable):
    """A static batch, priced.

    Figures by name, floats, or arrays [configurations] where an argument was one, SI units:
    ttft_s, tpot_s, e2e_s with *_low_s and *_high_s (80 %), bound_ttft_s, bound_tpot_s,
    output_tokens_per_s, output_tokens_per_s_per_device, usd_per_million_tokens,
    joules_per_token, fits, memory_bytes_per_device, status, message; `to_dict` has them all.

    engine_estimate: the engine's own, with every array.
    """

    resolved: Resolved
    engine_estimate: genz_core.Estimate
    scalar: bool
    varied: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        columns = self._columns()
        if name not in columns:
            known = ", ".join(columns)
            raise AttributeError(f"an estimate has no figure {name!r}; it has {known}")
        values = columns[name]
        return values[0] if self.scalar else np.array(values)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self._columns()]

    @property
    def rows(self) -> list[dict[str, Any]]:
        estimate = self.engine_estimate
        return [
            {**summary.facts(self.resolved, estimate, at), **self._sizes(at)}
            for at in range(len(estimate.status))
        ]

    def to_dict(self) -> dict[str, Any]:
        """The figures of one configuration, as `ridgeline estimate --json` prints them."""
        if not self.scalar:
            raise InvalidValue(f"{len(self)} configurations are a table: use to_dataframe()")
        return self.rows[0]

    def operators(self, phase: str = "decode", config: int = 0) -> pd.DataFrame:
        """The operators of a "prefill" or "decode" step: counts, bound, prediction, interval."""
        import pandas as pd

        return pd.DataFrame(summary.operator_rows(self._step(phase), config))

    def explain(self, operator: str, phase: str = "decode", config: int = 0) -> dict[str, float]:
        """Seconds of the terms that sum to the price of one run of an operator, by cause.

        Raises:
            InvalidValue: no operator of that name; those of the step are listed.
        """
        step = self._step(phase)
        names = [op.name for op in step.graph.ops]
        if operator not in names:
            raise InvalidValue(f"no operator {operator!r} in {phase}; it has {', '.join(names)}")
        terms = step.explain(names.index(operator), config).terms
        return {cause: float(seconds) for cause, seconds in terms.items() if seconds}

    def _step(self, phase: str) -> StepEstimate:
        if phase not in ("prefill", "decode"):
            raise InvalidValue(f"{phase!r} is no phase; choose prefill or decode")
        return summary.step_of(self.engine_estimate, phase)

    def _sizes(self, at: int) -> dict[str, Any]:
        """The sizes and degrees of a configuration that arrays put in place of the scenario's."""
        return {name: int(values[at]) for name, values in self.varied.items()}

    def _columns(self) -> dict[str, list[Any]]:
        rows = self.rows
        return {name: [row[name] for row in rows] for name in rows[0]}

    def __repr__(self) -> str:
        if not self.scalar:
            names = ("status", *self.varied, "ttft_s", "tpot_s", "latency_s", "sequences_per_s")
            return preview(self.rows, names)
        row = self.to_dict()
        lines = {
            "model": f"{row['model']}, {_formats(self.resolved)}",
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
        rate = f"{row['sequences_per_s']:,.4g} sequences/s"
        return {"batch": read, "latency": _latency(row, "latency_s"), "throughput": rate}
    return {
        "batch": f"{read}, {row['osl']:,} out",
        "TTFT": _latency(row, "ttft_s"),
        "TPOT": _latency(row, "tpot_s"),
        "E2E": _latency(row, "e2e_s"),
        "throughput": quantities.tokens_rate(row["output_tokens_per_s"]),
    }


def _formats(resolved: Resolved) -> str:
    precision = resolved.model.precision
    return f"{' and '.join(sorted(set(precision.weights.values())))} weights, {precision.kv} cache"


def _latency(row: Mapping[str, Any], name: str) -> str:
    words = quantities.seconds(row[name])
    if f"bound_{name}" in row:
        words += f", bound {quantities.seconds(row[f'bound_{name}'])}"
    low, high = intervals.ends(name)
    return f"{words}, 80 %: {quantities.span(row[low], row[high])}"


def _cost(row: Mapping[str, Any]) -> str:
    cost = row["usd_per_million_tokens"]
    if cost is None:
        return "no price"
    low, high = row["usd_per_million_tokens_low"], row["usd_per_million_tokens_high"]
    trust = "" if math.isnan(low) else f" ({quantities.dollars(low)} to {quantities.dollars(high)})"
    return f"{quantities.dollars(cost)} per 1M tokens{trust}"


def preview(rows: Sequence[Mapping[str, Any]], names: Sequence[str], most: int = 8) -> str:
    """The first rows, as an aligned table, and how many there are."""
    shown = [{name: row[name] for name in names if name in row} for row in rows[:most]]
    table = render(shown, TableFormat.text)
    return table if len(rows) <= most else f"{table}\n... {len(rows)} rows"


def estimate(
    model: Any, *, system: Any, engine: Any, offload: str, on_error: OnError, **numbers: Any
) -> Estimate:
    """See `ridgeline.estimate`."""
    formats = {name: numbers.pop(name) for name in FORMATS}
    arrays, scalars = _arrays(with_experts(numbers))
    scenario = Scenario(offload=offload, **scalars)
    resolved = resolve_objects(scenario, model, system, engine, formats)
    priced = estimate_resolved(resolved, **arrays)
    if on_error == "raise":
        priced.raise_for_status()
    return Estimate(resolved, priced, not arrays, arrays)


def with_experts(numbers: dict[str, Any]) -> dict[str, Any]:
    """`ep` from `moe_tp` where that alone is given: moe_tp * ep = tp * dp."""
    if numbers["ep"] is None and numbers["moe_tp"] is None:
        numbers["ep"] = 1
    elif numbers["ep"] is None:
        for size in np.ravel(np.asarray(numbers["moe_tp"], dtype=object)):
            checked_size("moe_tp", size)
        ranks = np.asarray(numbers["tp"]) * np.asarray(numbers["dp"])
        ep = ranks / np.asarray(numbers["moe_tp"], dtype=float)
        numbers["ep"] = ep if np.ndim(ep) else _whole(ep)
    return numbers


def _whole(value: Any) -> Any:
    return int(value) if float(value).is_integer() else float(value)


def _arrays(numbers: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Arguments that are arrays, of one length, and those that are numbers."""
    given = {name: value for name, value in numbers.items() if np.ndim(value)}
    scalars = {name: value for name, value in numbers.items() if name not in given}
    arrays = {name: np.asarray(value, dtype=float) for name, value in given.items()}
    lengths = {name: len(value) for name, value in arrays.items() if value.ndim == 1}
    if len(lengths) < len(arrays) or len(set(lengths.values())) > 1:
        raise InvalidValue(
            f"arrays are configurations side by side, all of one length; these are "
            f"{', '.join(f'{name} {np.shape(value)}' for name, value in arrays.items())}"
        )
    return arrays, scalars


# ------------------------------------------------------------------------------- under load


@dataclass(frozen=True, slots=True, repr=False)
class Served(ResultTable):
    """A deployment under load.

    Figures by name, floats, or arrays [loads] where an argument was one, SI units: ttft_s,
    tpot_s, their medians, e2e_s with *_low_s and *_high_s (80 %), output_tokens_per_s,
    output_tokens_per_s_per_device, interactivity, running, capacity, utilisation, status.
    """

    resolved: Resolved
    engine_estimate: ServingEstimate
    load: str
    values: Any
    scalar: bool
    beyond: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        rows = self.rows
        if name not in rows[0]:
            raise AttributeError(f"no figure {name!r} under load; there are {', '.join(rows[0])}")
        return rows[0][name] if self.scalar else np.array([row[name] for row in rows])

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self.rows[0]]

    @property
    def rows(self) -> list[dict[str, Any]]:
        return served_rows.rows(
            self.resolved, self.engine_estimate, self.load, self.values, self.beyond
        )

    def __repr__(self) -> str:
        names = (self.load, "status", "ttft_s", "tpot_s", "output_tokens_per_s", "latency_s",
                 "sequences_per_s", "running")  # fmt: skip
        return preview(self.rows, names)


def serve(
    model: Any,
    *,
    system: Any,
    engine: Any,
    concurrency: Any,
    rate: Any,
    length_ratio: float,
    burst_start: bool,
    stream_interval: Any,
    recv_interval: Any,
    on_error: OnError,
    **numbers: Any,
) -> Served:
    """See `ridgeline.serve`."""
    drafting = Drafting(**{name: numbers.pop(name) for name in DRAFTING})
    options = LoadOptions.of({name: numbers.pop(name) for name in load_options.KEYWORDS})
    if (concurrency is None) == (rate is None):
        raise InvalidValue("give a concurrency or a rate, one of them")
    name, load = ("concurrency", concurrency) if rate is None else ("rate", rate)
    formats = {key: numbers.pop(key) for key in FORMATS}
    sent = {"stream_interval": stream_interval, "recv_interval": recv_interval}
    arrays, scalars = _arrays({**with_experts(numbers), **sent, name: load})
    scenario = Scenario(**{k: v for k, v in scalars.items() if k not in (name, *sent)})
    resolved = resolve_objects(scenario, model, system, engine, formats)
    split = {key: value for key, value in arrays.items() if key not in (*_SIZES, *sent, name)}
    if options.shape and {"isl", "osl"} & set(arrays):
        raise InvalidValue("what requests share is of one length: give one isl and one osl")
    resolved = drafted(resolved if split else served_rows.as_calibrated(resolved), drafting)
    resolved = options.deployed(resolved)
    lengths: dict[str, Any] = {"isl": arrays.get("isl"), "osl": arrays.get("osl")}
    size = len(next(iter(arrays.values()))) if arrays else 1
    loads = np.broadcast_to(np.asarray(load, dtype=float), (size,))
    result = served_rows.serve_resolved(
        resolved,
        concurrency=loads if name == "concurrency" else None,
        rate_per_s=loads if name == "rate" else None,
        parallelism=_split(resolved.scenario, split),
        length_ratio=length_ratio,
        waves=served_rows.WAVES if burst_start else 0.0,
        stream_interval=stream_interval,
        recv_interval=recv_interval,
        **lengths | options.traffic(scenario.isl, scenario.osl, length_ratio),
    )
    if on_error == "raise":
        raise_for_status(result.status, lambda at: result.messages.get(at, ""))
    return Served(resolved, result, name, loads, not arrays, options.beyond)


def _split(scenario: Scenario, arrays: Mapping[str, Any]) -> Any:
    from dataclasses import replace

    return replace(scenario.parallelism, **arrays)


# ------------------------------------------------------------------------------- sweeps


@dataclass(frozen=True, slots=True, repr=False)
class Sweep(ResultTable):
    """Every combination of some axes: the axes, then status, latencies with their intervals,
    throughput and memory; `rows` as `ridgeline sweep --json` prints them."""

    resolved: Resolved
    engine_estimate: genz_core.Estimate
    axes: Mapping[str, Sequence[float]]

    @property
    def rows(self) -> list[dict[str, Any]]:
        return sweep_rows.rows(self.engine_estimate, self.axes)

    def frontier(self) -> pd.DataFrame:
        """The rows that no other beats in TPOT and tokens per second and device."""
        import pandas as pd

        return pd.DataFrame(sweep_rows.frontier(self.rows))

    def __repr__(self) -> str:
        names = (*self.axes, "status", "ttft_s", "tpot_s", "output_tokens_per_s_per_device",
                 "latency_s", "sequences_per_s_per_device")  # fmt: skip
        return preview(self.rows, names)


def sweep(
    model: Any,
    *,
    system: Any,
    engine: Any,
    on_error: OnError,
    axes: Mapping[str, Any],
    **formats: str,
) -> Sweep:
    """See `ridgeline.sweep`."""
    standard = Scenario()
    given: dict[str, Any] = {name: np.atleast_1d(values) for name, values in axes.items()}
    for name in _SIZES:
        given.setdefault(name, [float(getattr(standard, name))])
    resolved = resolve_objects(standard, model, system, engine, formats)
    result = search.sweep(
        resolved.model, resolved.system, given, resolved.engine, on_error=on_error
    )
    return Sweep(resolved, result, given)


__all__ = [
    "FORMATS",
    "OUT_OF_MEMORY",
    "Estimate",
    "ResultTable",
    "Served",
    "Sweep",
    "estimate",
    "preview",
    "serve",
    "sweep",
    "with_experts",
]
