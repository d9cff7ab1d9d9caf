"""Tables in display units: operators of a step, figures of an estimate, scenarios, kept runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import nan
from typing import Any

import pandas as pd
import streamlit as st

from app.charts.style import CLASS_NAMES, CLASSES, HOST
from app.scenario import intervals
from app.scenario.intervals import Latency
from app.scenario.summary import step_of
from app.wording import quantities
from app.wording.quantities import GIGABYTE, MICROSECOND, MILLISECOND
from genz_core import Estimate, economics
from genz_core.cells import spreadsheet_cell
from genz_core.model_kinds import generates
from profilers.store import KeptRun

_TRUST = "Four of five held-out measurements of such operators lie between low and high"
_SHARES = ("share", "of bound")
#: Writer of a figure by its unit.
_WRITERS: Mapping[str, Callable[[float], str]] = {
    "s": quantities.seconds,
    "bytes": quantities.size,
    "tok/s": quantities.tokens_rate,
    "seq/s": partial(quantities.rate, unit="sequences/s"),
    "USD": quantities.dollars,
    "": quantities.count,
}
#: Height of a table's row, its head as well, and of its frame, at the theme's size of letters.
_ROW_PX, _FRAME_PX = 33, 3


def operator_rows(table: Mapping[str, Sequence[object]], phase: str) -> pd.DataFrame:
    """Rows of `intervals.operator_table` in display units, the costliest first.

    Operators that take no time (a collective over one device) are left out.  The first column is
    the row's id on the roofline.
    """
    raw = pd.DataFrame(dict(table))
    raw.insert(0, "id", [f"{phase}:{at}" for at in range(len(raw))])
    raw.insert(1, "phase", phase)
    shown = raw[["id", "phase", "name", "class", "share"]].copy()
    shown["predicted [µs]"] = raw["predicted_s"] / MICROSECOND
    shown["80 % low [µs]"] = raw["low_s"] / MICROSECOND
    shown["80 % high [µs]"] = raw["high_s"] / MICROSECOND
    shown["bound [µs]"] = raw["bound_s"] / MICROSECOND
    shown["of bound"] = (raw["bound_s"] / raw["predicted_s"]).where(raw["predicted_s"] > 0)
    shown["limited by"] = raw["bound"]
    shown["runs"] = raw["runs"]
    shown["GFLOP"] = raw["flops"] * raw["runs"] / GIGABYTE
    shown["GB moved"] = raw["bytes"] * raw["runs"] / GIGABYTE
    shown["FLOP/byte"] = raw["flops_per_byte"]
    shown["arithmetic"] = raw["compute"]
    shown["module"] = raw["module"]
    shown = shown[shown["predicted [µs]"] > 0]
    return shown.sort_values("predicted [µs]", ascending=False, ignore_index=True)


def rounded(table: pd.DataFrame) -> pd.DataFrame:
    """A table as a page shows it: numbers to three digits, shares of one to two, as predictions
    are known no better.  Exports keep what was computed.
    """
    return table.assign(
        **{
            name: table[name].map(partial(_significant, places=2 if name in _SHARES else 3))
            for name in table.select_dtypes("floating").columns.difference(["runs"])
        }
    )


def _significant(value: float, places: int) -> float:
    return float(f"{value:.{places}g}")


def operator_columns() -> dict[str, Any]:
    """Streamlit's configuration of the columns of `operator_rows`."""
    number, bar = st.column_config.NumberColumn, st.column_config.ProgressColumn
    bound = "Speed of light: max(FLOPs / peak, bytes / bandwidth)"
    return {
        "id": None,
        "name": st.column_config.TextColumn("operator", pinned=True),
        "runs": number("runs", format="localized", help="Times it runs in one step"),
        "share": bar(
            "share",
            format="percent",
            min_value=0,
            max_value=1,
            help="Of the operators' time in the step; host time and pipeline wait are apart",
        ),
        "predicted [µs]": number(format="localized", help="All its runs in one step"),
        "80 % low [µs]": number(format="localized", help=_TRUST),
        "80 % high [µs]": number(format="localized", help=_TRUST),
        "bound [µs]": number(format="localized", help=bound),
        "of bound": bar("bound / predicted", format="percent", min_value=0, max_value=1),
        "GFLOP": number(format="localized", help="All runs, one device"),
        "GB moved": number(
            format="localized", help="Memory traffic of all runs, one device (GB = 1e9)"
        ),
        "FLOP/byte": number(format="localized"),
    }


_LOAD_WORDS: Mapping[str, str] = {
    "concurrency": "users", "rate_per_s": "requests/s", "interactivity": "tok/s of a user",
    "output_tokens_per_s": "output [tok/s]",
    "output_tokens_per_s_per_device": "output per device [tok/s]",
    "running": "running", "capacity": "fit in memory", "utilisation": "utilisation",
}  # fmt: skip


def load_columns(table: pd.DataFrame) -> dict[str, Any]:
    """Streamlit's configuration of the columns of a table of loads: heads in words, four digits."""
    number = st.column_config.NumberColumn
    heads = {name: _LOAD_WORDS.get(name) or _latency_head(name) for name in table.columns}
    numeric = {name for name in table if pd.api.types.is_numeric_dtype(table[name])}
    shown = {name: number(head, format="%.4g") for name, head in heads.items() if name in numeric}
    return {**shown, "measured_on": "basis", "not_validated": None}


def _latency_head(name: str) -> str:
    """ "ttft_median_low_s" as "TTFT median, 80 % low [s]"."""
    words = name.removesuffix("_s").split("_")
    end = f", 80 % {words.pop()}" if words[-1] in ("low", "high") else ""
    figure = words[0].upper() if words[0] in ("ttft", "tpot", "e2e") else words[0]
    unit = " [s]" if name.endswith("_s") and figure.isupper() else ""
    return " ".join([figure, *words[1:]]) + end + unit


def in_microseconds(table: pd.DataFrame) -> pd.DataFrame:
    """The table with seconds in microseconds ("mean_s" as "mean [µs]"), no underscores in names.

    Its texts are cells for a spreadsheet: the table on the page has a button that saves it as CSV.
    """
    return _in_unit(table, MICROSECOND, "µs")


def in_milliseconds(table: pd.DataFrame) -> pd.DataFrame:
    """`in_microseconds`, but for times of whole runs: "span_s" as "span [ms]"."""
    return _in_unit(table, MILLISECOND, "ms")


def _in_unit(table: pd.DataFrame, unit_s: float, unit: str) -> pd.DataFrame:
    times = [name for name in table if name.endswith("_s")]
    texts = [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]
    shown = table.assign(
        **{name: table[name] / unit_s for name in times},
        **{name: table[name].map(spreadsheet_cell, na_action="ignore") for name in texts},
    )
    words = {name: f"{name[:-2]} [{unit}]" if name in times else name for name in table}
    return shown.rename(columns={name: word.replace("_", " ") for name, word in words.items()})


@dataclass(frozen=True, slots=True)
class Quantity:
    """A figure of an estimate: its value in SI units, with an interval where it is a latency.

    unit: a key of `_WRITERS`.
    """

    value: float
    unit: str
    latency: Latency | None = None

    @classmethod
    def from_latency(cls, latency: Latency) -> Quantity:
        """The figure of a latency [s]."""
        return cls(latency.seconds, "s", latency)

    @property
    def ends(self) -> tuple[float, float]:
        """Low and high end of the 80 % interval, NaN where there is none."""
        return (self.latency.low_s, self.latency.high_s) if self.latency else (nan, nan)


def estimate_figures(estimate: Estimate) -> dict[str, Quantity]:
    """Latencies, bounds, throughput, memory and cost of an estimate of one configuration."""
    rate, devices = float(estimate.output_tokens_per_s[0]), float(estimate.devices)
    memory = estimate.memory
    figures = {
        **_latency_figures(estimate, rate / devices),
        "Devices": Quantity(devices, ""),
        "Memory per device": Quantity(float(memory.total_bytes[0]), "bytes"),
        "Weights per device": Quantity(float(memory.weights_bytes[0]), "bytes"),
        "KV cache per device": Quantity(float(memory.kv_bytes[0]), "bytes"),
    }
    cost = economics.usd_per_million_tokens(estimate.system, devices, rate)
    if cost is not None and generates(estimate.model):
        whole = intervals.latency(estimate, "e2e_s")  # a token costs what its time costs
        each = float(cost) / whole.seconds
        trusted = Latency(float(cost), each * whole.low_s, each * whole.high_s)
        figures["Cost per million output tokens"] = Quantity(float(cost), "USD", trusted)
    return figures


def _latency_figures(estimate: Estimate, rate_per_device: float) -> dict[str, Quantity]:
    """Latencies, bounds and throughput: those of generation, or of an encoder's one pass."""
    first = Quantity.from_latency(intervals.latency(estimate, "ttft_s"))
    least = Quantity(float(estimate.bound_ttft_s[0]), "s")
    if not generates(estimate.model):
        sequences = Quantity(float(estimate.sequences_per_s[0]), "seq/s")
        return {"Latency": first, "Latency, bound": least, "Sequences per second": sequences}
    return {
        "TTFT": first,
        "TTFT, bound": least,
        "TPOT": Quantity.from_latency(intervals.latency(estimate, "tpot_s")),
        "TPOT, bound": Quantity(float(estimate.bound_tpot_s[0]), "s"),
        "End to end": Quantity.from_latency(intervals.latency(estimate, "e2e_s")),
        "Output throughput": Quantity(rate_per_device * float(estimate.devices), "tok/s"),
        "Output throughput per device": Quantity(rate_per_device, "tok/s"),
    }


def figure_table(estimate: Estimate) -> pd.DataFrame:
    """`estimate_figures` as a table in SI units: figure, value, unit, ends of the interval."""
    rows = [(name, f.value, f.unit, *f.ends) for name, f in estimate_figures(estimate).items()]
    return pd.DataFrame(rows, columns=["figure", "value", "unit", "80 % low", "80 % high"])


Comparison = Mapping[str, Mapping[str, Quantity]]  # {scenario: {figure: ...}}


def figures_by_scenario(
    names: Sequence[str], estimates: Sequence[Estimate]
) -> dict[str, dict[str, Quantity]]:
    """The figures of each scenario: {scenario: {figure: ...}}."""
    return dict(zip(names, map(estimate_figures, estimates), strict=True))


def class_times_by_scenario(
    names: Sequence[str], estimates: Sequence[Estimate], phase: str
) -> dict[str, dict[str, Quantity]]:
    """The time of a phase by operator class in each scenario: {scenario: {class: ...}}."""
    tables = [intervals.by_class(step_of(estimate, phase)) for estimate in estimates]
    shown = [
        kind for kind in (*CLASSES, "host") if any(t[kind].seconds for t in tables if kind in t)
    ]
    return {
        name: {
            f"{phase}: {CLASS_NAMES.get(kind, HOST)}": Quantity.from_latency(
                table.get(kind, Latency(0.0))
            )
            for kind in shown
        }
        for name, table in zip(names, tables, strict=True)
    }


def comparison_numbers(comparison: Comparison) -> pd.DataFrame:
    """A comparison in SI units: a row a figure, for each scenario its value and interval."""
    return pd.DataFrame(
        {"figure": figure, "unit": next(f.unit for f in scenarios.values())}
        | {
            column: value
            for name, f in scenarios.items()
            for column, value in zip(
                (name, f"{name}, 80 % low", f"{name}, 80 % high"), (f.value, *f.ends), strict=True
            )
        }
        for figure, scenarios in _by_figure(comparison).items()
    )


def comparison_words(comparison: Comparison) -> pd.DataFrame:
    """A comparison in words: value, interval, and the change against the first scenario."""
    first = next(iter(comparison))
    return pd.DataFrame(
        {"figure": figure}
        | {
            name: _written(f) + _beside(scenarios[first].value if first in scenarios else nan, f)
            for name, f in scenarios.items()
        }
        for figure, scenarios in _by_figure(comparison).items()
    )


def _by_figure(comparison: Comparison) -> dict[str, dict[str, Quantity]]:
    """{figure: {scenario: ...}}; a scenario without a figure (no price) is left out there."""
    figures = dict.fromkeys(figure for table in comparison.values() for figure in table)
    return {
        figure: {name: table[figure] for name, table in comparison.items() if figure in table}
        for figure in figures
    }


def _written(figure: Quantity) -> str:
    """A value with its unit, and a latency that takes time with its interval."""
    words = _WRITERS[figure.unit](figure.value)
    if not figure.latency or not figure.value:
        return words
    if figure.unit == "USD":
        low, high = map(quantities.dollars, figure.ends)
        return words if math.isnan(figure.ends[0]) else f"{words} [{low} to {high}]"
    return f"{words} [{figure.latency.trust}]"


def _beside(before: float, figure: Quantity) -> str:
    """The change against the first scenario in brackets; nothing where there is none to state."""
    value = figure.value
    if not (before and value) or math.isnan(before * value) or abs(value / before - 1) < 5e-4:
        return ""
    return f"  ({quantities.change(before, value)})"


def height(table: pd.DataFrame) -> int:
    """What a table with all of its rows in sight takes [px]."""
    return _ROW_PX * (len(table.index) + 1) + _FRAME_PX


def run_table(runs: list[KeptRun]) -> pd.DataFrame:
    """A row a kept run: id, time, label, device, tags and the times of its phases."""
    return pd.DataFrame(
        [
            {
                "run": run.id[:8],
                "when": pd.Timestamp(run.created, unit="s"),
                "label": run.label,
                "device": run.system,
                "tags": ", ".join(run.tags),
                **{name: quantities.seconds(value) for name, value in run.phases.items()},
            }
            for run in runs
        ]
    )
