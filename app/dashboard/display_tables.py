"""Tables in display units: operators of a step, figures of an estimate, scenarios, stored runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from app.answers.column import Column, ends
from app.answers.columns import COLUMNS
from app.charts.style import KIND_NAMES
from app.dashboard.widgets import draw_table
from app.scenario import operator_intervals
from app.scenario.intervals import Ranged
from app.scenario.levers import phases_of
from app.scenario.summary import step_of
from app.wording import quantities
from app.wording.markdown import unbroken
from app.wording.quantities import MICROSECOND, MILLISECOND
from genz_core import Estimate
from genz_core.common.cells import spreadsheet_cell
from hardware_db import yaml_document
from profilers.runs.store import KeptRun

_SHARES = ("share", "of bound")
#: Columns of operators in their order: name in `operator_rows`, unit (0 for texts), and help.
_OPERATORS: Mapping[str, tuple[str, float, str]] = yaml_document.read(
    Path(__file__).with_name("operator_columns.yaml")
)
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
    """Rows of `operator_intervals.operator_table` in display units, the costliest first.

    Operators that take no time (a collective over one device) are left out.  The first column is
    the row's id on the roofline.
    """
    raw = pd.DataFrame(dict(table))
    raw = raw.assign(
        id=[f"{phase}:{at}" for at in range(len(raw))],
        phase=phase,
        of_bound=(raw["bound_s"] / raw["predicted_s"]).where(raw["predicted_s"] > 0),
        flops=raw["flops"] * raw["runs"],
        bytes=raw["bytes"] * raw["runs"],
    )
    shown = pd.DataFrame({
        head: raw[name] / unit if unit else raw[name]
        for head, (name, unit, _) in _OPERATORS.items()
    })  # fmt: skip
    shown = shown[shown["predicted [µs]"] > 0]
    return shown.sort_values("predicted [µs]", ascending=False, ignore_index=True)


def rows_in_words(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows of an answer for a reader: columns under their heads, figures with their units.

    A name that is no column gets a capital letter, and its values stay as they are.
    """

    def cell(name: str, value: Any) -> Any:
        text = isinstance(value, str) or name not in COLUMNS
        return value if text else COLUMNS[name].words(value)

    def head(name: str) -> str:
        if name not in COLUMNS:
            return name.capitalize()
        one = COLUMNS[name]
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


#: Widths of columns of operators [px], of "post_attention_norm" and "communication": a page of
#: 1300 px shows all of them, a phone the first three.
_WIDTHS = {"name": 130, "predicted [µs]": 74, "limited by": 98, "share": 54, "of bound": 66}
#: Columns of operators on a page, in their order.
OPERATORS_SHOWN = tuple(_WIDTHS)


def operator_columns() -> dict[str, Any]:
    """Streamlit's configuration of the columns of `operator_rows`."""
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    told = {head: words or None for head, (_, _, words) in _OPERATORS.items()}
    numbers = {head: number(head, format="localized", help=told[head])
               for head, (_, unit, _) in _OPERATORS.items() if unit}  # fmt: skip
    of = {head: {"width": width, "help": told[head]} for head, width in _WIDTHS.items()}
    return numbers | {
        "id": None,
        "name": text("operator", pinned=True, **of["name"]),
        "predicted [µs]": number("time [µs]", format="localized", **of["predicted [µs]"]),
        "limited by": text(**of["limited by"]),
        "share": number(format="percent", **of["share"]),
        "of bound": st.column_config.ProgressColumn(
            format="percent", min_value=0, max_value=1, **of["of bound"]
        ),
    }


def figure_columns(table: pd.DataFrame) -> dict[str, Any]:
    """Streamlit's configuration of columns that are declared: heads, help, four digits."""
    shown = {}
    for name in table.columns.intersection(list(COLUMNS)):
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


def in_unit_of_time(table: pd.DataFrame, unit: str = "µs") -> pd.DataFrame:
    """The table with seconds in another unit ("mean_s" as "mean [µs]"), no underscores in names.

    Its texts are escaped for a spreadsheet, because the table on the page has a CSV download.
    """
    unit_s = {"µs": MICROSECOND, "ms": MILLISECOND}[unit]
    times = [name for name in table if name.endswith("_s")]
    texts = [name for name in table if not pd.api.types.is_numeric_dtype(table[name])]
    shown = table.assign(
        **{name: table[name] / unit_s for name in times},
        **{name: table[name].map(spreadsheet_cell, na_action="ignore") for name in texts},
    )
    words = {name: f"{name[:-2]} [{unit}]" if name in times else name for name in table}
    return shown.rename(columns={name: word.replace("_", " ") for name, word in words.items()})


def draw_times(table: pd.DataFrame, key: str, unit: str = "µs", **more: Any) -> Any:
    """Draw a table of times ("mean_s") in microseconds or milliseconds, shares as bars; returns
    the selection.  more: arguments of `st.dataframe`.
    """
    shown = in_unit_of_time(table, unit)
    number, bar = st.column_config.NumberColumn, st.column_config.ProgressColumn
    config: dict[str, Any] = {
        **{name: number(format="%.2f") for name in shown if f"[{unit}]" in name},
        **{name: bar(format="percent", min_value=0, max_value=1)
           for name in shown if name.endswith("share")},
    }  # fmt: skip
    return draw_table(shown, key, **{"column_config": config, **more})


#: {scenario: {figure: ...}}; a figure is the name of a column, or the head of a time.
Comparison = Mapping[str, Mapping[str, Ranged]]


def row_figures(row: Mapping[str, Any]) -> dict[str, Ranged]:
    """The known figures of a row by column; only memory and devices if it cannot run.

    row: of `app.scenario.summary.facts` or `app.scenario.served_rows.table`.
    """
    figures = {}
    for name in _COMPARED if row["status"] == "ok" else _ALWAYS:
        value, low, high = (row.get(one) for one in (name, *ends(name)))
        if value is not None:
            # the paid tokens of a model that generates are those of its output
            paid = name == "usd_per_million_tokens" and "tpot_s" in row
            known = (nan, nan) if low is None or high is None else (float(low), float(high))
            figures["usd_per_mtok" if paid else name] = Ranged(float(value), *known)
    return figures


def class_times(estimate: Estimate) -> dict[str, Ranged]:
    """The time of each step of an estimate by operator class, of those that take any."""
    return {
        f"{phase}: {words}": times[kind]
        for phase in phases_of(estimate)
        for times in [operator_intervals.by_class(step_of(estimate, phase))]
        for kind, words in KIND_NAMES.items()
        if kind in times and times[kind].value
    }


def comparison_numbers(comparison: Comparison) -> pd.DataFrame:
    """A comparison in SI units: a row per figure, with its value and interval for each scenario."""
    return pd.DataFrame(
        {"figure": column.head, "unit": column.unit}
        | {
            f"{name}{end}": value
            for name, f in scenarios.items()
            for end, value in (("", f.value), (", 80 % low", f.low), (", 80 % high", f.high))
        }
        for column, scenarios in _by_figure(comparison)
    )


def comparison_words(
    comparison: Comparison, best: Mapping[str, str | None] | None = None
) -> pd.DataFrame:
    """A comparison in words: value, interval, and the change from the first scenario.

    best: the scenario with the best value, which gets a star, by figure.
    """
    first = next(iter(comparison))
    return pd.DataFrame(
        {"figure": column.head}
        | {
            name: ("★ " if best and best.get(column.name) == name else "")
            + _written(column, f)
            + _beside(scenarios[first].value if first in scenarios else nan, f.value)
            for name, f in scenarios.items()
        }
        for column, scenarios in _by_figure(comparison)
    )


def _by_figure(comparison: Comparison) -> Iterator[tuple[Column, dict[str, Ranged]]]:
    """Each figure with {scenario: ...}; a scenario without a figure (no price) has no entry."""
    for name in dict.fromkeys(figure for table in comparison.values() for figure in table):
        known = {
            scenario: table[name]
            for scenario, table in comparison.items()
            if name in table and not math.isnan(table[name].value)
        }
        if known:
            yield COLUMNS.get(name) or Column(name, name, "s"), known


def _written(column: Column, figure: Ranged) -> str:
    """A value with its unit, and with its interval if it has one that is not a single value."""
    words, (low, high) = column.words(figure.value), (figure.low, figure.high)
    timed = column.unit == "s" and column.statistic != "bound"
    if low == high or (math.isnan(low) and not timed):
        return words
    return f"{words} [{column.span(low, high)}]"


def _beside(before: float, value: float) -> str:
    """The change from the first scenario in brackets, "" if there is none."""
    if not (before and value) or math.isnan(before * value) or abs(value / before - 1) < 5e-4:
        return ""
    return unbroken(f"  ({quantities.change(before, value)})")


def height(table: pd.DataFrame) -> int:
    """Height of a table that shows all of its rows [px]."""
    return _ROW_PX * (len(table.index) + 1) + _FRAME_PX


def run_rows(runs: Iterable[KeptRun]) -> list[dict[str, Any]]:
    """A row per stored run: id, time, label, device, tags and the times of its phases."""
    return [
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
