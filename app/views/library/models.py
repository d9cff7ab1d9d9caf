"""Page Models: the models with their shapes, filtered, and a box to add one."""

import pandas as pd
import streamlit as st

from app.dashboard import export, library_tables, own_definitions, sidebar
from app.dashboard.widgets import choose, draw_table
from app.wording.markdown import plain
from genz_core.errors import RidgelineError

setup = sidebar.chosen_setup()
table = library_tables.shipped_models()

st.title("Models", anchor=False)
with st.container(horizontal=True, vertical_alignment="bottom"):
    find = st.text_input(
        "Name or type contains", key="find_model", bind="query-params", width=260
    ).casefold()
    sparse = choose(
        "Kind", ["All", "Dense", "Mixture of experts"], "model_kind", default="All", width=280
    )
    least, most = st.select_slider(
        "Parameters [B]",
        [0, 1, 3, 10, 30, 100, 300, 1000, 10000],
        value=(0, 10000),
        key="model_size",
        bind="query-params",
    )
text = (table["name"] + " " + table["type"]).str.casefold()
parameters, active = table["parameters [B]"], table["active [B]"]
is_sparse = active < 0.99 * parameters
keep = text.str.contains(find, regex=False) & parameters.between(least, most)
if sparse != "All":
    keep &= is_sparse if sparse == "Mixture of experts" else ~is_sparse
shown = table[keep].reset_index(drop=True)
st.caption(
    f"{len(shown)} of {len(table)} models. Choose a row to see its shape. Confirmed: the shape "
    "agrees with a published parameter count or with transformers' own model."
)
number = st.column_config.NumberColumn
event = draw_table(
    shown, "models_table",
    height=380, on_select="rerun", selection_mode="single-row",
    column_config={
        "name": st.column_config.TextColumn(pinned=True),
        "parameters [B]": number(format="%.4g", help="Embeddings counted once"),
        "active [B]": number(format="%.4g", help="What one token uses"),
        "context [tokens]": number(format="localized"),
    },
)  # fmt: skip
rows = event["selection"]["rows"]
name = str(shown["name"].iloc[rows[0]]) if rows else setup.scenario.model
config = own_definitions.own_texts("models").get(name, "")

st.subheader(plain(name), anchor=False)
try:
    facts = library_tables.model_facts(name, config)
except RidgelineError as error:
    st.error(plain(error), icon=":material/error:")
    facts = {}
if facts:
    draw_table(pd.DataFrame(facts.items(), columns=["fact", "value"]), "model_facts")
    with st.container(horizontal=True, vertical_alignment="center"):
        st.button(
            "Use it in the scenario",
            on_click=own_definitions.choose("models", name),
            key="use_model",
            icon=":material/check:",
        )
        st.page_link("views/explain.py", label="See inside the scenario's model")

st.subheader("Add your own", anchor=False)
st.caption("A Hugging Face config.json; nothing of it is run, and it stays in this session.")
called = st.text_input("Name", "my-model", max_chars=60, key="config_name")
pasted = st.text_area(
    "config.json",
    height=220,
    placeholder='{"model_type": "llama", "hidden_size": 4096, ...}',
    key="config",
)
if st.button("Read it", key="read_config"):
    own_definitions.keep("models", called, pasted)
own_definitions.show_outcome("models")
export.downloads("models", {}, shown, setup)
