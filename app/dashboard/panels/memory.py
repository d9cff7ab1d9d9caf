"""A device's memory by part, and the batch or input at which it is full."""

import pandas as pd
import streamlit as st

from app.charts import memory
from app.dashboard import cached, display_tables, export, second_memory, sidebar
from app.dashboard.widgets import card, choose, draw_table
from app.scenario.memory_rows import memory_rows
from app.wording import quantities
from app.wording.markdown import plain


def draw() -> None:
    """Draw the part."""
    setup, resolved, estimate = sidebar.priced_setup()
    look = export.look()
    s, usage = setup.scenario, estimate.memory
    AXES = {"batch": "Batch [sequences]", "isl": "Input length [tokens]"}
    OVER = {"batch": "batch", "input length": "isl"}
    POWERS = {"batch": range(0, 13), "isl": range(8, 21)}
    limits = {"usable": usage.usable_bytes, "capacity": usage.capacity_bytes}
    second = resolved.system.second_memory
    if usage.second:
        limits = {"first memory": usage.usable_bytes}
        limits[memory.BOTH] = usage.usable_bytes + usage.second.bytes
    usable = limits.get(memory.BOTH, usage.usable_bytes)
    EXPLANATION = f"""
**Weights** are what each operator holds on the fullest device, in its number format;
an image encoder's too, with or without images.
**KV cache** counts input + output tokens, rounded up to blocks of
{resolved.engine.kv_block_tokens}, with each layer's window, latent or state.
**Activations** are the largest operator's operands and a step's residual stream.
**Usable** = {quantities.percent(resolved.engine.memory_fraction)} of
{quantities.size(usage.capacity_bytes)}, as the engine takes it.
"""

    st.caption(
        sidebar.describe(setup)
        + f" · fullest device, {quantities.count(s.isl + s.osl)} tokens a sequence"
    )
    sidebar.say_unread(resolved)
    if estimate.message():
        message = estimate.message()
        st.warning(f"{plain(message[0].upper() + message[1:])}.", icon=":material/memory:")

    most_batch, most_input = cached.largest(setup)
    trained = resolved.model.max_context
    used = float(usage.total_bytes[0])
    free = usable - used
    with st.grid(4, min_column_width=150, key="cards"):
        card(
            "In use",
            quantities.size(used),
            f"{quantities.percent(used / usable)} of the usable",
        )
        card(
            "Free" if free >= 0 else "Missing",
            quantities.size(abs(free)),
            f"usable {quantities.size(usable)}",
            quantities.two_gigabytes(usage.capacity_bytes),
        )
        card(
            "Largest batch",
            quantities.count(most_batch),
            f"at {quantities.tokens(s.isl)} in, {quantities.tokens(s.osl)} out",
        )
        card(
            "Longest input [tokens]",
            quantities.count(most_input),
            f"batch {s.batch}" + (f"; trained to {quantities.tokens(trained)}" if trained else ""),
        )

    if second and not usage.second:
        st.caption(
            f"A second memory is not used: {plain(str(second))}. Choose *levels* under Offload in the "
            "sidebar, and it takes what does not fit."
        )
    if placed := memory_rows(estimate):
        draw_table(second_memory.frame(placed), "memory_levels")
        st.caption(second_memory.WORDS)

    parts = {name: float(getattr(usage, name)[0]) for name in memory.PARTS}
    bar = memory.single(parts, limits, look)
    export.chart(bar, "memory-now", "Memory of the scenario against capacity")

    @st.fragment
    def over_an_axis() -> None:
        """Draw the choice of an axis, the memory over it, its table and the exports."""
        axis = choose("Over", list(OVER), "memory_axis", default="batch")
        axis = OVER[axis]
        now, most = getattr(s, axis), most_batch if axis == "batch" else most_input
        values = tuple(sorted({2**power for power in POWERS[axis]} | {now}))
        sweep = cached.swept(setup, axis, values).memory
        table = {"at": list(values)} | {n: getattr(sweep, n).tolist() for n in memory.PARTS}
        over = memory.stacked(table, AXES[axis], limits, look, scenario_at=now)
        export.chart(over, "memory-over", f"Memory per device over {axis}")
        what = "sequences" if axis == "batch" else "input tokens"
        stops = (
            f"It stops fitting beyond {quantities.count(most)} {what}"
            if most
            else "It fits nowhere here"
        )
        st.caption(f"▲ the scenario. {stops}.")

        frame = pd.DataFrame(table).rename(columns={"at": axis})
        frame["memory_bytes_per_device"], frame["fits"] = sweep.total_bytes, sweep.fits
        display_tables.draw_figures(frame, "memory_table")
        with st.container(horizontal=True):
            with st.popover("How these numbers come about", icon=":material/function:"):
                st.markdown(EXPLANATION)
            export.downloads(
                "memory", {"memory now": bar, f"memory over {axis}": over}, frame, setup
            )

    over_an_axis()
