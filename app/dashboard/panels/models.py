"""Models with their shapes, filtered, and a box to add one."""

import pandas as pd
import streamlit as st

from app.dashboard import export, library_tables, own_definitions
from app.dashboard.page_texts import page_text
from app.dashboard.widgets import choose, draw_table, saying_errors
from app.scenario.setup import Setup
from app.wording.markdown import plain

_ALL, _DENSE, _EXPERTS = "All", "Dense", "Mixture of experts"


def found(words: str) -> pd.DataFrame:
    """The models whose name or type contains the words."""
    table = library_tables.shipped_models()
    text = (table["name"] + " " + table["type"]).str.casefold()
    return table[text.str.contains(words, regex=False)]


def models_panel(words: str, setup: Setup) -> None:
    """Draw the models of a search, the facts of the chosen one, and a box for another."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        sparse = choose("Kind", [_ALL, _DENSE, _EXPERTS], "model_kind", width=280)
        least, most = st.select_slider(
            "Parameters [B]", [0, 1, 3, 10, 30, 100, 300, 1000, 10000], value=(0, 10000),
            key="model_size", bind="query-params",
        )  # fmt: skip
    table = found(words)
    parameters, active = table["parameters [B]"], table["active [B]"]
    keep = parameters.between(least, most)
    if sparse != _ALL:
        keep &= (active < 0.99 * parameters) == (sparse == _EXPERTS)
    shown = table[keep].reset_index(drop=True)
    st.caption(page_text("models", shown=len(shown), all=len(library_tables.shipped_models())))
    number = st.column_config.NumberColumn
    event = draw_table(
        shown, "models_table",
        height=380, on_select="rerun", selection_mode="single-row",
        column_config={
            "name": st.column_config.TextColumn(pinned=True),
            "parameters [B]": number(format="%.4g", help="Embeddings counted once"),
            "active [B]": number(format="%.4g", help="Parameters that one token uses"),
            "context [tokens]": number(format="localized"),
        },
    )  # fmt: skip
    rows = event["selection"]["rows"]
    usual = setup.scenario.model
    if words and len(shown) and usual not in set(shown["name"]):
        usual = str(shown["name"].iloc[0])
    _facts(str(shown["name"].iloc[rows[0]]) if rows else usual)
    with st.expander("Add your own model", icon=":material/add:", key="own_model"):
        _own()
    export.downloads("models", {}, shown, setup, of_setup=False)


def _facts(name: str) -> None:
    """Draw the facts of a model, and what can be done with it."""
    st.subheader(plain(name), anchor=False)
    with saying_errors():
        config = own_definitions.own_texts("models").get(name, "")
        facts = library_tables.model_facts(name, config)
        draw_table(pd.DataFrame(facts.items(), columns=["fact", "value"]), "model_facts")
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button("Use it in the scenario", on_click=own_definitions.choose("models", name),
                      key="use_model", icon=":material/check:")  # fmt: skip
            st.page_link("views/explain.py", label="See inside the scenario's model",
                         query_params={"part": "Model inside"})  # fmt: skip


def _own() -> None:
    st.caption("A Hugging Face config.json. No code is run, and the config stays in this session.")
    called = st.text_input("Name", "my-model", max_chars=60, key="config_name")
    pasted = st.text_area(
        "config.json", height=220, key="config",
        placeholder='{"model_type": "llama", "hidden_size": 4096, ...}',
    )  # fmt: skip
    if st.button("Read it", key="read_config"):
        own_definitions.keep("models", called, pasted)
    own_definitions.show_outcome("models")
