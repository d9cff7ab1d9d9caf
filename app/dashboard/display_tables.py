"""Tables as people read them: display units in the column names, costliest first."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import pandas as pd
import streamlit as st

from app.charts.style import CLASS_NAMES, CLASSES, HOST
from app.scenario import intervals
from app.scenario.intervals import Latency
from app.scenario.summary import step_of
from app.wording import quantities
from app.wording.quantities import GIGABYTE, MICROSECOND
from genz_core import Estimate, economics

_TRUST = "Four of five held-out measurements of such operators lie between low and high"
#: How a figure is written, by the unit that a comparison's row carries.
_WRITERS: Mapping[str, Callable[[float], str]] = {
    "s": quantities.seconds,
    "bytes": quantities.size,
    "tok/s": quantities.tokens_rate,
    "USD": quantities.dollars,
    "": quantities.count,
}


def operators(table: Mapping[str, Sequence[object]], phase: str) -> pd.DataFrame:
    """Rows of `intervals.operator_table` in display units, one an operator, the costliest first.

    Operators that take no time here (a collective over one device) are left out.  The first
    column is the row's id on the roofline.
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


def columns() -> dict[str, Any]:
    """How Streamlit shows the columns of `operators`."""
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
        "predicted [µs]": number(format="%.1f", help="All its runs in one step"),
        "80 % low [µs]": number(format="%.1f", help=_TRUST),
        "80 % high [µs]": number(format="%.1f", help=_TRUST),
        "bound [µs]": number(format="%.1f", help=bound),
        "of bound": bar("bound / predicted", format="percent", min_value=0, max_value=1),
        "GFLOP": number(format="%.3g", help="All runs, one device"),
        "GB moved": number(format="%.3g", help="Memory traffic of all runs, one device (GB = 1e9)"),
        "FLOP/byte": number(format="%.3g"),
    }


def microseconds(table: pd.DataFrame) -> pd.DataFrame:
    """Columns of seconds in microseconds ("mean_s" as "mean [µs]"), names without underscores."""
    times = [name for name in table if name.endswith("_s")]
    shown = table.assign(**{name: table[name] / MICROSECOND for name in times})
    words = {name: f"{name[:-2]} [µs]" if name in times else name for name in table}
    return shown.rename(columns={name: word.replace("_", " ") for name, word in words.items()})


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of an estimate: its value in SI units, and an interval where it is a latency."""

    value: float
    unit: str
    latency: Latency | None = None

    @classmethod
    def of(cls, latency: Latency) -> Figure:
        return cls(latency.seconds, "s", latency)

    @property
    def ends(self) -> tuple[float, float]:
        return (self.latency.low_s, self.latency.high_s) if self.latency else (nan, nan)


def figures(estimate: Estimate) -> dict[str, Figure]:
    """The figures of one estimate by name."""
    rate, devices = float(estimate.output_tokens_per_s[0]), float(estimate.devices)
    held = estimate.memory
    found = {
        "TTFT": Figure.of(intervals.latency(estimate, "ttft_s")),
        "TTFT, bound": Figure(float(estimate.bound_ttft_s[0]), "s"),
        "TPOT": Figure.of(intervals.latency(estimate, "tpot_s")),
        "TPOT, bound": Figure(float(estimate.bound_tpot_s[0]), "s"),
        "End to end": Figure.of(intervals.latency(estimate, "e2e_s")),
        "Output throughput": Figure(rate, "tok/s"),
        "Output throughput per device": Figure(rate / devices, "tok/s"),
        "Devices": Figure(devices, ""),
        "Memory per device": Figure(float(held.total_bytes[0]), "bytes"),
        "Weights per device": Figure(float(held.weights_bytes[0]), "bytes"),
        "KV cache per device": Figure(float(held.kv_bytes[0]), "bytes"),
    }
    cost = economics.usd_per_million_tokens(estimate.system, devices, rate)
    if cost is not None:
        found["Cost per million output tokens"] = Figure(float(cost), "USD")
    return found


def summary(estimate: Estimate) -> pd.DataFrame:
    """`figures` as a table, a row a figure, with the ends of the interval of what has one."""
    rows = [(name, f.value, f.unit, *f.ends) for name, f in figures(estimate).items()]
    return pd.DataFrame(rows, columns=["figure", "value", "unit", "80 % low", "80 % high"])


Comparison = Mapping[str, Mapping[str, Figure]]  # {scenario: {figure: ...}}


def comparison(names: Sequence[str], estimates: Sequence[Estimate]) -> dict[str, dict[str, Figure]]:
    """The figures of each scenario."""
    return dict(zip(names, map(figures, estimates), strict=True))


def class_changes(
    names: Sequence[str], estimates: Sequence[Estimate], phase: str
) -> dict[str, dict[str, Figure]]:
    """The time of a phase by operator class in each scenario."""
    tables = [intervals.by_class(step_of(estimate, phase)) for estimate in estimates]
    shown = [
        kind for kind in (*CLASSES, "host") if any(t[kind].seconds for t in tables if kind in t)
    ]
    return {
        name: {
            f"{phase}: {CLASS_NAMES.get(kind, HOST)}": Figure.of(table.get(kind, Latency(0.0)))
            for kind in shown
        }
        for name, table in zip(names, tables, strict=True)
    }


def numbers(found: Comparison) -> pd.DataFrame:
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
        for figure, scenarios in _by_figure(found).items()
    )


def readable(found: Comparison) -> pd.DataFrame:
    """A comparison in words: value, interval, and the change against the first scenario."""
    first = next(iter(found))
    return pd.DataFrame(
        {"figure": figure}
        | {
            name: _written(f) + _beside(scenarios[first].value if first in scenarios else nan, f)
            for name, f in scenarios.items()
        }
        for figure, scenarios in _by_figure(found).items()
    )


def _by_figure(found: Comparison) -> dict[str, dict[str, Figure]]:
    """{figure: {scenario: ...}}; a scenario without a figure (no price) is left out there."""
    figures = dict.fromkeys(figure for table in found.values() for figure in table)
    return {
        figure: {name: table[figure] for name, table in found.items() if figure in table}
        for figure in figures
    }


def _written(figure: Figure) -> str:
    """A value with its unit, and a latency that takes time with its interval."""
    words = _WRITERS[figure.unit](figure.value)
    return f"{words} [{figure.latency.trust}]" if figure.latency and figure.value else words


def _beside(before: float, figure: Figure) -> str:
    """The change against the first scenario in brackets; nothing where there is none to state."""
    value = figure.value
    if not (before and value) or math.isnan(before * value) or abs(value / before - 1) < 5e-4:
        return ""
    return f"  ({quantities.change(before, value)})"
