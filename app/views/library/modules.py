"""Page Modules: formulas of module classes, who reviewed them, their figures at sizes typed in."""

import pandas as pd
import streamlit as st

from app.charts import roofline
from app.dashboard import cached, export, module_entries, sidebar
from app.dashboard.widgets import card, draw_table
from app.wording import quantities
from app.wording.markdown import plain
from model_registry.modules import read_entry

setup = sidebar.chosen_setup()
WORDS = {
    "flops": "FLOPs",
    "read_bytes": "Bytes read",
    "write_bytes": "Bytes written",
    "intermediate_bytes": "Bytes inside",
}

st.title("Modules", anchor=False)
every = module_entries.names()
with st.container(horizontal=True, vertical_alignment="bottom"):
    find = st.text_input(
        "Class or model contains", key="find_module", bind="query-params", width=260
    ).casefold()
    found = [name for name in every if find in " @".join(name).casefold()]
    chosen = st.selectbox("Module", found, format_func=module_entries.label, key="module_chosen")
st.caption(
    f"{len(found)} of {len(every)} entries, derived by tracing. A class alone has formulas in its "
    "own sizes; a class of a model in batch, new tokens and context at that model's sizes. "
    "`ridgeline modules derive` adds others."
)
if chosen is None:
    st.info("No entry has that in its name: try attention, mlp, norm or linear.")
    st.stop()
with sidebar.stopping():
    entry = read_entry(*chosen)
    system = cached.resolved(setup).system

st.subheader(plain(entry.module.rpartition(".")[2]), anchor=False)
st.markdown(f"{plain(entry.module)}  \nfrom {plain(entry.source)}")
if entry.validated:
    reviewed = f"Reviewed by {entry.validated['by']} on {entry.validated['on']}."
    st.success(plain(reviewed), icon=":material/verified:")
else:
    st.caption(
        "Reviewed by nobody yet: compare the formulas with the source, then "
        "`ridgeline modules validate NAME --by WHO`."
    )
for figure, words in WORDS.items():
    st.markdown(f"**{words}**")
    if figure in entry.formulas:
        st.latex(module_entries.latex(entry.formulas[figure].text()), width="stretch")
    else:
        st.caption("No polynomial gives it: how many experts are read depends on the tokens.")

st.subheader("At sizes", anchor=False)
with st.grid(5, min_column_width=140):
    sizes = {
        symbol: st.number_input(
            symbol.replace("_", " "), 0, 10**9, module_entries.USUAL.get(symbol, 1024),
            key=f"module_{symbol}", bind="query-params",
        )
        for symbol in entry.symbols
    }  # fmt: skip
figures = entry.evaluate(**sizes)
formats = [name for name in ("bf16", "fp16", "fp32", "fp8") if name in system.peak_flops_per_s]
fmt = (formats or [*system.peak_flops_per_s])[0]
rows = module_entries.on_roofline(entry, figures, system, fmt)
with st.grid(5, min_column_width=140, key="cards"):
    for figure, words in WORDS.items():
        if figure in figures:
            shown = quantities.flops if figure == "flops" else quantities.size
            card(words, shown(figures[figure]), "16 bit" if figure != "flops" else "one call")
    for row in rows:
        card("Least time", quantities.seconds(row["bound_s"]), f"bound by {row['bound']}",
             "As one fused operator on one device of the sidebar's system.")  # fmt: skip
charts = {}
if rows:
    look = export.look()
    charts["roofline"] = roofline.roofline(rows, system, roofline.frame(rows, system), look)
    module_entries.at_its_bound(charts["roofline"])
    export.chart(charts["roofline"], "module-roofline", f"Roofline of {plain(system.name)}")
else:
    st.caption("No arithmetic at these sizes, or no formula of its bytes: no place on a roofline.")
inside = pd.DataFrame(
    [{"child": c.name, "class": c.module, "calls": c.count} for c in entry.children]
)
if len(inside):
    draw_table(inside, "module_children")
if entry.operators:
    runs = ", ".join(f"{many} {name}" for name, many in entry.operators.items())
    st.caption(f"Tensor operators: {plain(runs)}")
table = pd.DataFrame([{**sizes, **figures}])
export.downloads("module", charts, table, setup)
