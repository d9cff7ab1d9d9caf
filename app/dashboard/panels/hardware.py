"""Systems with the source of every figure, filtered, and a form to add one."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

import hardware_db
from app.charts import hardware
from app.dashboard import export, library_tables, own_definitions, sidebar
from app.dashboard.page_texts import page_text
from app.dashboard.widgets import draw_table
from app.scenario.setup import Setup
from app.scenario.system_facts import figure_rows, latency_words, note_words, peak_words
from app.wording.markdown import plain
from genz_core.errors import RidgelineError
from genz_core.systems import System
from hardware_db import yaml_document

#: Assumptions shown beside the chart.
_SHOWN = 6
_FIELDS = yaml_document.read(Path(__file__).with_name("own_system.yaml"))


def found(words: str) -> dict[str, System]:
    """The systems whose name contains the words, or all of their vendor."""
    return {
        name: system
        for name, system in library_tables.readable_systems().items()
        if words in f"{name} {system.name} {system.vendor}".casefold()
    }


def hardware_panel(words: str, setup: Setup) -> None:
    """Draw the systems of a search, the chosen one, and a form for another."""
    systems = found(words)
    vendors = sorted({system.vendor for system in systems.values()})
    kinds = [kind for kind in hardware.KINDS if any(s.kind == kind for s in systems.values())]
    usual: dict[str, Any] = {"placeholder": "All", "bind": "query-params", "width": 320}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        wanted = st.multiselect("Vendor", vendors, key="vendor", **usual) or vendors
        shapes = st.multiselect("Kind", kinds, key="kind", **usual,
                                format_func=lambda kind: hardware.KINDS[kind][0])  # fmt: skip
    shown = {
        name: system
        for name, system in systems.items()
        if system.vendor in wanted and system.kind in (shapes or kinds)
    }
    if shown:
        _systems(shown, setup)
    else:
        st.info("No system matches; relax the search or a filter.")
    with st.expander("Add your own hardware", icon=":material/add:", key="own_hardware"):
        _own()


def _systems(shown: Mapping[str, System], setup: Setup) -> None:
    rows = [library_tables.system_row(name, system) for name, system in shown.items()]
    table = pd.DataFrame(rows)
    every = len(library_tables.readable_systems())
    st.caption(page_text("systems", shown=len(table), all=every))
    number = st.column_config.NumberColumn(format="%.4g")
    event = draw_table(
        table, "systems_table",
        height=330, on_select="rerun", selection_mode="single-row",
        column_config={"name": st.column_config.TextColumn(pinned=True), "slug": None}
        | {name: number for name in table.columns if "[" in name},
    )  # fmt: skip
    selected = event["selection"]["rows"]
    name = str(table["slug"].iloc[selected[0]]) if selected else setup.scenario.system
    with suppress(RidgelineError):
        name = name if name in shown else hardware_db.load(name).slug  # an alias
    name = name if name in shown else str(table["slug"].iloc[0])
    words = {slug: library_tables.system_words(system) for slug, system in shown.items()}
    figure = hardware.plane(shown, words, export.look(), chosen=name)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        export.chart(figure, "hardware", "Dense peak over memory bandwidth; one point per system")
    with right:
        _chosen(name, shown[name])
    with sidebar.stopping():
        own = name in own_definitions.own_texts("systems")
        facts = [] if own else figure_rows(hardware_db.facts(name))
    if facts:
        st.subheader("Every figure and its source", anchor=False)
        draw_table(
            facts, "facts", height=360, placeholder="",
            column_config={
                "link": st.column_config.LinkColumn(display_text="open"),
                "value": st.column_config.NumberColumn(format="%.6g"),
            },
        )  # fmt: skip
    export.downloads("systems", {"systems": figure}, table, setup, of_setup=False)


def _chosen(name: str, system: System) -> None:
    st.subheader(plain(system.name), anchor=False)
    st.button("Use it in the scenario", on_click=own_definitions.choose("systems", name),
              key="use_system", icon=":material/check:")  # fmt: skip
    if system.links:
        st.caption(f"Links: {plain(library_tables.wiring_words(system))}.")
    if noted := note_words(system):
        st.caption(plain(noted))
    st.caption(f"{peak_words(system)} {plain(latency_words(system))}")
    if notes := [f"- {plain(note)}" for note in system.assumptions]:
        st.caption("Assumed, because the datasheet does not state it:")
        st.caption("\n".join(notes[:_SHOWN]))
    if more := notes[_SHOWN:]:
        st.caption(f"and {len(more)} more, of kind *assumed* in the table below.")


def _own() -> None:
    typed, pasted = st.tabs(["Form", "YAML"])
    with typed, st.form("hardware_form"):
        called = st.text_input("Name", "My accelerator", max_chars=60)
        with st.grid(4, min_column_width=180):
            values = {
                path: st.number_input(label, 0.0, None, value)
                for path, (label, value) in _FIELDS.items()
            }
        if st.form_submit_button("Add"):
            own_definitions.keep("systems", called, own_definitions.system_yaml(called, values))
    with pasted:
        text = st.text_area(
            "System YAML", height=260, key="yaml",
            placeholder="include: h100-sxm5-80gb\nid: my-h100\nname: My H100",
        )  # fmt: skip
        if st.button("Read it", key="read_yaml"):
            own_definitions.keep("systems", "pasted", text)
    own_definitions.show_outcome("systems")
