"""Page Hardware: the systems with the source of every figure, filtered, and a form to add one."""

from contextlib import suppress

import pandas as pd
import streamlit as st

import hardware_db
from app.charts import hardware
from app.dashboard import export, library_tables, own_definitions, sidebar
from app.dashboard.widgets import draw_table
from app.scenario.system_facts import latency_words, peak_words
from app.wording.markdown import plain
from genz_core.errors import RidgelineError

SHOWN = 6  # assumptions beside the chart

setup = sidebar.chosen_setup()
systems = library_tables.readable_systems()

st.title("Hardware", anchor=False)
vendors = sorted({system.vendor for system in systems.values()})
kinds = [kind for kind in hardware.KINDS if any(s.kind == kind for s in systems.values())]
with st.container(horizontal=True, vertical_alignment="bottom"):
    wanted = st.multiselect(
        "Vendor", vendors, placeholder="All", key="vendor", bind="query-params", width=320
    )
    shape = st.pills(
        "Kind",
        kinds,
        selection_mode="multi",
        format_func=hardware.KINDS.get,
        key="kind",
        bind="query-params",
        width=330,
    )
    find = st.text_input(
        "Name contains", key="find_system", bind="query-params", width=220
    ).casefold()
shown = {
    name: system
    for name, system in systems.items()
    if (not wanted or system.vendor in wanted)
    and (not shape or system.kind in shape)
    and find in f"{name} {system.name}".casefold()
}
if not shown:
    st.info("No system is like that; loosen a filter.")
    st.stop()

table = pd.DataFrame([library_tables.system_row(name, system) for name, system in shown.items()])
st.caption(
    f"{len(table)} of {len(systems)} systems, peaks dense. A chosen row shows its sources below."
)
event = draw_table(
    table, "systems_table",
    height=330, on_select="rerun", selection_mode="single-row",
    column_config={"name": st.column_config.TextColumn(pinned=True), "slug": None}
    | {name: st.column_config.NumberColumn(format="%.4g") for name in table.columns if "[" in name},
)  # fmt: skip
rows = event["selection"]["rows"]
name = str(table["slug"].iloc[rows[0]]) if rows else setup.scenario.system
if name not in systems:
    with suppress(RidgelineError):
        name = hardware_db.load(name).slug  # an alias
if name not in systems:
    name = str(table["slug"].iloc[0])

figure = hardware.plane(
    [library_tables.system_point(*item) for item in shown.items()], export.look(), chosen=name
)
left, right = st.columns([3, 2], gap="medium")
with left:
    export.chart(figure, "systems", "Dense peak over memory bandwidth, a point a system")
with right:
    st.subheader(plain(systems[name].name), anchor=False)
    st.button(
        "Use it in the scenario",
        on_click=own_definitions.choose("systems", name),
        key="use_system",
        icon=":material/check:",
    )
    if systems[name].links:
        st.caption(f"Wired: {plain(library_tables.wiring_words(systems[name]))}.")
    st.caption(f"{peak_words(systems[name])} {plain(latency_words(systems[name]))}")
    notes = systems[name].assumptions
    if notes:
        st.caption("Assumed, where the datasheet says nothing:")
        st.caption("\n".join(f"- {plain(note)}" for note in notes[:SHOWN]))
    if len(notes) > SHOWN:
        st.caption(f"and {len(notes) - SHOWN} more, of kind *assumed* in the table below.")
with sidebar.stopping():
    facts = (
        pd.DataFrame()
        if name in own_definitions.own_texts("systems")
        else library_tables.system_facts(name)
    )
if len(facts):
    st.subheader("Every figure and its source", anchor=False)
    draw_table(
        facts, "facts", height=360, placeholder="",
        column_config={
            "link": st.column_config.LinkColumn(display_text="open"),
            "value": st.column_config.NumberColumn(format="%.6g"),
        },
    )  # fmt: skip

st.subheader("Add your own", anchor=False)
typed, pasted = st.tabs(["Form", "YAML"])
FIELDS = {
    "peak_dense_tflops.bf16": ("Dense bf16 peak [TFLOP/s]", 1000.0),
    "peak_dense_tflops.fp8": ("Dense fp8 peak [TFLOP/s], 0: none", 2000.0),
    "memory_gb": ("Memory [GB]", 96.0),
    "memory_gb_per_s": ("Memory bandwidth [GB/s]", 4000.0),
    "links.scale_up.gb_per_s": ("Link, per direction [GB/s], 0: none", 450.0),
    "links.scale_up.latency_us": ("Link latency [µs]", 1.5),
    "links.scale_up.domain": ("Devices in the link's domain", 8.0),
    "tdp_w": ("Power [W], 0: unknown", 700.0),
}
with typed, st.form("hardware_form"):
    called = st.text_input("Name", "My accelerator", max_chars=60)
    with st.grid(4, min_column_width=180):
        values = {
            path: st.number_input(label, 0.0, None, value)
            for path, (label, value) in FIELDS.items()
        }
    if st.form_submit_button("Add"):
        own_definitions.keep("systems", called, own_definitions.system_yaml(called, values))
with pasted:
    text = st.text_area(
        "System YAML",
        height=260,
        placeholder="include: h100-sxm5-80gb\nid: my-h100\nname: My H100",
        key="yaml",
    )
    if st.button("Read it", key="read_yaml"):
        own_definitions.keep("systems", "pasted", text)
own_definitions.show_outcome("systems")
export.downloads("systems", {"systems": figure}, table, setup)
