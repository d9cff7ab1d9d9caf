"""Stored runs: their list, the report or comparison of the selected ones, tags."""

from __future__ import annotations

import streamlit as st

from app.dashboard import display_tables, visitor
from app.dashboard.widgets import draw_table
from app.measuring import endpoint_run, run_store
from app.wording.markdown import plain, without_links
from profilers.store import Store

#: Part of page Measure that draws a stored run beside its prediction.
BESIDE = "Beside its prediction"


def all_kept_runs() -> None:
    """Draw the runs that the visitor may change and, separately, the server's runs."""
    own, *servers = run_store.stores()
    if not servers or visitor.rights().may_measure:
        _kept_runs(own, "Your runs" if servers else "Kept runs", "", may_change=True)
    for store in servers:
        _kept_runs(store, "Runs of this server", "_server", may_change=False)


def look_at(run: str) -> None:
    """Open the part that draws a stored run beside its prediction; a callback.  run: its id."""
    st.session_state.update(part=BESIDE, measured_run=run)


def _kept_runs(store: Store, title: str, key: str, *, may_change: bool) -> None:
    """Draw the list of a store's runs, and the report or comparison of the selected ones.

    key: ends the keys of its widgets.  may_change: whether the visitor may tag and delete them.
    """
    runs = store.runs()
    st.subheader(title, anchor=False)
    for sentence in store.left_out():
        st.warning(plain(sentence), icon=":material/warning:")
    if not runs:
        st.caption("None yet.")
        return
    event = draw_table(
        display_tables.run_table(runs), f"runs_table{key}",
        height="auto", on_select="rerun", selection_mode="multi-row",
    )  # fmt: skip
    chosen = [runs[at] for at in event["selection"]["rows"]] or runs[:1]
    if len(chosen) > 1:
        st.dataframe(store.compare(*(run.id for run in chosen)), hide_index=True)
        return
    run = chosen[0]
    folder = store.path(run.id)
    report = folder / "report.md"
    if report.is_file():
        with st.expander(f"Report of {run.id[:8]}", expanded=True):
            st.markdown(without_links(report.read_text(encoding="utf-8")))
    if run.source != endpoint_run.SOURCE:
        st.button("Compare with its prediction", on_click=look_at, args=(run.id,),
                  key=f"compare_run{key}", icon=":material/balance:")  # fmt: skip
    if not may_change:
        st.caption("Only whoever runs this server tags and deletes these runs.")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        tag = st.text_input("Tag", key="run_tag", max_chars=40, width=200)
        st.button("Add tag", on_click=store.tag, args=(run.id, tag), disabled=not tag.strip())
        st.button("Delete", on_click=store.delete, args=(run.id,), icon=":material/delete:")
