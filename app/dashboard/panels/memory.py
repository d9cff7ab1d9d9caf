"""A device's memory by part, the most users and the longest context that fit, and over an axis."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import streamlit as st

from app.charts import memory
from app.charts.figure import Figure
from app.dashboard import caches, display_tables, export, load_curves, sidebar
from app.dashboard.page_texts import page_text
from app.dashboard.panels.operators import Step
from app.dashboard.widgets import card, choose, draw_table
from app.scenario.memory_rows import memory_rows
from app.scenario.setup import Setup
from app.wording import quantities
from app.wording.markdown import capital, plain
from genz_core.limits import LIMITS
from genz_core.models.model_kinds import generates

AXES = {"batch": "Batch [sequences]", "isl": "Input length [tokens]"}
OVER = {"batch": "batch", "input length": "isl"}
#: A number of sequences or tokens that no question may state: memory does not limit it.
_UNLIMITED = LIMITS["batch"].most
POWERS = {"batch": range(0, 13), "isl": range(8, 21)}


def draw(step: Step) -> tuple[dict[str, Figure], pd.DataFrame]:
    """Draw what the memory of the device as it is holds, what fits, and the memory over an axis.

    Returns the charts by name, and the table of the memory over the axis.
    """
    setup = replace(step.setup, if_fitted=False)
    step = replace(
        step, setup=setup, resolved=caches.deployed(setup), estimate=caches.priced(setup)
    )
    resolved, usage, look = step.resolved, step.estimate.memory, step.look
    limits = {"usable": usage.usable_bytes, "capacity": usage.capacity_bytes}
    second = resolved.system.second_memory
    if usage.second:
        limits = {"first memory": usage.usable_bytes}
        limits[memory.BOTH] = usage.usable_bytes + usage.second.bytes
    usable = limits.get(memory.BOTH, usage.usable_bytes)
    if message := step.estimate.message():
        st.warning(f"{plain(capital(message))}.", icon=":material/memory:")
    _cards(step, usable)
    if second and not usage.second:
        st.caption(page_text("unused second memory", memory=plain(str(second))))
    if placed := memory_rows(step.estimate):
        draw_table(_levels(placed), "memory_levels")
        st.caption(page_text("second memory"))

    parts = {name: float(getattr(usage, name)[0]) for name in memory.PARTS}
    bar = memory.single(parts, limits, look)
    export.chart(bar, "memory-now", "Memory of the scenario and capacity")

    over, table = _over_an_axis(setup, limits, step)
    with st.popover("How these figures are computed", icon=":material/function:"):
        st.markdown(page_text("memory", engine=resolved.engine, usage=usage))
    return {"memory now": bar, **over}, table


def _cards(step: Step, usable: float) -> None:
    usage, s = step.estimate.memory, step.setup.scenario
    most_batch, most_input = caches.largest(step.setup)
    moved = 0.0 if usage.second else float(step.estimate.offloaded_bytes[0])
    used, without = float(usage.total_bytes[0]) - moved, "without offload, " if moved else ""
    asked, trained = sidebar.chosen_setup(), step.resolved.model.max_context
    made = s.osl if generates(step.resolved.model) else 0
    lengths = f"at {quantities.count(s.isl)} in{f', {quantities.count(made)} out' if made else ''}"
    if asked.scenario.kind in ("concurrency", "rate"):
        fit = int(load_curves.one_load(asked)["capacity"])
        most = ("Most users that fit", _most(fit), f"admitted, {lengths}")
    else:
        most = ("Largest batch that fits", _most(most_batch), f"{without}{lengths}")
    free, size = round(usable - used), quantities.size(usable)
    with st.grid(2, min_column_width=180, key="cards"):
        card("In use", quantities.size(used), f"{quantities.percent(used / usable)} of {size}")
        beside = f"{quantities.size(moved)} offloaded" if moved else f"usable {size}"
        card("Free" if free >= 0 else "Missing", quantities.size(abs(free)), beside,
             quantities.two_gigabytes(usage.capacity_bytes))  # fmt: skip
        card(*most)
        longest = _most(most_input, made) if most_input else "none"
        beyond = f"; trained to {quantities.count(trained)}" if trained else ""
        card("Longest context that fits", longest, f"{without}batch {s.batch:,}{beyond}",
             "Input plus output tokens of one sequence.")  # fmt: skip


def _most(largest: int, more: int = 0) -> str:
    """A largest size, with more added to it, in words: "any" if memory does not limit it."""
    return "any" if largest >= _UNLIMITED else quantities.count(largest + more)


def _over_an_axis(
    setup: Setup, limits: Mapping[str, float], step: Step
) -> tuple[dict[str, Figure], pd.DataFrame]:
    """Draw the choice of an axis, the memory over it and its table; returns chart and table."""
    axis = OVER[choose("Over", list(OVER), "memory_axis", default="batch")]
    now = getattr(setup.scenario, axis)
    most = caches.largest(setup)[0 if axis == "batch" else 1]
    values = tuple(sorted({2**power for power in POWERS[axis]} | {now}))
    sweep = caches.swept(setup, axis, values).memory
    table = {"at": list(values)} | {n: getattr(sweep, n).tolist() for n in memory.PARTS}
    over = memory.stacked(table, AXES[axis], limits, step.look, scenario_at=now)
    export.chart(over, "memory-over", f"Memory per device over {axis}")
    what = "sequences" if axis == "batch" else "input tokens"
    fits = page_text("stops fitting", most=most, what=what) if most else page_text("never fits")
    fits = page_text("always fits", what=what) if most >= _UNLIMITED else fits
    host = setup.scenario.offload and not step.estimate.memory.second
    st.caption(f"▲ marks this scenario. {fits}{' Offload is left out.' if host else ''}")
    frame = pd.DataFrame(table).rename(columns={"at": axis})
    frame["memory_bytes_per_device"], frame["fits"] = sweep.total_bytes, sweep.fits
    display_tables.draw_figures(frame, "memory_table")
    return {f"memory over {axis}": over}, frame


def _levels(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The rows of `app.scenario.memory_rows` in words."""
    sizes = {"capacity": "bytes", "weights": "weights_bytes", "cache": "cache_bytes"}
    return pd.DataFrame(
        {
            "memory": row["memory"],
            **{words: quantities.size(row[name]) for words, name in sizes.items()},
            "bandwidth": quantities.bandwidth(row["bytes_per_s"]),
            "a decode step reads": quantities.size(row["read_bytes"]),
            "in at least": quantities.seconds(row["read_s"]),
        }
        for row in rows
    )
