"""Formulas of module classes, their reviewers, and their figures at typed sizes."""

import math
import re
from collections.abc import Mapping
from typing import Any

import pandas as pd
import streamlit as st

from app.charts import kernels
from app.charts.figure import Figure
from app.dashboard import caches, export, sidebar
from app.dashboard.page_texts import page_text
from app.dashboard.widgets import card, draw_table
from app.scenario.setup import Setup
from app.wording import quantities
from app.wording.markdown import plain
from genz_core.systems import System
from model_registry.modules import read_entry
from model_registry.modules.entry import ModuleEntry
from model_registry.modules.store import stored_names

_WORDS = {
    "flops": "FLOPs",
    "read_bytes": "Bytes read",
    "write_bytes": "Bytes written",
    "intermediate_bytes": "Bytes inside",
}
#: Initial sizes of an entry, by symbol; others start at 1,024.
USUAL: Mapping[str, int] = {"batch": 1, "new_tokens": 1, "context": 1024, "kernel_size": 4}
_POWER = re.compile(r"\*\*(\d+)")
_SYMBOL = re.compile(r"\{(\w+)\}")


def found(words: str) -> list[tuple[str, str]]:
    """The entries whose class or model contains the words."""
    return [name for name in stored_names() if words in " @".join(name).casefold()]


def modules_panel(words: str, setup: Setup) -> None:
    """Draw the choice among the entries of a search, and the chosen one."""
    names = found(words)
    chosen = st.selectbox("Module", names, format_func=label, key="module_chosen")
    st.caption(page_text("modules", shown=len(names), all=len(stored_names())))
    if chosen is None:
        st.info("No entry name contains this text; try attention, mlp, norm or linear.")
        return
    with sidebar.stopping():
        entry = read_entry(*chosen)
        system = caches.resolved(setup).system
    st.subheader(plain(entry.module.rpartition(".")[2]), anchor=False)
    st.markdown(f"{plain(entry.module)}  \nfrom {plain(entry.source)}")
    if reviewed := entry.validated:
        said = f"Reviewed by {reviewed['by']} on {reviewed['on']}."
        st.success(plain(said), icon=":material/verified:")
    else:
        st.caption(page_text("not reviewed"))
    sizes, figures, charts = _at_sizes(entry, system)
    for figure, words in _WORDS.items():
        st.markdown(f"**{words}**")
        if figure in entry.formulas:
            st.latex(latex(entry.formulas[figure].text()), width="stretch")
        else:
            st.caption(page_text("no polynomial"))
    inside = [{"child": c.name, "class": c.module, "calls": c.count} for c in entry.children]
    if inside:
        draw_table(inside, "module_children")
    if entry.operators:
        runs = ", ".join(f"{many} {name}" for name, many in entry.operators.items())
        st.caption(f"Tensor operators: {plain(runs)}")
    export.downloads("module", charts, pd.DataFrame([{**sizes, **figures}]), setup, of_setup=False)


def _at_sizes(
    entry: ModuleEntry, system: System
) -> tuple[Mapping[str, int], Mapping[str, float], dict[str, Figure]]:
    """Draw the boxes of an entry's sizes and its figures; returns both, and the charts drawn."""
    st.subheader("At sizes", anchor=False)
    with st.grid(5, min_column_width=140):
        sizes = {
            symbol: st.number_input(
                symbol.replace("_", " "), 0, 10**9, USUAL.get(symbol, 1024),
                key=f"module_{symbol}", bind="query-params",
            )
            for symbol in entry.symbols
        }  # fmt: skip
    figures = entry.evaluate(**sizes)
    formats = [name for name in ("bf16", "fp16", "fp32", "fp8") if name in system.peak_flops_per_s]
    fmt = (formats or [*system.peak_flops_per_s])[0]
    rows = on_roofline(entry, figures, system, fmt)
    with st.grid(5, min_column_width=140, key="cards"):
        for figure, words in _WORDS.items():
            if figure in figures:
                shown = quantities.flops if figure == "flops" else quantities.size
                card(words, shown(figures[figure]), "16 bit" if figure != "flops" else "one call")
        for row in rows:
            card("Least time", quantities.seconds(row["time_s"]), f"bound by {row['bound']}",
                 "As one fused operator on one device of the sidebar's system.")  # fmt: skip
    if not rows:
        st.caption(page_text("no place"))
        return sizes, figures, {}
    drawn = kernels.counter_roofline(
        pd.DataFrame(rows), system.memory_bytes_per_s, {fmt: system.peak(fmt)}, export.look(),
        "memory traffic",
    )  # fmt: skip
    export.chart(drawn, "module-roofline", f"Roofline of {plain(system.name)}")
    return sizes, figures, {"roofline": drawn}


def label(name: tuple[str, str]) -> str:
    """The bare name of a class, with the model whose sizes it has."""
    bare = name[0].rpartition(".")[2]
    return f"{bare} · {name[1]}" if name[1] else bare


def latex(text: str) -> str:
    """A formula of an entry as LaTeX: "2*{new_tokens}**2" as a product with powers."""
    raised = _POWER.sub(r"^{\1}", text)
    named = _SYMBOL.sub(lambda m: r"\mathit{" + m[1].replace("_", r"\_") + "}", raised)
    return named.replace("*", r" \cdot ")


def on_roofline(
    entry: ModuleEntry, figures: Mapping[str, float], system: System, fmt: str
) -> list[dict[str, Any]]:
    """A point of `app.charts.kernels` for a module as one fused operator at its bound.

    figures: of `ModuleEntry.evaluate`.  fmt: arithmetic type.  Empty where it does no arithmetic,
    or has no formula of its bytes.
    """
    if not {"flops", "read_bytes", "write_bytes"} <= set(figures):
        return []
    flops, moved = figures["flops"], figures["read_bytes"] + figures["write_bytes"]
    if not (flops > 0.0 and moved > 0.0):
        return []
    compute_s, memory_s = flops / system.peak(fmt), moved / system.memory_bytes_per_s
    least_s = max(compute_s, memory_s)
    return [
        {
            "name": f"{entry.module.rpartition('.')[2]}, at its bound", "operator_class": "gemm",
            "count": 1, "time_s": least_s, "flops_per_byte": flops / moved,
            "flops_per_s": flops / least_s,
            "bound": "compute" if compute_s > memory_s else "memory",
            "at_least": False, "compute_pct": math.nan, "dram_pct": math.nan,
        }
    ]  # fmt: skip
