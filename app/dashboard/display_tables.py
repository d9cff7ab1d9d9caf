"""Tables in display units: operators of a step, figures of an estimate, scenarios, stored runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import pandas as pd
import streamlit as st

from app.answers.columns import COLUMNS, Column, ends, in_words, span_words
from app.charts.style import CLASS_NAMES, CLASSES, HOST
from app.dashboard.widgets import draw_table
from app.scenario import intervals
from app.scenario.encoder_figures import phases_of
from app.scenario.summary import step_of
from app.wording import quantities
from app.wording.quantities import GIGABYTE, MICROSECOND
from genz_core import Estimate
from genz_core.common.cells import spreadsheet_cell
from profilers.runs.store import KeptRun

_TRUST = "Four of five held-out measurements of such operators lie between low and high"
_SHARES = ("share", "of bound")
#: Figures that are compared, each where its row has it, and those of a row that cannot run.
_COMPARED = (
    "ttft_s", "bound_ttft_s", "latency_s", "bound_latency_s", "tpot_s", "bound_tpot_s", "e2e_s",
    "output_tokens_per_s", "output_tokens_per_s_per_device", "sequences_per_s",
    "sequences_per_s_per_device", "running", "utilisation", "prompt_share", "devices",
    "memory_bytes_per_device", "weights_bytes", "kv_bytes", "usd_per_million_tokens",
    "joules_per_token",
)  # fmt: skip
_ALWAYS = ("devices", "memory_bytes_per_device", "weights_bytes", "kv_bytes")
#: Height of a table's row, of its header and of its frame, at the theme's font size.
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


def rows_in_words(
    rows: Iterable[Mapping[str, Any]], more: Mapping[str, Column] | None = None
) -> pd.DataFrame:
    """Rows of an answer for a reader: columns under their heads, figures with their units.

    more: columns besides the declared ones.  A name that has none gets a capital letter, and its
    values stay as they are.
    """
    known = {**COLUMNS, **(more or {})}

    def cell(name: str, value: Any) -> Any:
        return value if isinstance(value, str) or name not in known else known[name].words(value)

    def head(name: str) -> str:
        if name not in known:
            return name.capitalize()
        one = known[name]
        return one.title if one.unit == "$/h" else one.head  # whose words are those of dollars

    return pd.DataFrame(
        {head(name): cell(name, value) for name, value in row.items() if value is not None}
        for row in rows
    )


def rounded(table: pd.DataFrame) -> pd.DataFrame:
    """A table as a page shows it: numbers with three digits, shares with one or two, because
    predictions are not more precise.  Exports contain the computed values.
    """
    return table.assign(
        **{
            name: table[name].map(f"{{:.{2 if name in _SHARES else 3}g}}".format).astype(float)
            for name in table.select_dtypes("floating").columns.difference(["runs"])
        }
    )


def operator_columns() -> dict[str, Any]:
    """Streamlit's configuration of the columns of `operator_rows`."""
    number = st.column_config.NumberColumn
    bound = "Speed of light: max(FLOPs / peak, bytes / bandwidth)"
    return {
        "id": None,
        "name": st.column_config.TextColumn("operator", pinned=True),
        "runs": number("runs", format="localized", help="Number of times it runs in one step"),
        "share": number(
            "share", format="percent", width=60,
            help="Share of the step's operator time, without host time and pipeline wait",
        ),
        "predicted [µs]": number(format="localized", help="Total of all its runs in one step"),
        "80 % low [µs]": number(format="localized", help=_TRUST),
        "80 % high [µs]": number(format="localized", help=_TRUST),
        "bound [µs]": number(format="localized", help=bound),
        "of bound": st.column_config.ProgressColumn(
            "of bound", format="percent", min_value=0, max_value=1, width=72,
            help="The bound over the predicted time",
        ),
        "GFLOP": number(format="localized", help="Total of all runs, on one device"),
        "GB moved": number(format="localized", help="Memory traffic of all runs, one device"),
        "FLOP/byte": number(format="localized"),
    }  # fmt: skip


def figure_columns(table: pd.DataFrame) -> dict[str, Any]:
    """Streamlit's configuration of columns that are declared: heads, help, four digits."""
    shown = {}
    for name in table.columns:
        if name not in COLUMNS:
            continue
        column = COLUMNS[name]
        if pd.api.types.is_numeric_dtype(table[name]):
            number = st.column_config.NumberColumn
            shown[name] = number(column.title, format=column.format, help=column.help)
        else:
            shown[name] = st.column_config.Column(column.title, help=column.help)
    return {**shown, "not_validated": None}


def draw_figures(table: pd.DataFrame, key: str) -> None:
    """Draw a collapsed table of declared columns."""
    with st.expander("Table", icon=":material/table:"):
        draw_table(
            table, key, height="auto", placeholder=quantities.NOT_VALIDATED,
            column_config=figure_columns(table),
        )  # fmt: skip


def in_microseconds(
    table: pd.DataFrame, unit_s: float = MICROSECOND, unit: str = "µs"
) -> pd.DataFrame:
    """The table with seconds in microseconds ("mean_s" as "mean [µs]"), no underscores in names.

    Its texts are escaped for a spreadsheet, because the table on the page has a CSV download.
    unit_s, unit: another unit of time.
    """
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
    """A figure: its value in SI units, and the ends of its 80 % interval.

    unit: of `app.answers.columns.Column`.  ends: NaN where not validated; None for a figure that
    has no interval.
    """

    value: float
    unit: str = "s"
    ends: tuple[float, float] | None = None


def row_figures(row: Mapping[str, Any]) -> dict[str, Quantity]:
    """The known figures of a row by their heads; only memory and devices if it cannot run.

    row: of `app.scenario.summary.facts` or `app.scenario.served_rows.table`.
    """
    figures = {}
    for name in _COMPARED if row["status"] == "ok" else _ALWAYS:
        value, low, high = (row.get(one) for one in (name, *ends(name)))
        if value is None or math.isnan(value):
            continue
        # the paid tokens of a model that generates are those of its output
        paid = name == "usd_per_million_tokens" and "tpot_s" in row
        column = COLUMNS["usd_per_mtok" if paid else name]
        stated = None if low is None or high is None else (float(low), float(high))
        figures[column.head] = Quantity(float(value), column.unit, stated)
    return figures


Comparison = Mapping[str, Mapping[str, Quantity]]  # {scenario: {figure: ...}}


def class_times(estimate: Estimate) -> dict[str, Quantity]:
    """The time of each step of an estimate by operator class, of those that take any."""
    return {
        f"{phase}: {CLASS_NAMES.get(kind, HOST)}": Quantity(
            times[kind].seconds, ends=(times[kind].low_s, times[kind].high_s)
        )
        for phase in phases_of(estimate.model)
        for times in [intervals.by_class(step_of(estimate, phase))]
        for kind in (*CLASSES, "host")
        if kind in times and times[kind].seconds
    }


def comparison_numbers(comparison: Comparison) -> pd.DataFrame:
    """A comparison in SI units: a row per figure, with its value and interval for each scenario."""
    return pd.DataFrame(
        {"figure": figure, "unit": next(f.unit for f in scenarios.values())}
        | {
            column: value
            for name, f in scenarios.items()
            for column, value in zip(
                (name, f"{name}, 80 % low", f"{name}, 80 % high"),
                (f.value, *(f.ends or (nan, nan))),
                strict=True,
            )
        }
        for figure, scenarios in _by_figure(comparison).items()
    )


def comparison_words(comparison: Comparison) -> pd.DataFrame:
    """A comparison in words: value, interval, and the change from the first scenario."""
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
    """{figure: {scenario: ...}}; a scenario without a figure (no price) has no entry."""
    figures = dict.fromkeys(figure for table in comparison.values() for figure in table)
    return {
        figure: {name: table[figure] for name, table in comparison.items() if figure in table}
        for figure in figures
    }


def _written(figure: Quantity) -> str:
    """A value with its unit, and with its interval if it has one that is not a single value."""
    words = in_words(figure.value, figure.unit)
    low, high = figure.ends or (0.0, 0.0)
    if low == high or (figure.unit != "s" and math.isnan(low)):
        return words
    return f"{words} [{span_words(low, high, figure.unit)}]"


def _beside(before: float, figure: Quantity) -> str:
    """The change from the first scenario in brackets, "" if there is none."""
    value = figure.value
    if not (before and value) or math.isnan(before * value) or abs(value / before - 1) < 5e-4:
        return ""
    return f"  ({quantities.change(before, value)})"


def height(table: pd.DataFrame) -> int:
    """Height of a table that shows all of its rows [px]."""
    return _ROW_PX * (len(table.index) + 1) + _FRAME_PX


def run_table(runs: list[KeptRun]) -> pd.DataFrame:
    """A row per stored run: id, time, label, device, tags and the times of its phases."""
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
